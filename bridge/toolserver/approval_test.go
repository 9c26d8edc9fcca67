package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// TestSecretsAreRedacted: only the launched server and the approver get the secrets of params.
func TestSecretsAreRedacted(t *testing.T) {
	const canary = "canary-of-the-params"
	opts := gated(t, approval.Options{}, false)
	var seen []string
	opts.Launch = func(_ context.Context, server *config.Resolved) error {
		seen = append(seen, fmt.Sprintf("%v %+v %s", server, server, server.Launch()))
		return nil
	}
	rig := newRig(t, opts)
	approver := rig.approve(t)
	var texts []string
	for _, params := range []toolserver.ServerParams{
		childParams("serve", "API_KEY="+canary),
		childParams("exit", "API_KEY="+canary),
		{URL: "http://user:" + canary + "@127.0.0.1:1/mcp?key=" + canary + "#" + canary, Headers: map[string]string{"X-Key": canary}},
	} {
		runner := rig.runner(t, "a", params)
		failed := runLater(context.Background(), runner, "fail", nil)
		question := approver.next(t)
		approver.decide(t, question, "true")
		if question.Params.Server != "a" || !question.Params.Launched { // programs that know ipybox's params get the name that the caller gave
			t.Errorf("asked is about the server %q, launched: %v", question.Params.Server, question.Params.Launched)
		}
		if !strings.Contains(question.Params.Launch, canary) {
			t.Errorf("the approver does not see the values: %s", question.Params.Launch)
		}
		texts = append(texts, waittest.Receive(t, "the end of the call", failed).Error(), fmt.Sprintf("%v %+v %#v %s", params, params, params, runner))
		if err := rig.Reset(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if all := strings.Join(append(append(texts, seen...), rig.log.String()), "\n"); strings.Contains(all, canary) {
		t.Errorf("a secret is revealed:\n%s", all)
	}
}

// TestApproversSeeWhatWouldRun: every field that a caller can set changes the description that each kind of approver
// is shown, and the digest at its end. No two values look alike.
func TestApproversSeeWhatWouldRun(t *testing.T) {
	var requests []*approval.Request
	var terminals []string
	recording := approval.ApproverFunc(func(ctx context.Context, r *approval.Request) (approval.Answer, error) {
		requests = append(requests, r)
		var out strings.Builder
		_, _ = approval.Terminal(strings.NewReader(""), &out).Approve(ctx, r) // it writes the question, and gets no answer
		terminals = append(terminals, out.String())
		return approval.Answer{Reason: "no"}, nil
	})
	long := strings.Repeat("v", 4<<10)
	command := func(change func(p *toolserver.ServerParams)) toolserver.ServerParams {
		p := toolserver.ServerParams{Command: "/bin/one"}
		change(&p)
		return p
	}
	env := func(name, value string) toolserver.ServerParams {
		return command(func(p *toolserver.ServerParams) { p.Env = map[string]string{name: value} })
	}
	at := func(url string) toolserver.ServerParams { return toolserver.ServerParams{URL: url, Type: "http"} }
	header := func(name, value string) toolserver.ServerParams {
		return toolserver.ServerParams{URL: "http://h/mcp", Headers: map[string]string{name: value}}
	}
	programs := []struct {
		params toolserver.ServerParams
		want   string // in the description
	}{
		{command(func(*toolserver.ServerParams) {}), "/bin/one sha256:"},
		{command(func(p *toolserver.ServerParams) { p.Command = "/bin/\u202etwo" }), `"/bin/\u202etwo"`},
		{command(func(p *toolserver.ServerParams) { p.Args = []string{"x y"} }), `/bin/one "x y" sha256:`},
		{command(func(p *toolserver.ServerParams) { p.Args = []string{"x", "y"} }), `/bin/one x y sha256:`},
		{command(func(p *toolserver.ServerParams) { p.Args = []string{""} }), `/bin/one "" sha256:`},
		{command(func(p *toolserver.ServerParams) { p.Args = []string{"(env", "A=1)"} }), `/bin/one "(env" "A=1)" sha256:`},
		{command(func(p *toolserver.ServerParams) { p.Dir = "/" }), `(cwd /)`},
		{command(func(p *toolserver.ServerParams) { p.Dir = "/a; env A=1" }), `(cwd "/a; env A=1")`},
		{env("A", "1"), `(env A=1)`},
		{env("A", "2"), `(env A=2)`},
		{env("A", ""), `(env A="")`},
		{env("B", "1"), `(env B=1)`},
		{env("PYTHONPATH", "/tmp/evil"), `(env PYTHONPATH=/tmp/evil)`},
		{env("A", "1, B=2"), `(env A="1, B=2")`},
		{command(func(p *toolserver.ServerParams) { p.Env = map[string]string{"A": "1", "B": "2"} }), `(env A=1, B=2)`},
		{env("A", "[redacted]"), `(env A=[redacted])`},
		{env("A", "a\x1b[2Jb\n\u200b\u2066c"), `(env A="a\u001b[2Jb\n\u200b\u2066c")`},
		{env("A\u202e", "1"), `(env "A\u202e"=1)`},
		{env("A", long), `(env A=` + long + `)`},
		{env("A", long+"w"), `(env A=` + long + `w)`},
		{at("http://h/mcp"), `http http://h/mcp sha256:`},
		{at("http://h/mcp?a"), `http://h/mcp?a sha256:`},
		{at("http://h/mcp?a=1"), `http://h/mcp?a=1 sha256:`},
		{at("http://h/mcp?a=2"), `http://h/mcp?a=2 sha256:`},
		{at("http://h/mcp?"), `http://h/mcp? sha256:`},
		{at("http://h/mcp#a"), `http://h/mcp#a sha256:`},
		{at("http://u@h/mcp"), `http://u@h/mcp sha256:`},
		{at("http://u:p@h/mcp"), `http://u:p@h/mcp sha256:`},
		{at("http://u:q@h/mcp"), `http://u:q@h/mcp sha256:`},
		{at("http://h.\u202eexample/mcp"), `\u202eexample`},
		{toolserver.ServerParams{URL: "http://h/mcp", Type: "sse"}, `sse http://h/mcp`},
		{header("A", "1"), `(headers A=1)`},
		{header("A", "2"), `(headers A=2)`},
		{header("B", "1"), `(headers B=1)`},
		{header("A", "x\ty\u202e"), `(headers A="x\ty\u202e")`},
	}
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Name: "all", Effect: policy.Ask}}})
	if err != nil {
		t.Fatal(err)
	}
	rig := newRig(t, toolserver.Options{Guards: []mcp.Guard{approval.Guard(compiled, recording, &approval.Options{Logger: frontendtest.Quiet()})}})
	for _, program := range programs {
		_, err := rig.runner(t, "a", program.params).Run(t.Context(), "t", nil)
		wantCode(t, err, "rejected")
	}
	if len(requests) != len(programs) {
		t.Fatalf("the approver was asked %d times, want %d", len(requests), len(programs))
	}
	texts, digests, subjects := make(map[string]int), make(map[string]int), make(map[approval.Digest]int)
	for i, r := range requests {
		text, digest, _ := strings.Cut(r.Launch, "sha256:")
		if !strings.Contains(r.Launch, programs[i].want) {
			t.Errorf("%d: the approver is shown %s, want %s in it", i, r.Launch, programs[i].want)
		}
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }) {
			t.Errorf("%d: invisible characters: %q", i, text)
		}
		if other, ok := texts[text]; ok {
			t.Errorf("%d and %d are shown alike: %s", other, i, text)
		}
		if other, ok := digests[digest]; ok {
			t.Errorf("%d and %d have one digest", other, i)
		}
		if other, ok := subjects[r.Subject()]; ok {
			t.Errorf("%d and %d have one subject", other, i)
		}
		texts[text], digests[digest], subjects[r.Subject()] = i, i, i
		if len(r.Launch) < 1000 { // a longer one is shown after "all" only
			joined := regexp.MustCompile(`\n  \| `).ReplaceAllString(terminals[i], "")
			if !strings.Contains(joined, "launch    "+approval.Printable(r.Launch)+"\n") {
				t.Errorf("%d: the terminal shows\n%s", i, terminals[i])
			}
		} else if strings.Contains(terminals[i], "to approve") || !strings.Contains(terminals[i], "Type all to show") {
			t.Errorf("%d: the terminal asks before it has shown all:\n%s", i, terminals[i])
		}
	}
}

