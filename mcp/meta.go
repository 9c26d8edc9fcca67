package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
)

// Keys of `_meta` that the protocol defines.
const (
	// MetaProgressToken is on requests that ask for progress.
	MetaProgressToken = "progressToken"

	// MetaProtocolVersion is the [Version] of a request (2026-07-28).
	MetaProtocolVersion = "io.modelcontextprotocol/protocolVersion"
	// MetaClientInfo is the [Implementation] of the client (2026-07-28).
	MetaClientInfo = "io.modelcontextprotocol/clientInfo"
	// MetaClientCapabilities are the [ClientCapabilities] for a request (2026-07-28).
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	// MetaLogLevel is the least severe [LoggingLevel] of log messages for a request (2026-07-28).
	MetaLogLevel = "io.modelcontextprotocol/logLevel"
	// MetaServerInfo is the [Implementation] of the server (2026-07-28).
	MetaServerInfo = "io.modelcontextprotocol/serverInfo"
	// MetaSubscriptionID is the id of the subscriptions/listen or events/stream request that a
	// notification or result belongs to (2026-07-28).
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"

	// MetaRelatedTask is the task that a message belongs to (2025-11-25).
	MetaRelatedTask = "io.modelcontextprotocol/related-task"
	// MetaModelImmediateResponse is text for a model while a task runs (2025-11-25).
	MetaModelImmediateResponse = "io.modelcontextprotocol/model-immediate-response"

	// MetaTraceParent, MetaTraceState and MetaBaggage are in the formats of W3C Trace Context and
	// W3C Baggage.
	MetaTraceParent = "traceparent"
	MetaTraceState  = "tracestate"
	MetaBaggage     = "baggage"
)

// MetaBridges is the key for the random ids of the bridges that a list comes through: those that are
// mounted on the server, and those behind them. It is an array of strings in the results of list
// methods. A bridge that finds its own id does not offer the server. It is defined by this module.
const MetaBridges = "io.github.dovetail-go/bridges"

// MetaTags is the key for the tags of a listed entry, an array of strings. It is defined by this
// module and not by the protocol.
const MetaTags = "io.github.dovetail-go/tags"

// MetaRefusal is the key, in a tool result with isError, that says that a guard has refused the call.
// The value is an object with the member type: FORBIDDEN for a policy, or the code of an approval that
// was not given. It is defined by this module.
const MetaRefusal = "io.github.dovetail-go/refusal"

// Meta is a `_meta` object as raw JSON. Unknown members are kept unchanged. nil means that there is
// none. Methods that read treat a value that is not an object as empty.
type Meta json.RawMessage

// IsZero reports whether there is no `_meta`.
func (m Meta) IsZero() bool { return len(m) == 0 }

// Get returns the value of a key, or nil. The caller must not change it.
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

// Set sets the value of a key, or removes the key if value is nil. All other bytes stay unchanged.
// It does not change the old bytes, so copies of m keep their value. The error says that m is not
// an object, that value is not JSON, or that the key is not UTF-8 or contains NUL; m is then
// unchanged.
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

// SetValue is like [Meta.Set] with a Go value, which is encoded as by encoding/json. A nil value is set as null. The error
// may also say that the value cannot be encoded.
func (m *Meta) SetValue(key string, value any) error {
	encoded, err := jsonvalue.Marshal(value)
	if err != nil {
		return fmt.Errorf("mcp: _meta %q: %w", key, err)
	}
	return m.Set(key, encoded)
}

// MarshalJSON returns the object, or null.
func (m Meta) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	return m, nil
}

// UnmarshalJSON keeps a copy of an object. null becomes nil.
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
