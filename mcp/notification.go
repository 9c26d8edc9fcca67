package mcp

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

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

// UnmarshalJSON keeps a copy of a string or an integer. Any other value means that there is no token.
func (t *ProgressToken) UnmarshalJSON(data []byte) error {
	*t = nil
	if isProgressToken(data) {
		*t = bytes.Clone(data)
	}
	return nil
}

// isProgressToken reports whether a JSON value is a string or an integer, such as 7 or 7.0. A request with any
// other progress token asks for no progress.
func isProgressToken(raw []byte) bool {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		return true
	case jsonscan.Number:
		n, err := strconv.ParseFloat(string(bytes.TrimSpace(raw)), 64)
		return err == nil && n == math.Trunc(n)
	}
	return false
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

// SubscriptionsListenParams are the parameters of subscriptions/listen and of
// notifications/subscriptions/acknowledged (since 2026-07-28).
type SubscriptionsListenParams struct {
	// Notifications are what the client subscribes to, or what the server has accepted.
	Notifications SubscriptionFilter `json:"notifications"`
	Meta          Meta               `json:"_meta,omitzero"`
	Extra         Extra              `json:",embed"`
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
