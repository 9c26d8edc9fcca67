package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Keys of `_meta` that the protocol has given a meaning.
const (
	// MetaProgressToken asks for progress, on requests.
	MetaProgressToken = "progressToken"

	// MetaProtocolVersion is the [Version] a request is made in (2026-07-28).
	MetaProtocolVersion = "io.modelcontextprotocol/protocolVersion"
	// MetaClientInfo is the [Implementation] that makes a request (2026-07-28).
	MetaClientInfo = "io.modelcontextprotocol/clientInfo"
	// MetaClientCapabilities are the [ClientCapabilities] that hold for a
	// request (2026-07-28).
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	// MetaLogLevel is the [LoggingLevel] from which on a request wants log
	// messages (2026-07-28).
	MetaLogLevel = "io.modelcontextprotocol/logLevel"
	// MetaServerInfo is the [Implementation] that made a result (2026-07-28).
	MetaServerInfo = "io.modelcontextprotocol/serverInfo"
	// MetaSubscriptionID is the id of the subscriptions/listen request that a
	// notification or result belongs to (2026-07-28).
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"

	// MetaRelatedTask names the task that a message belongs to (2025-11-25).
	MetaRelatedTask = "io.modelcontextprotocol/related-task"
	// MetaModelImmediateResponse is what a model can be told while a task runs
	// (2025-11-25).
	MetaModelImmediateResponse = "io.modelcontextprotocol/model-immediate-response"

	// MetaTraceParent, MetaTraceState and MetaBaggage carry a trace, in the
	// formats of W3C Trace Context and W3C Baggage.
	MetaTraceParent = "traceparent"
	MetaTraceState  = "tracestate"
	MetaBaggage     = "baggage"
)

// MetaTags is the key under which servers of this module put the tags of a listed tool,
// prompt or resource, an array of strings. The protocol has no word for them.
const MetaTags = "io.github.dovetail-go/tags"

// Meta is a `_meta` object, kept as the JSON it came in: what this package does
// not know goes out as it came in. nil is no `_meta`. Methods that read treat
// one that is not a JSON object as empty.
type Meta json.RawMessage

// IsZero says whether there is no `_meta`.
func (m Meta) IsZero() bool { return len(m) == 0 }

// Get returns the value of a key as it stands there, nil if there is none. Do
// not change its bytes.
func (m Meta) Get(key string) json.RawMessage {
	if m.IsZero() {
		return nil
	}
	object, err := jsonscan.ReadObject(m)
	if err != nil {
		return nil
	}
	return object.Get(key)
}

// Set gives a key a value, one JSON text, or removes the key if value is nil.
// All other bytes stay as they are. The bytes m had before are not changed, so
// copies of m keep their keys. An error leaves m as it was: m is not an object,
// value is not JSON, or the key is not UTF-8 or holds NUL.
func (m *Meta) Set(key string, value json.RawMessage) error {
	if !utf8.ValidString(key) || strings.ContainsRune(key, 0) {
		return fmt.Errorf("mcp: %q is no key for _meta: it must be UTF-8 without NUL", key)
	}
	if value != nil {
		if err := jsonscan.Valid(value); err != nil {
			return fmt.Errorf("mcp: _meta %q: %w", key, err)
		}
	}
	old := *m
	if old.IsZero() {
		if value == nil {
			return nil
		}
		old = Meta("{}")
	}
	changed, err := jsonscan.Splice(nil, old, jsonscan.Edit{Name: key, Value: value})
	if err != nil {
		return fmt.Errorf("mcp: _meta: %w", err)
	}
	*m = changed
	return nil
}

// MarshalJSON returns the object as it stands, null if there is none.
func (m Meta) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	return m, nil
}

// UnmarshalJSON keeps a copy of an object. null is no `_meta`.
func (m *Meta) UnmarshalJSON(data []byte) error {
	switch kind := jsonscan.KindOf(data); kind {
	case jsonscan.Object:
		*m = bytes.Clone(data)
		return nil
	case jsonscan.Null:
		*m = nil
		return nil
	default:
		return &DecodeError{Expected: "an object", Got: kind.String()}
	}
}
