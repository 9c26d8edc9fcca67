package webhook

import (
	"crypto/rand"
	"encoding/json"
)

// SubscriptionHeader is the header that names the subscription of a delivery.
const SubscriptionHeader = "X-MCP-Subscription-Id"

// Limits of deliveries.
const (
	// MaxBody is the maximum length of a delivery, in bytes (SEP-3415, Delivery profile).
	MaxBody = 256 << 10
	// MaxID is the maximum length of a webhook-id and of an id of a subscription, in bytes.
	MaxID = 256
)

// The types of control bodies (SEP-3415, Non-event webhook bodies).
const (
	TypeGap          = "gap"
	TypeTerminated   = "terminated"
	TypeVerification = "verification"
)

// A Control is a body that is not an event. An event has no member "type".
type Control struct {
	Type      string          `json:"type"`
	Cursor    json.RawMessage `json:"cursor,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
	Challenge string          `json:"challenge,omitempty"`
}

// A Challenge is the answer to a verification: the challenge of its body.
type Challenge struct {
	Challenge string `json:"challenge"`
}

// NewMessageID returns a webhook-id for a control body of a type.
func NewMessageID(kind string) string { return "msg_" + kind + "_" + rand.Text() }
