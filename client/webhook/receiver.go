package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Options configures a [Receiver]. Zero values mean the defaults.
type Options struct {
	// MaxRegistrations is the maximum number of registrations. Default 1,000.
	MaxRegistrations int
	// MaxBody is the maximum length of a delivery, in bytes. Default and maximum 256 KiB, which
	// is also the most that servers send.
	MaxBody int64
	// MaxDeliveries is how many deliveries of all registrations are in progress at a time, and at
	// most 4 of one registration. Others are answered 503. Default 64.
	MaxDeliveries int
	// Remember is how many acknowledged ids are remembered for each registration. Default 1,000.
	Remember int
	// Timeout bounds reading a delivery, then its wait for the handler, and then the context of the
	// handler. Default 5 seconds each. Servers wait about 10 seconds.
	Timeout time.Duration
	// Logger receives the errors of handlers. Default: slog.Default().
	Logger *slog.Logger
}

const (
	defaultRegistrations = 1000
	defaultDeliveries    = 64
	defaultRemember      = 1000
	defaultTimeout       = 5 * time.Second
	// rotation is how long the secret before a rotation is accepted too.
	rotation = 15 * time.Minute
	// maxUnbound is how many registrations may have no id. Each is tried on a challenge.
	maxUnbound = 100
	// maxChallenge is the maximum length of a challenge for a registration without id, in bytes.
	maxChallenge = 4 << 10
	// maxInProgress is how many deliveries of a registration are in progress: one is handled, the
	// others wait for it.
	maxInProgress = 4
)

// A Receiver is the http.Handler of a callback URL. Its methods may be called concurrently. Use
// [New].
type Receiver struct {
	options Options
	slots   chan struct{} // has a value for each delivery in progress

	mu      sync.Mutex
	count   int                        // of registrations
	bound   map[string][]*Registration // by id of the subscription; servers may choose equal ids
	unbound map[*Registration]struct{} // without id
	targets map[target]struct{}        // of registrations by Subscribe
}

// New returns a Receiver. opts may be nil. It returns an error for an invalid option.
func New(opts *Options) (*Receiver, error) {
	var options Options
	if opts != nil {
		options = *opts
	}
	options.MaxRegistrations = cmp.Or(options.MaxRegistrations, defaultRegistrations)
	options.MaxBody = cmp.Or(options.MaxBody, webhook.MaxBody)
	options.MaxDeliveries = cmp.Or(options.MaxDeliveries, defaultDeliveries)
	options.Remember = cmp.Or(options.Remember, defaultRemember)
	options.Timeout = cmp.Or(options.Timeout, defaultTimeout)
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	for name, n := range map[string]int64{
		"MaxRegistrations": int64(options.MaxRegistrations), "MaxBody": options.MaxBody,
		"MaxDeliveries": int64(options.MaxDeliveries), "Remember": int64(options.Remember), "Timeout": int64(options.Timeout),
	} {
		if n < 0 {
			return nil, fmt.Errorf("webhook: Options.%s is negative", name)
		}
	}
	if options.MaxBody > webhook.MaxBody {
		return nil, fmt.Errorf("webhook: Options.MaxBody is more than %d bytes", webhook.MaxBody)
	}
	return &Receiver{
		options: options, slots: make(chan struct{}, options.MaxDeliveries),
		bound: map[string][]*Registration{}, unbound: map[*Registration]struct{}{},
		targets: map[target]struct{}{},
	}, nil
}

// A Type is the type of a delivery.
type Type string

// The types of deliveries.
const (
	// Event: an event has occurred.
	Event Type = "event"
	// Gap: events before this delivery were lost.
	Gap Type = webhook.TypeGap
	// Terminated: the server has ended the subscription.
	Terminated Type = webhook.TypeTerminated
)

// A Delivery is a message of a server for one subscription.
type Delivery struct {
	// ID is the webhook-id. The webhook-id of an event is its eventId. A gap that the server reports in the result of
	// events/subscribe gets an id from [Subscribe].
	ID string
	// Subscription is the id of the subscription.
	Subscription string
	Type         Type
	// Body is the JSON as the server has sent it. The Body of an Event is the event occurrence. The receiver may keep
	// it.
	Body json.RawMessage
	// Cursor is the position to be stored with an Event or a Gap, for the next subscription. It
	// is nil if the event cannot be replayed.
	Cursor *string
	// Error is the reason of Terminated.
	Error *jsonrpc.Error
}

// A Handler stores a delivery, or passes it on. Its context ends after [Options].Timeout. With an
// error, the server sends the delivery again.
type Handler func(ctx context.Context, d Delivery) error

// ErrFull means that the receiver has as many registrations as it may have.
var ErrFull = errors.New("webhook: there are too many registrations")

// ServeHTTP handles one delivery.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if err := r.serve(w, req); err != nil {
		var refused *refusal
		if !errors.As(err, &refused) {
			refused = busy
		}
		if refused.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		if refused.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "5")
		}
		http.Error(w, refused.text, refused.status)
	}
}

// A refusal is a response to a delivery that was not accepted.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

var busy = &refusal{http.StatusServiceUnavailable, "the delivery cannot be handled now"}