// TestLongLaunchesAreRefused: a description that is too long for a person is refused, and not truncated.
func TestLongLaunchesAreRefused(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, false))
	long := strings.Repeat("v", 16<<10)
	for name, params := range map[string]toolserver.ServerParams{
		"argument":          {Command: "x", Args: []string{long}},
		"variable":          {Command: "x", Env: map[string]string{"A": long}},
		"name of variable":  {Command: "x", Env: map[string]string{long: ""}},
		"folder":            {Command: "x", Dir: long},
		"header":            {URL: "http://h/mcp", Headers: map[string]string{"A": long}},
		"query":             {URL: "http://h/mcp?" + long},
		"escaped argument":  {Command: "x", Args: []string{strings.Repeat("\x01", 3<<10)}},
		"several arguments": {Command: "x", Args: []string{long[:8<<10], long[:8<<10]}},
	} {
		_, err := rig.runner(t, "a", params).Run(t.Context(), "t", nil)
		if err == nil || !strings.Contains(err.Error(), "expected at most 16384") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestApprovalsAreSpent: a remembered approval of /approve does not apply to a run.
func TestApprovalsAreSpent(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{Remember: time.Hour}, false))
	approver := rig.approve(t)
	runner := rig.runner(t, "a", childParams("serve"))
	do := func(fn func() error, asks bool) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- fn() }()
		if asks {
			approver.decide(t, approver.next(t), `true,"remember":3600`)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	run := func() error {
		_, err := runner.Run(context.Background(), "tool-1", nil)
		return err
	}
	approve := func() error { return runner.Approve(context.Background(), "tool-1", nil) }
	do(approve, true)
	do(approve, false) // remembered
	do(run, true)      // not for a run
	do(run, false)
}

