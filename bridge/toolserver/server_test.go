package toolserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/frontend/frontendtest"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// started describes how a child was started.
type started struct {
	PID  int      `json:"pid"`
	Env  []string `json:"env"`
	Args []string `json:"args"`
	Dir  string   `json:"dir"`
}

func startOf(t testing.TB, runner *toolserver.Runner) started {
	t.Helper()
	s, err := toolserver.RunAs[started](t.Context(), runner, "start", nil)
	if err != nil || s.PID <= 1 {
		t.Fatalf("it was started as %+v, %v", s, err)
	}
	return s
}

// codeOf returns the code of an error, or "".
func codeOf(err error) string {
	if failed, ok := errors.AsType[*toolserver.Error](err); ok {
		return failed.Code
	}
	return ""
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if codeOf(err) != code {
		t.Errorf("the error is %v with the code %q, want %q", err, codeOf(err), code)
	}
}

func TestServersAreStartedOnceAndKept(t *testing.T) {
	rig := newRig(t, toolserver.Options{})
	runner := rig.runner(t, "a", childParams("serve"))
	pids := make([]int, 8)
	var all sync.WaitGroup
	for i := range pids {
		all.Go(func() {
			if s, err := toolserver.RunAs[started](t.Context(), runner, "start", nil); err != nil {
				t.Error(err)
			} else {
				pids[i] = s.PID
			}
		})
	}
	all.Wait()
	if pids = slices.Compact(pids); len(pids) != 1 {
		t.Errorf("the servers %d were started for one", pids)
	}
	if other := startOf(t, rig.runner(t, "b", childParams("serve"))); other.PID == pids[0] {
		t.Error("two servers are one process")
	}
}

func TestResetStopsServersAndNextRunStartsThem(t *testing.T) {
	rig := newRig(t, toolserver.Options{})
	a, b := rig.runner(t, "a", childParams("serve")), rig.runner(t, "b", childParams("serve"))
	first, second := startOf(t, a), startOf(t, b)
	if err := a.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if isRunning(first.PID) || isRunning(second.PID) {
		t.Error("a server runs after the reset")
	}
	if again := startOf(t, a); again.PID == first.PID {
		t.Error("the server is the one from before the reset")
	}
}

func TestResetEndsRunningCalls(t *testing.T) {
	rig := newRig(t, toolserver.Options{})
	runner := rig.runner(t, "a", childParams("serve"))
	mark := filepath.Join(t.TempDir(), "mark")
	failed := runLater(context.Background(), runner, "wait", map[string]string{"path": mark})
	awaitFile(t, mark)
	if err := rig.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := waittest.Receive(t, "the end of the call", failed)
	wantCode(t, err, "reset")
	if !strings.Contains(err.Error(), "may have been executed") {
		t.Errorf("the error does not say that the call may have been executed: %v", err)
	}
	startOf(t, runner)
}

func TestResetStopsOwnServersOnly(t *testing.T) {
	rig := newRig(t, toolserver.Options{})
	one := rig.runnerAs(t, frontendtest.TokenOne, "a", childParams("serve"))
	two := rig.runnerAs(t, frontendtest.TokenTwo, "a", childParams("serve"))
	first, second := startOf(t, one), startOf(t, two)
	if first.PID == second.PID {
		t.Error("two principals have one process")
	}
	if err := two.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := startOf(t, one); again.PID != first.PID {
		t.Error("a principal has stopped another's server")
	}
}

func TestSameNameWithOtherParamsIsRefused(t *testing.T) {
	rig := newRig(t, toolserver.Options{})
	a := startOf(t, rig.runner(t, "a", childParams("serve", "X=1")))
	_, err := rig.runner(t, "a", childParams("serve", "X=2")).Run(t.Context(), "start", nil)
	wantCode(t, err, "conflict")
	if again := startOf(t, rig.runner(t, "a", childParams("serve", "X=1"))); again.PID != a.PID {
		t.Error("the first server was stopped")
	}
	if err := rig.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	startOf(t, rig.runner(t, "a", childParams("serve", "X=2")))
}

