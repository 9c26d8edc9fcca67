package mcp_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

func TestValidateSampling(t *testing.T) {
	said := func(role mcp.Role, content ...mcp.Content) mcp.SamplingMessage {
		return mcp.SamplingMessage{Role: role, Content: content}
	}
	use := func(id string) mcp.Content { return &mcp.ToolUseContent{ID: id, Name: "tool"} }
	result := func(id string) mcp.Content { return &mcp.ToolResultContent{ToolUseID: id} }
	for _, test := range []struct {
		name     string
		messages []mcp.SamplingMessage
		says     string // "" when they are valid
	}{
		{"nothing", nil, ""},
		{"talk", []mcp.SamplingMessage{said(mcp.RoleUser, mcp.Text("a")), said(mcp.RoleAssistant, mcp.Text("b"))}, ""},
		{"use and result", []mcp.SamplingMessage{
			said(mcp.RoleUser, mcp.Text("a")), said(mcp.RoleAssistant, mcp.Text("let me see"), use("1"), use("2")),
			said(mcp.RoleUser, result("2"), result("1")), said(mcp.RoleAssistant, mcp.Text("done")),
		}, ""},
		{"use at the end", []mcp.SamplingMessage{said(mcp.RoleAssistant, use("1"))}, ""},
		{"result of nothing", []mcp.SamplingMessage{said(mcp.RoleUser, result("1"))}, "message 0: the tool result \"1\" answers no tool use"},
		{"result too late", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1")), said(mcp.RoleUser, result("1")), said(mcp.RoleUser, result("1")),
		}, "message 2: the tool result"},
		{"one use is not answered", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1"), use("2")), said(mcp.RoleUser, result("1")),
		}, `message 1: it must answer the tool use "2"`},
		{"talk instead of a result", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1")), said(mcp.RoleUser, mcp.Text("never mind")),
		}, "message 1: it must answer"},
		{"answered twice", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1")), said(mcp.RoleUser, result("1"), result("1")),
		}, "message 1: the tool result"},
		{"result of the assistant", []mcp.SamplingMessage{said(mcp.RoleAssistant, result("1"))}, "message 0: tool results are the user's"},
		{"use of the user", []mcp.SamplingMessage{said(mcp.RoleUser, use("1"))}, "message 0: tool uses are the assistant's"},
		{"result beside text", []mcp.SamplingMessage{
			said(mcp.RoleAssistant, use("1")), said(mcp.RoleUser, result("1"), mcp.Text("here")),
		}, "message 1: tool results stand alone"},
		{"two uses of one id", []mcp.SamplingMessage{said(mcp.RoleAssistant, use("1"), use("1"))}, "message 0: two tool uses"},
	} {
		err := mcp.ValidateSampling(test.messages)
		switch {
		case test.says == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.says != "" && (err == nil || !strings.HasPrefix(err.Error(), test.says)):
			t.Errorf("%s: the error is %v, want %s…", test.name, err, test.says)
		}
	}
}
