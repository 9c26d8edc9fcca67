package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Names in the store.
const (
	subscriptionsPrefix = "webhook/subscriptions"
	statesPrefix        = "webhook/states"
	verifiedPrefix      = "webhook/verified"
	sweepKey            = "webhook/sweep"
	queueName           = "webhook/deliveries"
)

func subscriptionKey(id string) string { return subscriptionsPrefix + "/" + id }
func stateKey(id string) string        { return statesPrefix + "/" + id }

// A subscription is what the client has asked for. Every replica watches these records, so they
// change only when the client subscribes.
type subscription struct {
	webhook.Subscription
	Secret string `json:"secret"`
	// Previous is the secret before the last rotation. It signs too, until PreviousUntil.
	Previous      string    `json:"previous,omitempty"`
	PreviousUntil time.Time `json:"previousUntil,omitzero"`
}

func (s *subscription) expired(now time.Time) bool {
	return !s.Expires.IsZero() && !now.Before(s.Expires)
}

// secrets returns the secrets that sign a delivery.
func (s *subscription) secrets(now time.Time) ([]webhook.Secret, error) {
	current, err := webhook.ParseSecret(s.Secret)
	if err != nil {
		return nil, err
	}
	list := []webhook.Secret{current}
	if s.Previous != "" && now.Before(s.PreviousUntil) {
		previous, err := webhook.ParseSecret(s.Previous)
		if err != nil {
			return nil, err
		}
		list = append(list, previous)
	}
	return list, nil
}

// A state says how far the deliveries of a subscription are. It is changed only by comparing its
// revision, so of two workers with the same subscription one learns that it has lost.
type state struct {
	Position string `json:"position"`
	// Message is a control body that is delivered before the events after Position.
	Message *message `json:"message,omitempty"`
	// Ended says that the subscription ends when Message was delivered or abandoned.
	Ended bool `json:"ended,omitempty"`

	// Job is the job in the queue that delivers, "" if there is none. Other jobs are obsolete.
	Job string `json:"job,omitempty"`
	// Run identifies the worker that delivers now, "" if none does.
	Run string `json:"run,omitempty"`
	// Again says that there may be new events since Run has read the source.
	Again bool `json:"again,omitempty"`
	// NotBefore is when the job may run.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Due is when the job or the worker counts as lost.
	Due time.Time `json:"due,omitzero"`

	// Current is the id of the event or message for which Attempts count, since First.
	Current  string    `json:"current,omitempty"`
	Attempts int       `json:"attempts,omitempty"`
	First    time.Time `json:"first,omitzero"`

	LastDelivery time.Time      `json:"lastDelivery,omitzero"`
	LastError    webhook.Reason `json:"lastError,omitempty"`
	FailedSince  time.Time      `json:"failedSince,omitzero"`
	// Failures counts the failed attempts since the last success.
	Failures int `json:"failures,omitempty"`
	// Suspended is when deliveries were suspended.
	Suspended time.Time `json:"suspended,omitzero"`
}

// A message is a control body.
type message struct {
	ID   string          `json:"id"`
	Body json.RawMessage `json:"body"`
}

func (s *state) status() *webhook.Status {
	status := &webhook.Status{Active: s.Suspended.IsZero()}
	if !s.LastDelivery.IsZero() {
		status.LastDeliveryAt = &s.LastDelivery
	}
	if s.LastError != "" {
		status.LastError, status.FailedSince = &s.LastError, &s.FailedSince
	}
	return status
}

// resume ends a suspension, which does not count toward the retry window.
func (s *state) resume(now time.Time) {
	if s.Suspended.IsZero() {
		return
	}
	if !s.First.IsZero() {
		s.First = s.First.Add(now.Sub(s.Suspended))
	}
	s.Suspended, s.FailedSince, s.Failures = time.Time{}, time.Time{}, 0
}

// records reads and writes sealed records.
type records struct {
	kv   store.KV
	ring *token.Ring // nil if records are not sealed
}

func (r records) encode(key string, value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil || r.ring == nil {
		return data, err
	}
	return r.ring.SealBytes(data, token.Binding("webhook", key)), nil
}

func (r records) decode(key string, data []byte, value any) error {
	if r.ring != nil {
		opened, err := r.ring.OpenBytes(data, token.Binding("webhook", key))
		if err != nil {
			return fmt.Errorf("webhook: %s cannot be decrypted: %w", key, err)
		}
		data = opened
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("webhook: %s is malformed", key) // the text of err may contain a part of a secret
	}
	return nil
}

// get reads a record. A record that does not exist has revision 0.
func (r records) get(ctx context.Context, key string, value any) (revision uint64, err error) {
	item, err := r.kv.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("webhook: reading %s: %w", key, err)
	}
	return item.Revision, r.decode(key, item.Value, value)
}

// put writes a record that has a revision; 0 means that it does not exist. The error is
// store.ErrConflict if that is no longer so.
func (r records) put(ctx context.Context, key string, value any, revision uint64, ttl time.Duration) (uint64, error) {
	data, err := r.encode(key, value)
	if err != nil {
		return 0, err
	}
	if revision == 0 {
		revision, err = r.kv.Create(ctx, key, data, ttl)
		if errors.Is(err, store.ErrExists) {
			err = store.ErrConflict
		}
	} else {
		revision, err = r.kv.Update(ctx, key, data, revision, ttl)
	}
	if err != nil {
		return 0, fmt.Errorf("webhook: writing %s: %w", key, err)
	}
	return revision, nil
}

// stateTTL returns the time to live of the state of a subscription. It is longer than that of the
// subscription: a state without a subscription does no harm.
func stateTTL(expires, now time.Time) time.Duration {
	if expires.IsZero() {
		return 0
	}
	return max(expires.Sub(now), 0) + time.Hour
}

// maxConflicts is how often a record may be changed by others at the same time.
const maxConflicts = 100

var (
	errUnchanged = errors.New("webhook: nothing to change") // of a change of changeState
	errConflicts = errors.New("webhook: a record is changed too often")
)

// changeState changes the state of a subscription. The change may be called again with a newer
// state. If it returns [errUnchanged], nothing is written. There is no error if the state does not
// exist: found is false, and change is not called.
func (r records) changeState(ctx context.Context, id string, expires time.Time, change func(*state) error) (found bool, err error) {
	for range maxConflicts {
		st := &state{}
		revision, err := r.get(ctx, stateKey(id), st)
		if err != nil || revision == 0 {
			return false, err
		}
		if err := change(st); err != nil {
			if errors.Is(err, errUnchanged) {
				err = nil
			}
			return true, err
		}
		_, err = r.put(ctx, stateKey(id), st, revision, stateTTL(expires, time.Now()))
		if !errors.Is(err, store.ErrConflict) {
			return true, err
		}
	}
	return true, errConflicts
}
