package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// pass waits, in virtual time.
func pass(d time.Duration) { <-time.After(d) }

type text struct {
	Text string `json:"text,omitempty"`
}

// newUpstream returns a server with tools that take fixed times.
func newUpstream() *server.Server { return newUpstreamWith(new(atomic.Int32)) }

// newUpstreamWith is newUpstream, and counts the calls that were canceled.
func newUpstreamWith(canceled *atomic.Int32) *server.Server {
	count := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			call.OnDone(func() {
				if ctx.Err() != nil {
					canceled.Add(1)
				}
			})
			return next(ctx, call)
		}
	}
	s := server.New(mcp.Implementation{Name: "upstream", Version: "1"}, &server.Options{Logger: quiet(), Middleware: []mcp.Middleware{count}})
	add := func(name string, f func(ctx context.Context, r *server.Request, in text) (string, error)) {
		server.AddTool(s, server.Tool{Name: name, TextOnly: true}, f)
	}
	add("slow", func(_ context.Context, _ *server.Request, in text) (string, error) {
		pass(2 * time.Second)
		return in.Text, nil
	})
	add("fail", func(context.Context, *server.Request, text) (string, error) { return "", errors.New("no such file") })
	add("ask", func(_ context.Context, r *server.Request, _ text) (string, error) {
		pass(time.Second)
		return server.Elicit[string](r, "how", "How many?")
	})
	add("report", func(ctx context.Context, r *server.Request, _ text) (string, error) {
		r.Logger("cold").WarnContext(ctx, "the cache is cold")
		return "done", r.Progress(ctx, 61, 100, "page 61")
	})
	hang := func(ctx context.Context, _ *server.Request, _ text) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	add("hang", hang)
	server.AddTool(s, server.Tool{Name: "hang_task", TextOnly: true, Task: server.TaskOptional}, hang)
	add("write", func(_ context.Context, _ *server.Request, in text) (string, error) { return in.Text, nil })
	server.AddRawTool(s, server.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *server.Request, in json.RawMessage) (mcp.Result, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text(string(in))}}, nil
	})
	add("forbidden", func(context.Context, *server.Request, text) (string, error) { panic("it was called") })
	server.AddTool(s, server.Tool{Name: "export", TextOnly: true, Task: server.TaskOptional}, func(context.Context, *server.Request, text) (string, error) {
		pass(5 * time.Second)
		return "exported", nil
	})
	return s
}

const rules = `{"rules": [
	{"name": "no", "effect": "deny", "names": ["forbidden"], "reason": "this tool is not allowed"},
	{"name": "changes", "effect": "ask", "names": ["write"]},
	{"name": "else", "effect": "allow"}
]}`

// A rig is a bridge with one server, files, a server in front of it, and the recorder of both.
type rig struct {
	recorder *console.Recorder // nil if nothing is recorded
	server   *server.Server
	bridge   *bridge.Bridge
	compiled *policy.Compiled
	canceled atomic.Int32 // calls at the server of the bridge
}

// never are arguments of calls about which no person decides, and always those of calls about which a person decides once.
const never, always = `{"text":"never"}`, `{"text":"always"}`

// newRig starts a rig. A person accepts each request after 3 seconds.
func newRig(t *testing.T, upstream client.Era, opts *console.RecorderOptions) *rig {
	t.Helper()
	return rigWith(t, rules, upstream, console.NewRecorder(opts))
}

