package channel

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
)

// TestLongestFrame: a request of maxFrame bytes reaches the approver, who reads no longer message, and a longer one fails.
func TestLongestFrame(t *testing.T) {
	request := func(length int) *approval.Request {
		return &approval.Request{ID: "id", Target: approval.Target{Tool: "tool"}, Arguments: json.RawMessage(`"` + strings.Repeat("x", length) + `"`)}
	}
	frame, err := requestFrame(request(1000))
	if err != nil {
		t.Fatal(err)
	}
	longest := 1000 + maxFrame - len(frame)
	if frame, err := requestFrame(request(longest)); err != nil || len(frame) != maxFrame {
		t.Errorf("a frame of %d bytes: %d bytes, %v", maxFrame, len(frame), err)
	}
	if _, err := requestFrame(request(longest + 1)); err == nil {
		t.Error("a longer frame is accepted")
	}
}
