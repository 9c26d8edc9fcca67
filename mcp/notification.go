package mcp

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A ProgressToken connects progress notifications with the request that asked for them. It is the
// JSON text of a string or number, and is kept byte for byte.
type ProgressToken json.RawMessage

// IsZero reports whether there is no token.
func (t ProgressToken) IsZero() bool { return len(t) == 0 }

// MarshalJSON returns the token, or null.
func (t ProgressToken) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t, nil
}

// UnmarshalJSON keeps a copy of a string or number.
func (t *ProgressToken) UnmarshalJSON(data []byte) error {
	switch kind := jsonscan.KindOf(data); kind {
	case jsonscan.String, jsonscan.Number:
		*t = bytes.Clone(data)
		return nil
	default:
		return &DecodeError{Expected: "a string or an integer", Got: kind.String()}
	}
}

// ProgressParams are the parameters of notifications/progress.
type ProgressParams struct {
	ProgressToken ProgressToken `json:"progressToken"`
	// Progress increases with each notification, even if Total is unknown.
	Progress float64 `json:"progress"`
	// Total is the final value of Progress, or nil if it is unknown.
	Total *float64 `json:"total,omitzero"`
	// Message describes the current step (since 2025-03-26).
	Message string `json:"message,omitzero"`
	Meta    Meta   `json:"_meta,omitzero"`
	Extra   Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (p *ProgressParams) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.raw("progressToken", json.RawMessage(p.ProgressToken))
	w.number("progress", p.Progress)
	if p.Total != nil {
		w.number("total", *p.Total)
	}
	w.optionalString("message", p.Message)
	w.meta(p.Meta)
	return w.close(p.Extra)
}

// MarshalJSON returns the parameters as a JSON object.
func (p ProgressParams) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (p *ProgressParams) UnmarshalJSON(data []byte) error {
	type fields ProgressParams
	return decode(data, (*fields)(p))
}

