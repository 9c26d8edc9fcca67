package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Names in the store.
const (
	subscriptionsPrefix = "webhook/subscriptions"
	statesPrefix        = "webhook/states"
	verifiedPrefix      = "webhook/verified"
	ownedPrefix         = "webhook/owned"
	sweepKey            = "webhook/sweep"
	queueName           = "webhook/deliveries"
)

func subscriptionKey(id string) string { return subscriptionsPrefix + "/" + id }
func stateKey(id string) string        { return statesPrefix + "/" + id }

func ownedKey(principal string) string {
	sum := sha256.Sum256(token.Binding("owner", principal))
	return ownedPrefix + "/" + hex.EncodeToString(sum[:16])
}

// owned are the subscriptions of one principal: their ids, and when they end in seconds since 1970, 0 for never. Some may
// have ended earlier.
type owned map[string]int64

// A subscription is what the client has asked for. Every replica watches these records, so they
// change only when the client subscribes.
type subscription struct {
	delivery.Subscription
	Secret string `json:"secret"`
	// Previous is the secret before the last rotation. It signs too, until PreviousUntil.
	Previous      string    `json:"previous,omitempty"`
	PreviousUntil time.Time `json:"previousUntil,omitzero"`
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

// A progress says how far the deliveries of a subscription are. It is changed only by comparing its
// revision, so of two workers with the same subscription one learns that it has lost.
type progress struct {
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

	LastDelivery time.Time       `json:"lastDelivery,omitzero"`
	LastError    delivery.Reason `json:"lastError,omitempty"`
	FailedSince  time.Time       `json:"failedSince,omitzero"`
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

func (s *progress) status() *delivery.Status {
	status := &delivery.Status{Active: s.Suspended.IsZero()}
	if !s.LastDelivery.IsZero() {
		status.LastDeliveryAt = &s.LastDelivery
	}
	if s.LastError != "" {
		status.LastError, status.FailedSince = &s.LastError, &s.FailedSince
	}
	return status
}

// resume ends a suspension, which does not count toward the retry window.
func (s *progress) resume(now time.Time) {
	if s.Suspended.IsZero() {
		return
	}
	if !s.First.IsZero() {
		s.First = s.First.Add(now.Sub(s.Suspended))
	}
	s.Suspended, s.FailedSince, s.Failures = time.Time{}, time.Time{}, 0
}

// records are what the deliverers of all replicas share.
type records struct {
	subscriptions state.Records[subscription]
	states        state.Records[progress]
	verified      state.Records[verification]
	owned         state.Records[owned]
}

func newRecords(kv store.KV, key *state.Key) records {
	return records{
		state.NewRecords[subscription](kv, key), state.NewRecords[progress](kv, key), state.NewRecords[verification](kv, key), state.NewRecords[owned](kv, key),
	}
}

// found returns a record, or nil if there is none.
func found[T any](rec *state.Record[T], err error) (*state.Record[T], error) {
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return rec, err
}

// subscription returns a subscription, or nil if there is none.
func (r *records) subscription(ctx context.Context, id string) (*state.Record[subscription], error) {
	return found(r.subscriptions.Load(ctx, subscriptionKey(id)))
}

// progress returns how far the deliveries of a subscription are, or nil.
func (r *records) progress(ctx context.Context, id string) (*state.Record[progress], error) {
	return found(r.states.Load(ctx, stateKey(id)))
}

// changeProgress changes the progress of a subscription. The change may be called again with a newer one. If it
// returns [state.ErrUnchanged], nothing is written. found is false if there is none; change is not called then.
func (r *records) changeProgress(ctx context.Context, id string, expires time.Time, change func(*progress) error) (found bool, err error) {
	_, err = r.states.Update(ctx, stateKey(id), func(rec *state.Record[progress]) error {
		rec.Extend(expires)
		return change(&rec.Value)
	})
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return true, err
}
