package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// SubscribeOptions configures [Subscribe]. The zero value is valid.
type SubscribeOptions struct {
	// Cursor is the position to begin after: the Cursor of the last [Delivery] that the program has stored. Default:
	// begin now.
	Cursor string
	// MaxAge leaves out events after Cursor that are older. Default: none.
	MaxAge time.Duration
	// TTL is the lifetime that is suggested to the server. The server decides. Default: the default of the server.
	TTL time.Duration
	// OnCursor is called with the position that the server reports when the subscription is refreshed,
	// so that the stored one advances while nothing happens. It is not called if a delivery has moved
	// the position since the refresh began. No handler runs during the call, so it must return soon,
	// and must not call Close. nil means that it is not called.
	OnCursor func(cursor string)
	// OnStatus is called with the state of the deliveries when the subscription is refreshed. nil means
	// that it is not called.
	OnStatus func(status mcp.DeliveryStatus)
	// Logger receives messages about refreshes that fail. Default: slog.Default().
	Logger *slog.Logger
}

// A target is what identifies a subscription of a session for its server (SEP-3415, Subscription
// identity).
type target struct {
	session               *client.Session
	url, event, arguments string
}

// A Subscription is a subscription that is refreshed until it is closed or the server ends it. Its
// methods may be called concurrently.
type Subscription struct {
	session      *client.Session
	registration *Registration
	opts         SubscribeOptions
	params       mcp.EventParams
	cancel       context.CancelFunc
	ended        chan struct{}

	// Only one goroutine at a time refreshes, and uses these.
	asked string // the position of the last request
	gap   bool   // the handler has not accepted a gap yet

	mu     sync.Mutex
	id     string
	cursor string
	err    error
}

const (
	// earliestRefresh is the shortest time between two refreshes.
	earliestRefresh = time.Second
	// healthCheck is when a subscription without expiry is refreshed.
	healthCheck = time.Hour
	// refreshTimeout bounds one refresh, and the end of the subscription in Close. The server may verify
	// the endpoint before it answers.
	refreshTimeout = time.Minute
	// abandonTimeout bounds the end of a subscription that Subscribe cannot use.
	abandonTimeout = 5 * time.Second
)

// Subscribe subscribes to an event of the server of the session, with deliveries to url, which is the
// https URL under which the receiver is reached. handle gets the deliveries; one of the type Gap, also
// for a gap that the server reports when the subscription is made or refreshed. arguments is a JSON
// object, or nil. opts may be nil.
//
// Subscribe returns when the server has verified the endpoint, so the receiver must be serving. It then
// refreshes the subscription when half of its lifetime is over, each time with the last position, so
// that the server can begin again after it has lost the subscription. The caller calls Close.
//
// A server has one subscription for each caller, url, event and arguments. Subscribe refuses a second
// one of a session. If sessions with one principal, or programs, have equal subscriptions, only the
// last one gets deliveries.
//
// While handle returns an error for a gap, the position does not move past it: the gap is passed to
// handle again, until it has returned nil.
//
// The error is [ErrFull], the server's *[jsonrpc.Error], such as one with the code [mcp.CodeCallbackEndpoint], a
// *[jsonrpc.CallError], or the error of handle for a gap at the beginning. A subscription that was made and cannot be
// used, or that may have been made by a request without a result, is ended at the server, which may take 5 more
// seconds.
func Subscribe(ctx context.Context, session *client.Session, receiver *Receiver, url, event string, arguments json.RawMessage, handle Handler, opts *SubscribeOptions) (*Subscription, error) {
	s := &Subscription{session: session, ended: make(chan struct{})}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.Default()
	}
	s.cursor = s.opts.Cursor
	registration, err := receiver.register(s.handler(handle), target{session, url, event, cmp.Or(string(arguments), "{}")})
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.registration = registration
	s.params = mcp.EventParams{
		Name: event, Arguments: arguments,
		Delivery: &mcp.EventDelivery{Mode: mcp.DeliveryWebhook, URL: url, Secret: registration.Secret()},
	}
	if s.opts.MaxAge > 0 {
		s.params.MaxAgeMs = new(s.opts.MaxAge.Milliseconds())
	}
	if s.opts.TTL > 0 {
		s.params.TTLMs = fmt.Append(nil, s.opts.TTL.Milliseconds())
	}
	next, err := s.begin(ctx)
	if err != nil {
		cancel()
		registration.Close()
		return nil, err
	}
	go func() { // Close waits for it
		defer close(s.ended)
		s.keep(life, next)
	}()
	return s, nil
}

// handler returns the handler of the registration, which follows the position.
func (s *Subscription) handler(handle Handler) Handler {
	return func(ctx context.Context, d Delivery) error {
		if err := handle(ctx, d); err != nil {
			return err
		}
		switch {
		case d.Type == Terminated:
			s.end(d.Error)
		case d.Cursor != nil:
			s.moveTo(*d.Cursor)
		}
		return nil
	}
}

func (s *Subscription) moveTo(cursor string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cursor = cursor
}

// Cursor returns the position after the last delivery, or "".
func (s *Subscription) Cursor() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursor
}

// ID returns the id that the server has given to the subscription.
func (s *Subscription) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// Done returns a channel that is closed when the subscription is not refreshed any more.
func (s *Subscription) Done() <-chan struct{} { return s.ended }

// Err returns why the subscription has ended: a *[jsonrpc.Error] of the server, or that the session
// has ended. It returns nil before that, and after Close.
func (s *Subscription) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// end stops refreshing.
func (s *Subscription) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.cancel()
}