// CancelledParams are the parameters of notifications/cancelled: the sender no longer waits for the
// answer to a request.
type CancelledParams struct {
	// RequestID identifies the request. 2025-11-25 allows none for tasks.
	RequestID jsonrpc.ID `json:"requestId,omitzero"`
	// Reason is for logs and people.
	Reason string `json:"reason,omitzero"`
	Meta   Meta   `json:"_meta,omitzero"`
	Extra  Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (c *CancelledParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields CancelledParams
	return appendFields(dst, (*fields)(c))
}

// MarshalJSON returns the parameters as a JSON object.
func (c CancelledParams) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (c *CancelledParams) UnmarshalJSON(data []byte) error {
	type fields CancelledParams
	return decode(data, (*fields)(c))
}

// A LoggingLevel is the severity of a log message, as in RFC 5424.
type LoggingLevel string

// The levels, least severe first.
const (
	LevelDebug     LoggingLevel = "debug"
	LevelInfo      LoggingLevel = "info"
	LevelNotice    LoggingLevel = "notice"
	LevelWarning   LoggingLevel = "warning"
	LevelError     LoggingLevel = "error"
	LevelCritical  LoggingLevel = "critical"
	LevelAlert     LoggingLevel = "alert"
	LevelEmergency LoggingLevel = "emergency"
)

// LoggingLevels returns the levels, least severe first.
func LoggingLevels() []LoggingLevel {
	return []LoggingLevel{
		LevelDebug, LevelInfo, LevelNotice, LevelWarning, LevelError, LevelCritical, LevelAlert, LevelEmergency,
	}
}

// Valid reports whether the level is one of the eight.
func (l LoggingLevel) Valid() bool { return l.Severity() >= 0 }

// Severity returns a number from 0 (debug) to 7 (emergency), or -1 for an unknown level.
func (l LoggingLevel) Severity() int { return slices.Index(LoggingLevels(), l) }

// SetLevelParams are the parameters of logging/setLevel (until 2025-11-25).
type SetLevelParams struct {
	// Level is the least severe level to send.
	Level LoggingLevel `json:"level"`
	Meta  Meta         `json:"_meta,omitzero"`
	Extra Extra        `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (s *SetLevelParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields SetLevelParams
	return appendFields(dst, (*fields)(s))
}

// MarshalJSON returns the parameters as a JSON object.
func (s SetLevelParams) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (s *SetLevelParams) UnmarshalJSON(data []byte) error {
	type fields SetLevelParams
	return decode(data, (*fields)(s))
}

// LoggingMessageParams are the parameters of notifications/message: one log message.
type LoggingMessageParams struct {
	Level LoggingLevel `json:"level"`
	// Logger names the part of the server that logs.
	Logger string `json:"logger,omitzero"`
	// Data is any JSON value; nil means null. It must not contain secrets.
	Data  json.RawMessage `json:"data"`
	Meta  Meta            `json:"_meta,omitzero"`
	Extra Extra           `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (l *LoggingMessageParams) AppendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("level", string(l.Level))
	w.optionalString("logger", l.Logger)
	if l.Data == nil {
		w.raw("data", json.RawMessage("null"))
	} else {
		w.raw("data", l.Data)
	}
	w.meta(l.Meta)
	return w.close(l.Extra)
}

// MarshalJSON returns the parameters as a JSON object.
func (l LoggingMessageParams) MarshalJSON() ([]byte, error) { return l.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (l *LoggingMessageParams) UnmarshalJSON(data []byte) error {
	type fields LoggingMessageParams
	return decode(data, (*fields)(l))
}

// A SubscriptionFilter selects changes: those that a client subscribes to, or those that a server
// has accepted (since 2026-07-28).
type SubscriptionFilter struct {
	ToolsListChanged     bool `json:"toolsListChanged,omitzero"`
	PromptsListChanged   bool `json:"promptsListChanged,omitzero"`
	ResourcesListChanged bool `json:"resourcesListChanged,omitzero"`
	// ResourceSubscriptions are the URIs of resources.
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitzero"`
	// TaskIDs are tasks; see [ExtensionTasks].
	TaskIDs []string `json:"taskIds,omitzero"`
	// EventsListChanged belongs to [ExtensionEvents].
	EventsListChanged bool  `json:"eventsListChanged,omitzero"`
	Extra             Extra `json:",embed"`
}

// MarshalJSON returns the filter as a JSON object.
func (s SubscriptionFilter) MarshalJSON() ([]byte, error) {
	type fields SubscriptionFilter
	return appendFields(nil, (*fields)(&s))
}

// UnmarshalJSON decodes the filter. The error is a *[DecodeError].
func (s *SubscriptionFilter) UnmarshalJSON(data []byte) error {
	type fields SubscriptionFilter
	return decode(data, (*fields)(s))
}

// SubscriptionsListenParams are the parameters of subscriptions/listen and of
// notifications/subscriptions/acknowledged (since 2026-07-28).
type SubscriptionsListenParams struct {
	// Notifications are what the client subscribes to, or what the server has accepted.
	Notifications SubscriptionFilter `json:"notifications"`
	Meta          Meta               `json:"_meta,omitzero"`
	Extra         Extra              `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (s *SubscriptionsListenParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields SubscriptionsListenParams
	return appendFields(dst, (*fields)(s))
}

// MarshalJSON returns the parameters as a JSON object.
func (s SubscriptionsListenParams) MarshalJSON() ([]byte, error) { return s.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (s *SubscriptionsListenParams) UnmarshalJSON(data []byte) error {
	type fields SubscriptionsListenParams
	return decode(data, (*fields)(s))
}

// ResourceParams are the parameters of resources/subscribe and resources/unsubscribe (until
// 2025-11-25), and of notifications/resources/updated.
type ResourceParams struct {
	// URI identifies the resource. In an update it may also be a part of the resource that is
	// subscribed to.
	URI   string `json:"uri"`
	Meta  Meta   `json:"_meta,omitzero"`
	Extra Extra  `json:",embed"`
}

// AppendJSON appends the parameters as a JSON object.
func (r *ResourceParams) AppendJSON(dst []byte) ([]byte, error) {
	type fields ResourceParams
	return appendFields(dst, (*fields)(r))
}

// MarshalJSON returns the parameters as a JSON object.
func (r ResourceParams) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// UnmarshalJSON decodes the parameters. The error is a *[DecodeError].
func (r *ResourceParams) UnmarshalJSON(data []byte) error {
	type fields ResourceParams
	return decode(data, (*fields)(r))
}
