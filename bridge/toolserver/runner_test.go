package toolserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/mcp"
)

// answering returns a runner of a fake tool server with a fixed response, and a function that
// returns the received requests.
func answering(t *testing.T, opts toolserver.RunnerOptions, status int, answer string) (runner *toolserver.Runner, sent func() string) {
	t.Helper()
	bodies := make(chan string, 10)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body) // a reset has no body
		bodies <- r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization") + " " + string(body)
		if status == http.StatusTemporaryRedirect {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(web.Close)
	opts.HTTPClient = web.Client()
	runner, err := toolserver.NewRunner(web.URL+"/base/", "s", &opts)
	if err != nil {
		t.Fatal(err)
	}
	return runner, func() string { return <-bodies }
}

// TestRunnerSendsWhatIpyboxAccepts: the requests have the format of ipybox.
func TestRunnerSendsWhatIpyboxAccepts(t *testing.T) {
	runner, sent := answering(t, toolserver.RunnerOptions{Token: "a-token-of-the-tests", Params: toolserver.ServerParams{Command: "uvx", Args: []string{"mcp-server-fetch"}}}, 200, `{"result":"ok","approved":true}`)
	const params = `"server_params":{"command":"uvx","args":["mcp-server-fetch"]}`
	when := time.Date(2024, 1, 15, 10, 30, 0, 0, time.UTC)
	for arguments, want := range map[any]string{
		nil: `{}`,
		struct {
			At time.Time `json:"at"`
		}{when}: `{"at":"2024-01-15T10:30:00Z"}`,
	} {
		if _, err := runner.Run(t.Context(), "fetch", arguments); err != nil {
			t.Error(err)
		}
		if got := sent(); got != `POST /base/run Bearer a-token-of-the-tests {"server_name":"s",`+params+`,"tool_name":"fetch","tool_args":`+want+`}` {
			t.Errorf("the runner sends %s", got)
		}
	}
	if _, err := runner.Run(t.Context(), "fetch", json.RawMessage(`{ "n": 1.0 }`)); err != nil || !strings.Contains(sent(), `"tool_args":{ "n": 1.0 }`) {
		t.Errorf("arguments are not sent as they stand: %v", err)
	}
	for _, arguments := range []any{7, "x", []int{1}, json.RawMessage(`{`), json.RawMessage(`{"a":1}}`), func() {}} {
		var failed *toolserver.Error
		if _, err := runner.Run(t.Context(), "fetch", arguments); !errors.As(err, &failed) {
			t.Errorf("%v: %v", arguments, err)
		}
	}
	if err := runner.Reset(t.Context()); err != nil || !strings.HasPrefix(sent(), "PUT /base/reset ") {
		t.Error(err)
	}
	if err := runner.Approve(t.Context(), "fetch", nil); err != nil || !strings.HasPrefix(sent(), "POST /base/approve ") {
		t.Error(err)
	}
}

func TestRunnerErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
		is     error // nil for any *Error
		says   string
	}{
		"rejected":              {200, `{"error":"no","type":"rejected"}`, approval.Rejected, "s.t: no"},
		"expired":               {200, `{"error":"late","type":"timeout"}`, approval.Expired, "late"},
		"rejected without type": {200, `{"error":"Approval request for s.t rejected"}`, approval.Rejected, "rejected"},
		"expired without type":  {200, `{"error":"Approval request for s.t expired"}`, approval.Expired, "expired"},
		"failed without type":   {200, `{"error":"Approval request for s.t failed: x"}`, nil, "failed: x"},
		"tool":                  {200, `{"error":"it is rejected"}`, nil, "it is rejected"},
		"conflict":              {200, `{"error":"x","type":"conflict"}`, nil, "x"},
		"validation of FastAPI": {422, `{"detail":[{"loc":["body"]}]}`, nil, "422"},
		"malformed":             {400, `{"detail":"server_name: expected"}`, nil, "server_name"},
		"no token":              {401, `nobody`, nil, "401"},
		"redirect":              {307, ``, nil, "307"},
		"no JSON":               {200, `<html>`, nil, "not from a tool server"},
		"more than JSON":        {200, `{"result":1} x`, nil, "not from a tool server"},
		"neither":               {200, `{}`, nil, "not from a tool server"},
		"an answer too long":    {200, `{"result":"` + strings.Repeat("x", 2000) + `"}`, nil, "more than 1000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			runner, _ := answering(t, toolserver.RunnerOptions{MaxResponse: 1000}, c.status, c.answer)
			_, err := runner.Run(t.Context(), "t", nil)
			var failed *toolserver.Error
			if !errors.As(err, &failed) || failed.Server != "s" || failed.Tool != "t" {
				t.Fatalf("the error is %#v", err)
			}
			if c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v of the kind %q, want %v saying %s", err, failed.Code, c.is, c.says)
			}
			if c.is == nil && (errors.Is(err, approval.Rejected) || errors.Is(err, approval.Expired)) {
				t.Errorf("%v passes for a decision", err)
			}
			if c.status != 200 && failed.Status != c.status {
				t.Errorf("the status is %d", failed.Status)
			}
		})
	}
}