func (r *Receiver) serve(w http.ResponseWriter, req *http.Request) error {
	id := req.Header.Get(webhook.SubscriptionHeader)
	kind, _, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	switch {
	case req.Method != http.MethodPost:
		return &refusal{http.StatusMethodNotAllowed, "a delivery is a POST request"}
	case err != nil || kind != "application/json":
		return &refusal{http.StatusUnsupportedMediaType, "a delivery is application/json"}
	case !signature.IsID(id) || req.Header.Get(signature.HeaderID) == "" ||
		req.Header.Get(signature.HeaderTimestamp) == "" || req.Header.Get(signature.HeaderSignature) == "":
		return &refusal{http.StatusBadRequest, "a header of the delivery is missing"}
	case req.ContentLength > r.options.MaxBody:
		return &refusal{http.StatusRequestEntityTooLarge, "the delivery is too long"}
	}
	if !r.expects(id, req.ContentLength) {
		return busy
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	default:
		return busy
	}
	// Not every ResponseWriter has deadlines; the server's own then apply.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(r.options.Timeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, r.options.MaxBody))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return &refusal{http.StatusRequestEntityTooLarge, "the delivery is too long"}
	}
	if err != nil {
		return &refusal{http.StatusBadRequest, "the delivery cannot be read"}
	}
	registration, err := r.authenticate(id, req.Header, body)
	if err != nil {
		return err
	}
	d, challenge, err := parse(body)
	if err != nil {
		return err
	}
	d.ID, d.Subscription = req.Header.Get(signature.HeaderID), id
	switch {
	case challenge != "":
		return r.answer(w, registration, id, challenge)
	case !r.isBound(registration, id):
		return busy // the result of events/subscribe has not arrived yet
	}
	err = registration.accept(req.Context(), d)
	if err != nil && !errors.Is(err, busy) {
		r.options.Logger.Error("a delivery was not handled", "subscription", d.Subscription, "event", d.ID, "error", err)
	}
	return err
}

// expects reports whether a delivery of a length, -1 if it is not known, may be for a registration.
func (r *Receiver) expects(id string, length int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bound[id]) > 0 || len(r.unbound) > 0 && length <= maxChallenge
}

// authenticate returns the registration that has signed a delivery.
func (r *Receiver) authenticate(id string, header http.Header, body []byte) (*Registration, error) {
	type candidate struct {
		*Registration
		secrets []webhook.Secret
	}
	now := time.Now()
	var candidates []candidate
	r.mu.Lock()
	for _, g := range r.bound[id] {
		candidates = append(candidates, candidate{g, g.secrets(now)})
	}
	known := len(candidates) > 0
	if len(body) <= maxChallenge { // another server may have chosen the same id
		for g := range r.unbound {
			candidates = append(candidates, candidate{g, g.secrets(now)})
		}
	}
	r.mu.Unlock()
	for _, c := range candidates {
		for _, secret := range c.secrets {
			err := signature.Verify(header, secret, body)
			switch {
			case err == nil:
				return c.Registration, nil
			case !errors.Is(err, signature.ErrSignature):
				return nil, &refusal{http.StatusBadRequest, "a signature header of the delivery is malformed, or too old"}
			}
		}
	}
	if !known {
		return nil, busy
	}
	return nil, &refusal{http.StatusUnauthorized, "the signature of the delivery is not valid"}
}

func (r *Receiver) isBound(g *Registration, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return g.id == id && !g.closed
}

// answer repeats a challenge. A registration without id gets the id of the request.
func (r *Receiver) answer(w http.ResponseWriter, g *Registration, id, challenge string) error {
	r.mu.Lock()
	err := g.bindLocked(id)
	r.mu.Unlock()
	if err != nil {
		return busy
	}
	body, err := json.Marshal(webhook.Challenge{Challenge: challenge})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the server notices
	return nil
}

// parse reads the members of a body that decide something.
func parse(body []byte) (d Delivery, challenge string, err error) {
	malformed := &refusal{http.StatusBadRequest, "the delivery is malformed"}
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return d, "", malformed
	}
	d.Type, d.Body = Event, body
	if raw := members.Get("type"); raw != nil {
		kind, ok := text(raw)
		if !ok {
			return d, "", malformed
		}
		d.Type = Type(kind)
	}
	if raw := members.Get("cursor"); jsonscan.IsPresent(raw) {
		cursor, ok := text(raw)
		if !ok {
			return d, "", malformed
		}
		d.Cursor = &cursor
	}
	switch d.Type {
	case Event:
		if jsonscan.KindOf(members.Get("data")) != jsonscan.Object {
			return d, "", malformed
		}
	case Gap:
	case Terminated:
		d.Error = &jsonrpc.Error{}
		if json.Unmarshal(members.Get("error"), d.Error) != nil {
			return d, "", malformed
		}
	case webhook.TypeVerification:
		var ok bool
		if challenge, ok = text(members.Get("challenge")); !ok || challenge == "" {
			return d, "", malformed
		}
	default:
		// A type of a later version: it is acknowledged, since it would be sent again otherwise.
	}
	return d, challenge, nil
}

// text returns the value of a raw string.
func text(raw []byte) (value string, ok bool) {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return "", false
	}
	return jsonscan.Unquote(raw), true
}

func (d *Delivery) known() bool { return d.Type == Event || d.Type == Gap || d.Type == Terminated }