func TestSameNameWithOtherParamsReplaces(t *testing.T) {
	rig := newRig(t, toolserver.Options{Conflict: toolserver.Restart})
	first := startOf(t, rig.runner(t, "a", childParams("serve", "X=1")))
	second := startOf(t, rig.runner(t, "a", childParams("serve", "X=2")))
	if !slices.Contains(second.Env, "X=2") {
		t.Errorf("the other server is not what runs: %q", second.Env)
	}
	waittest.Until(t, "the first server ends", func() bool { return !isRunning(first.PID) })
}

// A call with other params is a call of the running server, and approvers are shown how that was launched.
func TestSameNameWithOtherParamsIsIgnored(t *testing.T) {
	var shown []string
	person := approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
		shown = append(shown, r.Launch)
		return approval.Answer{Approved: true}, nil
	})
	rig := newRig(t, toolserver.Options{Conflict: toolserver.Ignore, Approver: person})
	first := startOf(t, rig.runner(t, "a", childParams("serve", "X=first")))
	second := startOf(t, rig.runner(t, "a", childParams("serve", "X=second")))
	if second.PID != first.PID || !slices.Contains(second.Env, "X=first") {
		t.Errorf("the call has started another server: %q", second.Env)
	}
	if len(shown) != 2 || shown[1] != shown[0] || !strings.Contains(shown[0], "X=first") {
		t.Errorf("the approver was shown %q", shown)
	}
	if err := rig.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := startOf(t, rig.runner(t, "a", childParams("serve", "X=second"))); !slices.Contains(again.Env, "X=second") || !strings.Contains(shown[2], "X=second") {
		t.Errorf("after a reset the params were ignored: %q", again.Env)
	}
}

// Of several first calls, one launches the server, and the others are calls of that server.
func TestConcurrentCallsWithOtherParamsAreIgnored(t *testing.T) {
	rig := newRig(t, toolserver.Options{Conflict: toolserver.Ignore})
	pids := make(chan int, 4)
	var calls sync.WaitGroup
	for i := range cap(pids) {
		runner := rig.runner(t, "a", childParams("serve", fmt.Sprint("X=", i)))
		calls.Go(func() {
			said, err := toolserver.RunAs[started](t.Context(), runner, "start", nil)
			if err != nil {
				t.Error(err)
			}
			pids <- said.PID
		})
	}
	calls.Wait()
	for first := <-pids; len(pids) > 0; {
		if pid := <-pids; pid != first {
			t.Errorf("two servers run: %d and %d", first, pid)
		}
	}
}