func TestInvalidRunner(t *testing.T) {
	for _, url := range []string{"", "localhost:8900", "ftp://x", "http://", "http://%"} {
		if _, err := toolserver.NewRunner(url, "s", nil); err == nil {
			t.Errorf("%q is taken", url)
		}
	}
	if _, err := toolserver.NewRunner("http://localhost", "s", &toolserver.RunnerOptions{Params: toolserver.ServerParams{Command: "x", URL: "http://h/mcp"}}); err == nil {
		t.Error("params that are none are taken")
	}
	runner, err := toolserver.NewRunner("http://127.0.0.1:1", "s", &toolserver.RunnerOptions{Token: "a-token-of-the-tests"})
	if err != nil {
		t.Fatal(err)
	}
	var failed *toolserver.Error
	if _, err := runner.Run(t.Context(), "t", nil); !errors.As(err, &failed) || failed.Err == nil {
		t.Errorf("the error is %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", runner, runner, runner, runner); strings.Contains(text, "token") {
		t.Errorf("a runner prints its token: %s", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runner.Run(ctx, "t", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestRunAsDecodes(t *testing.T) {
	type sum struct {
		Sum int64 `json:"sum"`
	}
	for answer, want := range map[string]int64{`{"result":{"sum":9007199254740993}}`: 9007199254740993, `{"result":"{\"sum\":2}"}`: 2, `{"result":{"SUM":3}}`: 0} {
		runner, _ := answering(t, toolserver.RunnerOptions{}, 200, answer)
		if got, err := toolserver.RunAs[sum](t.Context(), runner, "t", nil); err != nil || got.Sum != want {
			t.Errorf("%s: %d, %v", answer, got.Sum, err)
		}
	}
	type wait struct {
		For time.Duration `json:"for"`
	}
	for _, answer := range []string{`{"result":{"for":1500000000}}`, `{"result":"{\"for\":1500000000}"}`} {
		runner, _ := answering(t, toolserver.RunnerOptions{}, 200, answer)
		if got, err := toolserver.RunAs[wait](t.Context(), runner, "t", nil); err != nil || got.For != 1500*time.Millisecond {
			t.Errorf("%s: %v, %v", answer, got.For, err)
		}
	}
	runner, _ := answering(t, toolserver.RunnerOptions{}, 200, `{"result":"{\"sum\":2}"}`)
	if got, err := toolserver.RunAs[string](t.Context(), runner, "t", nil); err != nil || got != `{"sum":2}` {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := toolserver.RunAs[int](t.Context(), runner, "t", nil); err == nil || !strings.Contains(err.Error(), "has run") {
		t.Errorf("the error is %v", err)
	}
}

func TestRunRawHasAll(t *testing.T) {
	rig := newRig(t, noGuards())
	runner := rig.runner(t, "a", childParams("serve"))
	result, err := runner.RunRaw(t.Context(), "picture", nil)
	if err != nil || len(result.Content) != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	if image, ok := result.Content[1].(*mcp.ImageContent); !ok || image.MIMEType != "image/png" {
		t.Errorf("the image is %+v", result.Content[1])
	}
	if result, err = runner.RunRaw(t.Context(), "fail", nil); err != nil || !result.IsError {
		t.Errorf("%+v, %v", result, err)
	}
}