// rigWith starts a rig with a policy and a recorder, or without a recorder.
func rigWith(t testing.TB, rules string, upstream client.Era, recorder *console.Recorder) *rig {
	t.Helper()
	parsed, err := policy.Parse([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{recorder: recorder}
	if r.compiled, err = policy.Compile(parsed); err != nil {
		t.Fatal(err)
	}
	person := approval.ApproverFunc(func(ctx context.Context, request *approval.Request) (approval.Answer, error) {
		var answered <-chan time.Time
		if string(request.Arguments) != never {
			answered = time.After(3 * time.Second)
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return approval.Answer{}, ctx.Err()
		}
		if string(request.Arguments) == `{"text":"bad"}` {
			return approval.Answer{By: "ada", Reason: "not today"}, nil
		}
		answer := approval.Answer{Approved: true, By: "ada"}
		if string(request.Arguments) == always {
			answer.Remember = time.Hour
		}
		return answer, nil
	})
	asking := &approval.Options{Logger: quiet(), Remember: time.Hour}
	behind := newUpstreamWith(&r.canceled)
	t.Cleanup(func() { _ = behind.Shutdown(context.Background()) })
	config := bridge.Config{Alias: "files", Dialer: transport.Pipe(behind), ProxyOptions: bridge.ProxyOptions{Era: upstream, Logger: quiet()}}
	options := &server.Options{Logger: quiet()}
	if recorder != nil {
		recorder.ObserveApproval(asking)
		recorder.ObserveUpstream(&config)
		recorder.ObserveServer(options)
	}
	if r.bridge, err = bridge.New(&bridge.Options{Logger: quiet()}, config); err != nil {
		t.Fatal(err)
	}
	options.Guards = []mcp.Guard{approval.Guard(r.compiled, person, asking)}
	r.server = server.New(mcp.Implementation{Name: "front", Version: "1"}, options)
	if err := r.server.Mount(r.bridge, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.server.Shutdown(context.Background()) })
	return r
}

// connect connects the client of ada, who answers questions after 4 seconds.
func (r *rig) connect(t testing.TB, era client.Era) *client.Session {
	t.Helper()
	ctx := transport.WithPrincipal(t.Context(), "ada")
	session, err := client.Connect(ctx, transport.Pipe(r.server), &client.Options{
		Era: era, Logger: quiet(), Info: mcp.Implementation{Name: "editor", Version: "2"}, LogLevel: mcp.LevelInfo,
		Elicit: func(ctx context.Context, _ *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			select {
			case <-time.After(4 * time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":"three"}`)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// TestRowsOfCalls: each call has one row, with its outcome and the time that each side took, whatever the versions of the
// client and the server are.
func TestRowsOfCalls(t *testing.T) {
	const second = 1_000_000
	for name, c := range map[string]struct {
		arguments string
		want      row
	}{
		"slow":      {`{"text":"a"}`, row{"ok", "allow", "else", 2 * second, 0, 2 * second, "", ""}},
		"fail":      {`{}`, row{"tool error", "allow", "else", 0, 0, 0, "", ""}},
		"forbidden": {`{}`, row{"denied", "deny", "no", 0, 0, 0, "", ""}},
		"write":     {`{"text":"a"}`, row{"ok", "ask", "changes", 3 * second, 3 * second, 0, "", "ada said true"}},
		"write bad": {`{"text":"bad"}`, row{"rejected", "ask", "changes", 3 * second, 3 * second, 0, "", "ada said false: not today"}},
		"ask":       {`{}`, row{"ok", "allow", "else", 6 * second, 4 * second, 2 * second, "", ""}},
		"report":    {`{}`, row{"ok", "allow", "else", 0, 0, 0, "61 of 100", ""}},
		"export":    {`{}`, row{"ok", "allow", "else", 5 * second, 0, 5 * second, "", ""}},
		"missing":   {`{}`, row{"unknown", "", "", 0, 0, 0, "", ""}},
	} {
		for _, front := range []client.Era{client.Modern, client.Legacy} {
			for _, upstream := range []client.Era{client.Modern, client.Legacy} {
				t.Run(fmt.Sprintf("%s/%v-%v", name, front, upstream), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, upstream, &console.RecorderOptions{Bodies: true})
						session := r.connect(t, front)
						tool, _, _ := strings.Cut(name, " ")
						_, err := session.CallTool(t.Context(), "files__"+tool, json.RawMessage(c.arguments), &client.CallOptions{Progress: func(*mcp.ProgressParams) {}})
						if (err != nil) != (name == "missing") {
							t.Error(err)
						}
						synctest.Wait()
						want := c.want
						if name == "export" && front == client.Modern && upstream == client.Modern {
							want.took, want.served = 5.6*second, 5.6*second // when the state of the task was asked for
						}
						r.check(t, tool, c.arguments, want)
					})
				})
			}
		}
	}
}

// TestRememberedApproval: a call whose approval is remembered waits for nobody, and has the name and the time of that approval.
func TestRememberedApproval(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		t.Run(fmt.Sprint(era), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, era, &console.RecorderOptions{Bodies: true})
				session := r.connect(t, era)
				given := time.Now().Add(3 * time.Second)
				for range 2 {
					if _, err := session.CallTool(t.Context(), "files__write", json.RawMessage(always), nil); err != nil {
						t.Fatal(err)
					}
					pass(time.Minute)
				}
				rows := r.recorder.Rows() // the newest first
				for i, row := range rows {
					d := r.recorder.Call(t, row.ID).Decision
					if d == nil || d.By != "ada" || !d.Approved || d.At != given.UnixMicro() || d.Remembered != (i == 0) || (row.Person == 0) != d.Remembered {
						t.Errorf("the row is %+v, decided by %+v", row, d)
					}
				}
				if len(rows) != 2 {
					t.Errorf("there are %d rows", len(rows))
				}
			})
		})
	}
}

// A row is what a test compares of a row.
type row struct {
	outcome, effect, rule string
	took, person, served  int64 // microseconds
	progress, answer      string
}

// check compares the only row.
func (r *rig) check(t *testing.T, tool, arguments string, want row) {
	t.Helper()
	rows := r.recorder.Rows()
	if len(rows) != 1 {
		t.Fatalf("there are %d rows: %+v", len(rows), rows)
	}
	shown := r.recorder.Call(t, rows[0].ID)
	s := shown.Row
	got := row{s.Outcome, s.Effect, s.Rule, s.Took, s.Person, s.Served, "", ""}
	if s.Progress != "" {
		got.progress = s.Progress + " of " + s.Total
	}
	if d := shown.Decision; d != nil {
		got.answer = fmt.Sprintf("%s said %t", d.By, d.Approved)
		if d.Reason != "" {
			got.answer += ": " + d.Reason
		}
	}
	if got != want {
		t.Errorf("the row is %+v, want %+v", got, want)
	}
	if !s.Ended || s.Open != "" || s.Exposed != "files__"+tool || s.Caller != "ada" || s.Client != "editor 2" {
		t.Errorf("the row is %+v", s)
	}
	if shown.Arguments == nil || shown.Arguments.Text != arguments || (shown.Result == nil) != (s.BytesOut == 0) {
		t.Errorf("the call is %+v", shown)
	}
}