// Start serves the routes, and the approver's, until it is closed.
func TestStart(t *testing.T) {
	approvers, err := channel.New(&channel.Options{Logger: frontendtest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer approvers.Close()
	tools, err := toolserver.Start("localhost:0", &toolserver.Options{Approver: approvers, Launch: toolserver.LaunchAny, Logger: frontendtest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Close()
	if _, err := toolserver.Start(strings.TrimPrefix(tools.URL(), "http://"), nil); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("the address is used twice: %v", err)
	}
	person, err := channel.Dial(t.Context(), tools.URL()+"/approval", func(ctx context.Context, p *approval.Prompt) {
		if err := p.Decide(ctx, approval.Answer{Approved: p.Request.Tool == "tool-1"}); err != nil {
			t.Error(err)
		}
	}, &channel.ClientOptions{Token: approvers.Token(), Logger: frontendtest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer person.Close()
	runner, err := toolserver.NewRunner(tools.URL(), "a", &toolserver.RunnerOptions{Params: childParams("serve"), Token: tools.Authenticator().Token()})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := toolserver.RunAs[string](t.Context(), runner, "tool-1", nil); err != nil || got != "one\ntwo" {
		t.Errorf("the result is %q, %v", got, err)
	}
	if _, err := runner.Run(t.Context(), "tool_2", nil); !errors.Is(err, approval.Rejected) {
		t.Errorf("a call that is not approved: %v", err)
	}
	for range 2 {
		if err := tools.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := runner.Run(t.Context(), "tool-1", nil); err == nil {
		t.Error("a closed tool server serves")
	}
}

func TestKilledServerIsStartedAgain(t *testing.T) {
	rig := newRig(t, toolserver.Options{})
	runner := rig.runner(t, "a", childParams("serve"))
	first := startOf(t, runner)
	mark := filepath.Join(t.TempDir(), "mark")
	failed := runLater(context.Background(), runner, "wait", map[string]string{"path": mark})
	awaitFile(t, mark)
	if err := kill(first.PID); err != nil {
		t.Fatal(err)
	}
	err := waittest.Receive(t, "the end of the call", failed)
	wantCode(t, err, "upstream_lost")
	if !strings.Contains(err.Error(), "may have been executed") {
		t.Errorf("the error does not say that the call may have been executed: %v", err)
	}
	if again := startOf(t, runner); again.PID == first.PID {
		t.Error("it is the server that was killed")
	}
}

func TestFailedStartIsNotKept(t *testing.T) {
	rig := newRig(t, toolserver.Options{})
	program := filepath.Join(t.TempDir(), "program")
	params := childParams("serve")
	params.Command = program
	runner := rig.runner(t, "a", params)
	_, err := runner.Run(t.Context(), "start", nil)
	wantCode(t, err, "start_failed")
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	startOf(t, runner)
}

func TestConnectTimeoutBoundsAStart(t *testing.T) {
	rig := newRig(t, toolserver.Options{ConnectTimeout: 200 * time.Millisecond})
	waittest.Within(t, "the timeout of the start", func(ctx context.Context) {
		_, err := rig.runner(t, "a", childParams("hang")).Run(ctx, "start", nil)
		wantCode(t, err, "start_failed")
		if !strings.Contains(err.Error(), "took too long") {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestHangingStartDelaysNoOther: a server that hangs during its start delays only its own
// callers, and no reset.
func TestHangingStartDelaysNoOther(t *testing.T) {
	rig := newRig(t, toolserver.Options{ConnectTimeout: time.Minute})
	hanging := runLater(context.Background(), rig.runner(t, "hanging", childParams("hang")), "start", nil)
	servers := map[string]toolserver.ServerParams{"child": childParams("serve"), "remote": {URL: newRemote(t)}}
	var all sync.WaitGroup
	for i := range 20 {
		for name, params := range servers {
			runner := rig.runner(t, name, params)
			all.Go(func() {
				for n := range 5 {
					arguments := json.RawMessage(fmt.Sprintf(`{"from":%d,"n":%d}`, i, n))
					if got, err := toolserver.RunAs[string](t.Context(), runner, "echo", arguments); err != nil || got != string(arguments) {
						t.Errorf("%s: %q, %v", name, got, err)
					}
				}
			})
		}
	}
	all.Wait()
	select {
	case err := <-hanging:
		t.Errorf("the hanging start has ended: %v", err)
	default:
	}
	if err := rig.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCode(t, waittest.Receive(t, "the call that hangs", hanging), "reset")
}

func TestIdleServerIsStopped(t *testing.T) {
	rig := newRig(t, toolserver.Options{IdleTimeout: 50 * time.Millisecond})
	runner := rig.runner(t, "a", childParams("serve"))
	first := startOf(t, runner)
	waittest.Until(t, "the idle server ends", func() bool { return !isRunning(first.PID) })
	if again := startOf(t, runner); again.PID == first.PID {
		t.Error("it is the server that was stopped")
	}
}

func TestNumberOfServersIsBounded(t *testing.T) {
	rig := newRig(t, toolserver.Options{MaxServers: 1})
	mark := filepath.Join(t.TempDir(), "mark")
	failed := runLater(context.Background(), rig.runner(t, "a", childParams("serve")), "wait", map[string]string{"path": mark})
	awaitFile(t, mark)
	_, err := rig.runner(t, "b", childParams("serve")).Run(t.Context(), "start", nil)
	wantCode(t, err, "busy")
	if err := rig.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, "the end of the call", failed)
	b := startOf(t, rig.runner(t, "b", childParams("serve")))
	startOf(t, rig.runner(t, "c", childParams("serve"))) // stops b, which is idle
	if isRunning(b.PID) {
		t.Error("more servers run than may")
	}
}

func TestCloseEndsEverything(t *testing.T) {
	opts := gated(t, approval.Options{}, false)
	rig := newRig(t, opts)
	approver := rig.approve(t)
	failed := runLater(context.Background(), rig.runner(t, "a", childParams("serve")), "start", nil)
	approver.next(t)
	for range 2 {
		if err := rig.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, waittest.Receive(t, "the end of the call", failed), "closed")
	_, err := rig.runner(t, "a", childParams("serve")).Run(t.Context(), "start", nil)
	wantCode(t, err, "closed")
}

func TestShutdownLetsCallsEnd(t *testing.T) {
	rig := newRig(t, gated(t, approval.Options{}, false))
	approver := rig.approve(t)
	done := runLater(context.Background(), rig.runner(t, "a", childParams("serve")), "start", nil)
	question := approver.next(t)
	ended := make(chan error, 1)
	go func() { ended <- rig.Shutdown(context.Background()) }()
	waittest.Until(t, "new runs are refused", func() bool {
		_, err := rig.runner(t, "b", childParams("serve")).Run(t.Context(), "start", nil)
		return codeOf(err) == "closed"
	})
	approver.decide(t, question, "true")
	if err := waittest.Receive(t, "the end of the call", done); err != nil {
		t.Error(err)
	}
	if err := waittest.Receive(t, "the end of Shutdown", ended); err != nil {
		t.Error(err)
	}
}

// TestStrangersAreRefused: requests without authentication, and with DNS rebinding, launch
// nothing.
func TestStrangersAreRefused(t *testing.T) {
	access := frontendtest.Authenticator(t, gateway.AuthenticatorOptions{})
	mark := filepath.Join(t.TempDir(), "mark")
	rig := newRig(t, toolserver.Options{Authenticator: access})
	body := `{"server_name":"a","server_params":{"command":"/usr/bin/touch","args":["` + mark + `"]},"tool_name":"t","tool_args":{}}`
	for _, route := range []string{"POST /run", "POST /run?full=1", "POST /approve", "PUT /reset", "GET /status", "GET /", "POST /nothing"} {
		for name, c := range map[string]struct {
			change func(*http.Request)
			status int
		}{
			"no token":       {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
			"wrong token":    {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("x", 26)) }, http.StatusUnauthorized},
			"token in query": {func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "token=" + access.Token() }, http.StatusUnauthorized},
			"strange host":   {func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
			"strange origin": {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
			"plain text":     {func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
			"other charset":  {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=latin1") }, http.StatusUnsupportedMediaType},
		} {
			method, path, _ := strings.Cut(route, " ")
			request, err := http.NewRequestWithContext(t.Context(), method, rig.url+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Authorization", "Bearer "+access.Token())
			c.change(request)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != c.status {
				t.Errorf("%s with %s: status %d, want %d", route, name, response.StatusCode, c.status)
			}
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a stranger has launched a program")
	}
}

func TestCallersLaunchNothingByDefault(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	tools, err := toolserver.New(&toolserver.Options{Authenticator: frontendtest.Authenticator(t, gateway.AuthenticatorOptions{Open: true}), Logger: frontendtest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer tools.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: tools}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	defer func() { web.Close(); <-served }()
	for name, params := range map[string]toolserver.ServerParams{
		"command": {Command: "/usr/bin/touch", Args: []string{mark}}, "url": {URL: "http://127.0.0.1:1/mcp"},
	} {
		runner, err := toolserver.NewRunner("http://"+listener.Addr().String(), "a", &toolserver.RunnerOptions{Params: params})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = runner.Run(t.Context(), "t", nil); codeOf(err) != "launch_refused" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a caller has launched a program")
	}
}

func TestLaunchDecides(t *testing.T) {
	rig := newRig(t, toolserver.Options{Launch: func(_ context.Context, s *config.Resolved) error {
		if s.Command.Reveal() != os.Args[0] {
			return errors.New("only one program")
		}
		return nil
	}})
	startOf(t, rig.runner(t, "a", childParams("serve")))
	_, err := rig.runner(t, "b", toolserver.ServerParams{Command: "/bin/sh"}).Run(t.Context(), "start", nil)
	wantCode(t, err, "launch_refused")
	if !strings.Contains(err.Error(), "only one program") {
		t.Errorf("the error does not contain the reason: %v", err)
	}
}

// TestVariablesOfCallersStay: params are never expanded, because callers could read the
// environment of this process.
func TestVariablesOfCallersStay(t *testing.T) {
	t.Setenv("SECRET_OF_THE_OPERATOR", "canary-of-the-environment")
	rig := newRig(t, toolserver.Options{})
	params := childParams("serve", "STOLEN=${SECRET_OF_THE_OPERATOR}", "ALSO=$SECRET_OF_THE_OPERATOR")
	params.Args = []string{"${SECRET_OF_THE_OPERATOR}"}
	got := startOf(t, rig.runner(t, "a", params))
	if !slices.Contains(got.Env, "STOLEN=${SECRET_OF_THE_OPERATOR}") || !slices.Equal(got.Args, params.Args) {
		t.Errorf("the child has got %q and %q", got.Env, got.Args)
	}
	if all := strings.Join(append(got.Env, got.Args...), " "); strings.Contains(all, "canary") {
		t.Errorf("the child has got the environment: %s", all)
	}
	_, err := rig.runner(t, "b", toolserver.ServerParams{Command: "/no/such/${PROGRAM}"}).Run(t.Context(), "t", nil)
	if err == nil || !strings.Contains(err.Error(), "are not expanded") {
		t.Errorf("the error does not say that variables are not expanded: %v", err)
	}
}

func TestPolicyOfLaunchedServers(t *testing.T) {
	rules, err := policy.Compile(&policy.Policy{Deny: []string{"a__fail", "b__*"}})
	if err != nil {
		t.Fatal(err)
	}
	rig := newRig(t, toolserver.Options{Guards: []mcp.Guard{policy.Guard(rules, nil)}})
	a, b := rig.runner(t, "a", childParams("serve")), rig.runner(t, "b", childParams("exit"))
	startOf(t, a)
	_, err = a.Run(t.Context(), "fail", nil)
	wantCode(t, err, "forbidden")
	_, err = b.Run(t.Context(), "start", nil)
	wantCode(t, err, "forbidden")
}

// TestChangedCallIsRefused: a middleware cannot change a call to another tool.
func TestChangedCallIsRefused(t *testing.T) {
	rig := newRig(t, toolserver.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			changed, err := call.WithParams(json.RawMessage(`{"name":"a__start","arguments":{}}`))
			if err != nil {
				return nil, err
			}
			return next(ctx, changed)
		}
	}}})
	_, err := rig.runner(t, "a", childParams("serve")).Run(t.Context(), "tool-1", nil)
	wantCode(t, err, "forbidden")
}

func TestCallTimeoutBoundsARun(t *testing.T) {
	rig := newRig(t, toolserver.Options{CallTimeout: 300 * time.Millisecond})
	runner := rig.runner(t, "a", childParams("serve"))
	_, err := runner.Run(t.Context(), "wait", map[string]string{"path": filepath.Join(t.TempDir(), "mark")})
	if code := codeOf(err); code != "call_timeout" && code != "upstream_timeout" {
		t.Errorf("the error is %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, opts := range map[string]*toolserver.Options{
		"CallTimeout": {CallTimeout: -1}, "MaxServers": {MaxServers: -1}, "Conflict": {Conflict: 3},
		"Approver": {Approver: approval.Elicitation(), Server: newTools()},
	} {
		if _, err := toolserver.New(opts); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
