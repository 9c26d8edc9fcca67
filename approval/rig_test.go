package approval_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
)

var (
	yes = approval.Answer{Approved: true, By: "anna"}
	no  = approval.Answer{Reason: "not today", By: "anna"}
)

// wantRefusal checks the result of a call that was not approved: its text for the model begins with
// the message, and says whether the tool may have been called and not to repeat the call, and its _meta has the code.
func wantRefusal(t testing.TB, result *mcp.CallToolResult, err error, code approval.Code, message string) {
	t.Helper()
	if err != nil || !result.IsError {
		t.Errorf("the result is %v, the error %v; want a refusal", result, err)
		return
	}
	called := "The tool was not called. "
	if code == approval.Spent { // by an earlier run
		called = "The tool may have been called. "
	}
	if text := result.Text(); !strings.HasPrefix(text, message) || !strings.HasSuffix(text, "\n"+called+"Do not repeat the call unless the user asks for it.") {
		t.Errorf("the text is %q, want %q", text, message)
	}
	if got, want := string(result.Meta.Get(mcp.MetaRefusal)), fmt.Sprintf(`{"type":%q}`, string(code)); got != want {
		t.Errorf("the refusal is %s, want %s", got, want)
	}
}

// sleep waits, in virtual time within synctest.
func sleep(d time.Duration) { <-time.After(d) }
