package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/token"
)

// A Deliverer keeps webhook subscriptions and delivers events to their callback URLs. Its methods
// may be called concurrently, and before Run.
type Deliverer interface {
	// Subscribe adds a subscription, or refreshes it if one with the same key exists. For a new one it verifies that
	// the endpoint wants deliveries, which may wait for the endpoint. The error is a [*RequestError], a [*LimitError],
	// a [*EndpointError], the error of [Request].Start, or an error of the store.
	Subscribe(ctx context.Context, r Request) (Grant, error)
	// Unsubscribe removes a subscription, or returns [ErrNoSubscription].
	Unsubscribe(ctx context.Context, key Key) error
	// Terminate ends a subscription and delivers a control body with the reason, which is a
	// JSON-RPC error. It returns [ErrNoSubscription] if there is none with that id.
	Terminate(ctx context.Context, id string, reason json.RawMessage) error
	// Wake tells the Deliverer that the source has new events for the subscriptions to an event
	// for which match returns true. match may be nil, which matches all; it must not call the
	// Deliverer. Call Wake after the event can be read from the source. It returns an error if a
	// subscription could not be woken; the events of that one are read at the next sweep.
	Wake(ctx context.Context, event string, match func(*Subscription) bool) error
	// Run delivers until ctx ends, and waits for the deliveries in progress. Several replicas
	// may run with one store. Run is called once. While the store fails, it tries again.
	Run(ctx context.Context, source Source) error
}

// A Key identifies a subscription (SEP-3415, Subscription identity).
type Key struct {
	// Principal is the canonical name of the authenticated caller, not "".
	Principal string `json:"principal"`
	// URL is the callback URL.
	URL string `json:"url"`
	// Event is the name of the event type.
	Event string `json:"event"`
	// Arguments are the arguments in canonical JSON: equal arguments have equal bytes.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// A Request asks for a subscription, or refreshes it.
type Request struct {
	Key
	// Secret signs the deliveries: "whsec_" and the base64 of 24 to 64 bytes.
	Secret string
	// TTL is the suggested lifetime, 0 for the default. It is ignored with Forever.
	TTL time.Duration
	// Forever asks for a subscription without expiry. Deliverers that do not allow it
	// grant the longest lifetime.
	Forever bool
	// Start returns the position at which a new subscription begins. It is not called when a
	// live subscription is refreshed. It is required.
	Start func(ctx context.Context, id string) (position string, err error)
}

// ID returns the id of the subscription, which is derived from the key.
func (k *Key) ID() string {
	sum := sha256.Sum256(token.Binding("subscription", k.Principal, k.URL, k.Event, string(k.Arguments)))
	return "sub_" + hex.EncodeToString(sum[:16])
}

// A Grant is the answer to a Request.
type Grant struct {
	// ID is derived from the key, so it is the same after a restart.
	ID string
	// Expires is when the subscription ends unless it is refreshed. Zero means never.
	Expires time.Time
	// Position is the position up to which all events were acknowledged or abandoned.
	Position string
	// Created says that there was no live subscription with this key.
	Created bool
	// Status describes the deliveries of a subscription that was refreshed, otherwise nil.
	Status *Status
}

// A Status describes the deliveries of a subscription (SEP-3415, Webhook delivery status). Its JSON
// is the member deliveryStatus.
type Status struct {
	// Active is false if deliveries were suspended after failures.
	Active bool `json:"active"`
	// LastDeliveryAt is when the endpoint last accepted a delivery.
	LastDeliveryAt *time.Time `json:"lastDeliveryAt,omitempty"`
	// LastError is the reason why the last attempt failed, nil if it succeeded.
	LastError *Reason `json:"lastError"`
	// FailedSince is when the first of the failures since the last success was.
	FailedSince *time.Time `json:"failedSince,omitempty"`
}

// A Subscription is a live subscription as a Source sees it. It must not be modified.
type Subscription struct {
	ID string `json:"id"`
	Key
	// Expires is when the subscription ends unless it is refreshed. Zero means never.
	Expires time.Time `json:"expires,omitzero"`
}

// A Source reads the events of a subscription after a position, oldest first. It is called
// concurrently for different subscriptions, and again from the same position after a failure.
type Source func(ctx context.Context, sub *Subscription, position string) (Batch, error)

// A Batch is what a Source returns.
type Batch struct {
	// Events follow the position, in the order of delivery. A Source returns at most 100.
	Events []Event
	// Position follows the events. It is kept even if there are none.
	Position string
	// Gap says that events before Position were lost. The endpoint receives a control body with
	// GapCursor, a JSON string or null; then the source is read from Position. Events is
	// ignored.
	Gap       bool
	GapCursor json.RawMessage
	// More says that the source has more events already.
	More bool
	// Next is when to read again without a call of Wake, 0 for the next sweep only.
	Next time.Duration
	// Ended ends the subscription with a JSON-RPC error, for example because the principal has
	// no access any more. The rest of the Batch is ignored.
	Ended json.RawMessage
}

// An Event is one event to deliver.
type Event struct {
	// ID is the eventId, which becomes the webhook-id.
	ID string
	// Body is the JSON of the event occurrence.
	Body json.RawMessage
	// Position follows the event. It is kept when the event was acknowledged or abandoned.
	Position string
}

// ErrNoSubscription means that there is no live subscription with the key or id.
var ErrNoSubscription = errors.New("webhook: there is no such subscription")

// A RequestError says that a request is invalid (InvalidParams).
type RequestError struct {
	// Field is the invalid member: "delivery.url" or "delivery.secret", or "principal" if there
	// is none (Forbidden).
	Field string
	// Problem completes "the field …". It does not contain the value.
	Problem string
}

// Error names the field and the problem.
func (e *RequestError) Error() string { return "webhook: " + e.Field + " " + e.Problem }

// A LimitError says that a limit was reached (ResourceExhausted).
type LimitError struct {
	// Limit names the limit: "subscriptions" or "verifications".
	Limit string
	// Max is its value.
	Max int
}

// Error names the limit.
func (e *LimitError) Error() string { return "webhook: the limit of " + e.Limit + " is reached" }

// An EndpointError says that the callback endpoint failed its verification or could not be reached
// (CallbackEndpointError).
type EndpointError struct {
	// Reason is the data.reason of the error.
	Reason Reason
}

// Error names the reason.
func (e *EndpointError) Error() string {
	return "webhook: the callback endpoint cannot be used: " + string(e.Reason)
}

// A Reason is a category of failures. It contains nothing that the endpoint has sent.
type Reason string

// The reasons of SEP-3415, Webhook delivery status.
const (
	ConnectionRefused Reason = "connection_refused" // also a refused address and a failed look-up
	Timeout           Reason = "timeout"
	TLSError          Reason = "tls_error"
	HTTP4xx           Reason = "http_4xx" // also a redirect, which is not followed
	HTTP5xx           Reason = "http_5xx"
	ChallengeFailed   Reason = "challenge_failed"
)
