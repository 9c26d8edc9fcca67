package mcp

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// ExtensionEvents is the identifier of the extension for events (SEP-3415, since 2026-07-28).
const ExtensionEvents = "io.modelcontextprotocol/events"

// A DeliveryMode is a way in which occurrences of an event reach a client.
type DeliveryMode string

// The delivery modes.
const (
	// DeliveryPoll: the client asks with events/poll.
	DeliveryPoll DeliveryMode = "poll"
	// DeliveryPush: the client holds a request of events/stream open.
	DeliveryPush DeliveryMode = "push"
	// DeliveryWebhook: the server sends a POST request to a URL of events/subscribe.
	DeliveryWebhook DeliveryMode = "webhook"
)

// An EventType is an event that a client can subscribe to, as it is listed.
type EventType struct {
	Name string `json:"name"`
	// Title is shown to people.
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	// Delivery lists the modes that the server supports for the event.
	Delivery []DeliveryMode `json:"delivery"`
	// InputSchema is the JSON Schema of the arguments of a subscription.
	InputSchema json.RawMessage `json:"inputSchema,omitzero"`
	// PayloadSchema is the JSON Schema of [EventOccurrence].Data.
	PayloadSchema json.RawMessage `json:"payloadSchema,omitzero"`
	Meta          Meta            `json:"_meta,omitzero"`
	Extra         Extra           `json:",embed"`
}

// A ListEventsResult is one page of a server's event types.
type ListEventsResult struct {
	Events []EventType `json:"events"`
	Page
}

// An EventOccurrence says that an event has happened: an element of a [PollEventsResult], the params
// of notifications/events/event, or the body of a webhook. Its data come from the server's systems
// and are not trusted.
//
//codec:message
type EventOccurrence struct {
	// EventID is stable: a client that gets two occurrences with one id drops the second.
	EventID string `json:"eventId"`
	// Name is the name of the event type.
	Name string `json:"name"`
	// Timestamp is when the event happened (RFC 3339).
	Timestamp string `json:"timestamp"`
	// Data is the payload, an object.
	Data json.RawMessage `json:"data"`
	// Cursor is the position after the event, or nil.
	Cursor *string `json:"cursor,omitzero"`
	Meta   Meta    `json:"_meta,omitzero"`
	Extra  Extra   `json:",embed"`
}

// EventParams are the parameters of events/poll, events/stream, events/subscribe and
// events/unsubscribe.
type EventParams struct {
	Name string `json:"name"`
	// Arguments say what the subscription is for, an object. nil is an empty one.
	Arguments json.RawMessage `json:"arguments,omitzero"`
	// Cursor is the position after which occurrences are delivered; nil begins now.
	Cursor *string `json:"cursor,omitzero"`
	// MaxAgeMs leaves out occurrences that are older, in milliseconds.
	MaxAgeMs *int64 `json:"maxAgeMs,omitzero"`
	// MaxEvents bounds the result of events/poll.
	MaxEvents *int64 `json:"maxEvents,omitzero"`
	// Delivery is required by events/subscribe and events/unsubscribe.
	Delivery *EventDelivery `json:"delivery,omitzero"`
	// TTLMs is the lifetime that events/subscribe suggests: a number of milliseconds, or null for no
	// expiry. nil means the default of the server.
	TTLMs json.RawMessage `json:"ttlMs,omitzero"`
	Meta  Meta            `json:"_meta,omitzero"`
	Extra Extra           `json:",embed"`
}

// An EventDelivery says where a server delivers occurrences to.
type EventDelivery struct {
	// Mode is webhook, or "".
	Mode DeliveryMode `json:"mode,omitzero"`
	// URL is the callback URL. Its scheme is https.
	URL string `json:"url"`
	// Secret signs the deliveries: whsec_ and the base64 of 24 to 64 random bytes. It is not part of
	// events/unsubscribe.
	Secret string `json:"secret,omitzero"`
	Extra  Extra  `json:",embed"`
}

// A PollEventsResult is the result of events/poll.
type PollEventsResult struct {
	Events []EventOccurrence `json:"events"`
	// Cursor is the position after the events, for the next request. nil means that the event cannot
	// be replayed.
	Cursor *string `json:"cursor"`
	// Truncated: occurrences after the cursor of the request may be missing.
	Truncated bool `json:"truncated"`
	// HasMore: the client may ask again immediately.
	HasMore bool `json:"hasMore"`
	// NextPollMs is how long the client waits before the next request, in milliseconds.
	NextPollMs int64      `json:"nextPollMs"`
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// A SubscribeEventsResult is the result of events/subscribe.
type SubscribeEventsResult struct {
	// ID is in the header X-MCP-Subscription-Id of each delivery.
	ID string `json:"id"`
	// RefreshBefore is when the subscription ends unless it is refreshed (RFC 3339), or nil if it does
	// not expire.
	RefreshBefore *string `json:"refreshBefore"`
	// Cursor is a position up to which everything has been delivered or given up.
	Cursor *string `json:"cursor"`
	// Truncated: occurrences after the cursor of the request may be missing.
	Truncated bool `json:"truncated"`
	// DeliveryStatus describes the deliveries of a subscription that was refreshed.
	DeliveryStatus *DeliveryStatus `json:"deliveryStatus,omitzero"`
	ResultType     ResultType      `json:"resultType,omitzero"`
	Meta           Meta            `json:"_meta,omitzero"`
	Extra          Extra           `json:",embed"`
}

// A DeliveryStatus describes the deliveries to a callback URL.
type DeliveryStatus struct {
	// Active is false if the server had suspended deliveries until this refresh.
	Active bool `json:"active"`
	// LastDeliveryAt is when a delivery last succeeded (RFC 3339).
	LastDeliveryAt string `json:"lastDeliveryAt,omitzero"`
	// LastError is the category of the last failure, such as timeout or http_5xx, or nil.
	LastError *string `json:"lastError"`
	// FailedSince is when deliveries began to fail (RFC 3339).
	FailedSince string `json:"failedSince,omitzero"`
	// Throttled: the server delays deliveries, for about RetryAfterMs milliseconds.
	Throttled    bool  `json:"throttled,omitzero"`
	RetryAfterMs int64 `json:"retryAfterMs,omitzero"`
	Extra        Extra `json:",embed"`
}

// EventStatusParams are the parameters of notifications/events/active, heartbeat, error and
// terminated.
type EventStatusParams struct {
	// Cursor is the position of the stream, of active and heartbeat.
	Cursor *string `json:"cursor,omitzero"`
	// Truncated: occurrences before this notification may be missing. It is part of active.
	Truncated bool `json:"truncated,omitzero"`
	// Error is why the stream has failed for a moment, or has been terminated.
	Error *jsonrpc.Error `json:"error,omitzero"`
	Meta  Meta           `json:"_meta,omitzero"`
	Extra Extra          `json:",embed"`
}