// begin makes the subscription, and returns when to refresh it.
func (s *Subscription) begin(ctx context.Context) (next time.Duration, err error) {
	answer, err := s.refresh(ctx)
	made := err == nil || mayBeMade(err)
	if err == nil {
		next, err = s.follow(ctx, answer)
	}
	if err != nil && made {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
		defer cancel()
		if ended := s.unsubscribe(ending); ended != nil {
			s.opts.Logger.Warn("a subscription that cannot be used was not ended; it expires at the server", "event", s.params.Name, "error", ended)
		}
	}
	return next, err
}

// mayBeMade reports whether the server may have made a subscription although the request has failed.
// An internal error may have occurred after that.
func mayBeMade(err error) bool {
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); ok {
		return failed.Delivery == jsonrpc.MaybeExecuted
	}
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && refused.Code == jsonrpc.InternalError
}

// refresh makes or refreshes the subscription, and returns the result.
func (s *Subscription) refresh(ctx context.Context) (answer json.RawMessage, err error) {
	params := s.params
	s.asked = s.Cursor()
	if s.asked != "" {
		params.Cursor = &s.asked
	}
	return s.call(ctx, mcp.MethodEventsSubscribe, &params)
}

// follow handles the result of a refresh, and returns when to refresh again.
func (s *Subscription) follow(ctx context.Context, answer json.RawMessage) (next time.Duration, err error) {
	var result mcp.SubscribeEventsResult
	if err := result.UnmarshalJSON(answer); err != nil {
		return 0, err
	}
	s.gap = s.gap || result.Truncated // a refresh does not report it again
	if err := s.registration.Bind(result.ID); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.id = result.ID
	s.mu.Unlock()
	next = healthCheck
	if result.RefreshBefore != nil {
		expires, err := time.Parse(time.RFC3339Nano, *result.RefreshBefore)
		if err != nil {
			return 0, fmt.Errorf("webhook: refreshBefore is no time: %w", err)
		}
		next = max(time.Until(expires)/2, earliestRefresh)
	}
	if err := s.advance(ctx, &result); err != nil {
		return 0, err
	}
	if result.DeliveryStatus != nil && s.opts.OnStatus != nil {
		s.opts.OnStatus(*result.DeliveryStatus)
	}
	return next, nil
}

// advance passes a gap to the handler, and moves to the position of the result of a refresh, unless a
// delivery has moved it since the request. No handler runs then: it may be storing a newer position.
func (s *Subscription) advance(ctx context.Context, result *mcp.SubscribeEventsResult) error {
	if err := s.registration.takeTurn(ctx); err != nil {
		return err
	}
	defer s.registration.endTurn()
	cursor, current := result.Cursor, s.Cursor()
	if current != s.asked {
		cursor = &current
	}
	if s.gap {
		gap := Delivery{ID: webhook.NewMessageID(webhook.TypeGap), Subscription: result.ID, Type: Gap, Cursor: cursor}
		if err := s.registration.deliver(ctx, gap); err != nil {
			return err
		}
		s.gap = false
	}
	if current == s.asked && cursor != nil && *cursor != "" {
		s.moveTo(*cursor)
		if s.opts.OnCursor != nil {
			s.opts.OnCursor(*cursor)
		}
	}
	return nil
}

// unsubscribe ends the subscription at the server.
func (s *Subscription) unsubscribe(ctx context.Context) error {
	params := mcp.EventParams{Name: s.params.Name, Arguments: s.params.Arguments, Delivery: &mcp.EventDelivery{URL: s.params.Delivery.URL}}
	_, err := s.call(ctx, mcp.MethodEventsUnsubscribe, &params)
	return err
}

func (s *Subscription) call(ctx context.Context, method string, params *mcp.EventParams) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	text, err := params.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	return s.session.Call(ctx, method, text, nil)
}

// keep refreshes the subscription until ctx ends or the server refuses.
func (s *Subscription) keep(ctx context.Context, next time.Duration) {
	var pause backoff.Backoff
	for {
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-s.session.Done():
			timer.Stop()
			s.end(jsonrpc.ErrClosed)
			return
		case <-ctx.Done():
			timer.Stop()
			return
		}
		answer, err := s.refresh(ctx)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && isFinal(refused.Code) && ctx.Err() == nil {
			s.end(err)
			return
		}
		if err == nil {
			next, err = s.follow(ctx, answer)
		}
		if err == nil {
			pause.Reset()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		s.opts.Logger.Warn("a subscription to an event was not refreshed; it is tried again", "event", s.params.Name, "error", err)
		next = pause.Next()
	}
}

// isFinal reports whether another attempt would be refused too.
func isFinal(code jsonrpc.Code) bool {
	switch code {
	case mcp.CodeNotFound, mcp.CodeForbidden, mcp.CodeUnsupported, jsonrpc.InvalidParams, jsonrpc.MethodNotFound:
		return true
	}
	return false
}

// Close ends the subscription at the server, waits for a delivery in progress, and removes the registration. A
// subscription that cannot be ended now expires at the server. Close returns the error of events/unsubscribe.
func (s *Subscription) Close(ctx context.Context) error {
	s.cancel()
	<-s.ended
	var err error
	if s.Err() == nil { // otherwise the server has ended it
		err = s.unsubscribe(ctx)
	}
	s.registration.Close()
	return err
}
