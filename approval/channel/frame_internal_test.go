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

// TestLaunchedServer: a frame has the name that the caller gave, as older programs expect, and the fact as a member. Together
// they are the request that the digest is of.
func TestLaunchedServer(t *testing.T) {
	for server, want := range map[string]string{
		"files":                   `"server_name":"files","tool_name"`,
		"launched:files":          `"server_name":"files","launched":true,"tool_name"`,
		"launched:launched:files": `"server_name":"launched:files","launched":true,"tool_name"`,
		"launched:":               `"server_name":"","launched":true,"tool_name"`,
	} {
		r := &approval.Request{ID: "id", Target: approval.Target{Server: server, Tool: "tool"}, Arguments: json.RawMessage(`{}`)}
		frame, err := requestFrame(r)
		if err != nil || !strings.Contains(string(frame), want) {
			t.Errorf("%s: %s, %v", server, frame, err)
		}
		if c, err := readCall(frame); err != nil || c.request.Server != server {
			t.Errorf("%s: read as %+v, %v", server, c, err)
		}
	}
}

// TestScriptOfACall: a frame names the script that makes the call, and has no such member for a direct call.
func TestScriptOfACall(t *testing.T) {
	for script, want := range map[string]string{"call 3 of the script 5f2a": `,"script":"call 3 of the script 5f2a"`, "": ""} {
		r := &approval.Request{ID: "id", Target: approval.Target{Tool: "tool"}, Arguments: json.RawMessage(`{}`), Script: script}
		frame, err := requestFrame(r)
		if err != nil || !strings.Contains(string(frame), want) || strings.Contains(string(frame), `"script"`) != (script != "") {
			t.Errorf("%q: %s, %v", script, frame, err)
		}
		if c, err := readCall(frame); err != nil || c.request.Script != script {
			t.Errorf("%q: read as %+v, %v", script, c, err)
		}
	}
}