// TestOnlyTrueApproves: only the JSON value true approves.
func TestOnlyTrueApproves(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{Expiry: 200 * time.Millisecond}, false))
	approver := rig.approve(t)
	mark := filepath.Join(t.TempDir(), "mark")
	for _, result := range []string{`"true"`, `"yes"`, `1`, `{}`, `[true]`, `null`, `"false"`} {
		failed := runLater(context.Background(), rig.runner(t, "a", childParams("serve")), "touch", map[string]string{"path": mark})
		approver.decide(t, approver.next(t), result)
		if err := waittest.Receive(t, "the end of the call", failed); err == nil {
			t.Errorf("%s has approved", result)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the tool has run")
	}
}

// TestDisconnectWithdrawsTheRequest: if the client disconnects, a later approval has no effect.
func TestDisconnectWithdrawsTheRequest(t *testing.T) {
	withdrawn := make(withdrawals, 1)
	rig := newRig(t, gated(t, approval.Options{Journal: withdrawn}, false))
	approver := rig.approve(t)
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, hangUp := context.WithCancel(t.Context())
	runner := rig.runner(t, "a", childParams("serve"))
	failed := runLater(ctx, runner, "touch", map[string]string{"path": mark})
	question := approver.next(t)
	hangUp()
	if err := waittest.Receive(t, "the end of the call", failed); !errors.Is(err, context.Canceled) {
		t.Errorf("the runner's error is %v", err)
	}
	waittest.Receive(t, "the withdrawal", withdrawn)
	approver.decide(t, question, "true")
	failed = runLater(context.Background(), runner, "start", nil)
	approver.decide(t, approver.next(t), "true")
	if err := waittest.Receive(t, "the end of the call", failed); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the tool has run")
	}
}

// withdrawals is a journal that signals withdrawn requests.
type withdrawals chan struct{}

func (w withdrawals) Append(e approval.Entry) error {
	if e.Event == "withdrawn" {
		w <- struct{}{}
	}
	return nil
}

// TestUndecidedRequestDelaysNoOther: an open request does not delay others.
func TestUndecidedRequestDelaysNoOther(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	ctx, cancel := context.WithCancel(t.Context())
	undecided := runLater(ctx, rig.runner(t, "a", childParams("serve")), "start", nil)
	approver.next(t)
	for range 5 {
		done := runLater(t.Context(), rig.runner(t, "a", childParams("serve")), "tool-1", nil)
		approver.decide(t, approver.next(t), "true")
		if err := waittest.Receive(t, "the end of the call", done); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	waittest.Receive(t, "the undecided request", undecided)
}

// TestBrokenFramesOfApprovers: invalid frames do not close the channel.
func TestBrokenFramesOfApprovers(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	done := runLater(t.Context(), rig.runner(t, "a", childParams("serve")), "tool-1", nil)
	question := approver.next(t)
	for _, frame := range []string{`{`, `{"result":true}`, `[]`, `{"jsonrpc":"2.0","id":"unknown","result":true}`, `{"jsonrpc":"2.0","id":7}`} {
		if err := approver.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
			t.Fatal(err)
		}
	}
	approver.decide(t, question, "true")
	if err := waittest.Receive(t, "the end of the call", done); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyFirstAsksAboutNoUnknownTool(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, true))
	approver := rig.approve(t)
	runner := rig.runner(t, "a", childParams("serve"))
	_, err := runner.Run(t.Context(), "tool_1", nil)
	wantCode(t, err, "unknown_tool")
	done := runLater(context.Background(), runner, "tool-1", nil)
	question := approver.next(t)
	if question.Params.Tool != "tool-1" || len(question.Params.Digest) != 64 {
		t.Errorf("the approver is asked about %+v", question.Params)
	}
	if err := rig.Reset(t.Context()); err != nil { // the call goes to a new process
		t.Fatal(err)
	}
	approver.decide(t, question, "true")
	if err := waittest.Receive(t, "the end of the call", done); err != nil {
		t.Error(err)
	}
}

// TestNothingIsStartedBeforeApproval: no server is started before the run is approved.
func TestNothingIsStartedBeforeApproval(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	failed := make(chan error, 1)
	mark := filepath.Join(t.TempDir(), "mark")
	go func() {
		_, err := rig.runner(t, "a", toolserver.ServerParams{Command: "/usr/bin/touch", Args: []string{mark}}).Run(context.Background(), "t", nil)
		failed <- err
	}()
	approver.decide(t, approver.next(t), "false")
	wantCode(t, waittest.Receive(t, "the end of the call", failed), "rejected")
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program was started")
	}
}
