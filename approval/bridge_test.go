package approval_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A remote is a server behind a bridge, with the alias files.
type remote struct {
	*server.Server
	bridge *bridge.Bridge
	calls  []string
}

// replace adds or changes a tool.
func (r *remote) replace(t testing.TB, name, description string) {
	t.Helper()
	tool, err := server.NewTool(server.Tool{Name: name, Description: description}, func(_ context.Context, q *server.Request, in writeIn) (string, error) {
		r.calls = append(r.calls, name+" "+in.Path)
		return "done", nil
	})
	if err == nil {
		err = r.Replace(tool)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newRemote(t testing.TB, tools ...string) *remote {
	t.Helper()
	r := &remote{Server: server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{Logger: approvaltests.Quiet()})}
	for _, name := range tools {
		r.replace(t, name, "")
	}
	var err error
	r.bridge, err = bridge.New(&bridge.Options{Logger: approvaltests.Quiet()}, bridge.Config{
		Alias: "files", Dialer: transport.Pipe(r.Server), ProxyOptions: bridge.ProxyOptions{Launch: "how files is launched"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// connectMounted connects a client to a server with a mounted provider.
func connectMounted(t testing.TB, p server.Provider, opts *server.Options, era client.Era) (session *client.Session, stop func()) {
	t.Helper()
	opts.Logger = approvaltests.Quiet()
	s := server.New(mcp.Implementation{Name: "front", Version: "1"}, opts)
	if err := s.Mount(p, nil); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
	if err != nil {
		t.Fatal(err)
	}
	return session, func() {
		session.Close()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// TestPolicyThatNamesServers: over a bridge, the rules match the upstream server and its names,
// and the request has them too.
func TestPolicyThatNamesServers(t *testing.T) {
	rules := approvaltests.Parsed(t, `{"rules":[
		{"effect":"deny","servers":["files"],"names":["rm"],"reason":"never"},
		{"effect":"ask","servers":["files"],"names":["write"]},{"effect":"allow","servers":["files"],"names":["write","read"]}]}`)
	eachEra(t, func(t *testing.T, era client.Era) {
		r := newRemote(t, "read", "write", "rm", "other")
		var shown []approval.Target
		guard := approval.Guard(rules, approval.ApproverFunc(func(_ context.Context, q *approval.Request) (approval.Answer, error) {
			shown = append(shown, q.Target)
			return yes, nil
		}), approvaltests.Options(nil))
		session, stop := connectMounted(t, r.bridge, &server.Options{Guards: []mcp.Guard{guard}}, era)
		defer stop()
		var listed []string
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, tool.Name)
		}
		if slices.Sort(listed); !slices.Equal(listed, []string{"files__read", "files__write"}) {
			t.Errorf("listed are %q", listed)
		}
		for tool, want := range map[string]string{
			"files__read": "", "files__write": "",
			"files__rm": `The policy does not allow the tool "files__rm": never`, "files__other": `The policy does not allow the tool "files__other"`,
		} {
			result, err := session.CallTool(t.Context(), tool, writeIn{tool}, nil)
			if err != nil || result.IsError != (want != "") || !strings.HasPrefix(result.Text(), want) {
				t.Errorf("%s: %v, want %q", tool, err, want)
			}
		}
		digest := r.bridge.Catalog().Lookup(mcp.KindTool, "files__write").Definition.Digest()
		want := approval.Target{Server: "files", Launch: "how files is launched", Tool: "write", ToolDigest: digest}
		if !slices.Equal(shown, []approval.Target{want}) {
			t.Errorf("shown was %+v, want %+v", shown, want)
		}
		if slices.Sort(r.calls); !slices.Equal(r.calls, []string{"read files__read", "write files__write"}) {
			t.Errorf("the server got %q", r.calls)
		}
	})
}

// TestChangesBehindABridge: a tool that is changed, removed or quarantined while a person
// decides is not called.
func TestChangesBehindABridge(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(t *testing.T, r *remote, lock *pin.Lock)
		message string // "" if the tool is called
	}{
		"nothing":      {func(*testing.T, *remote, *pin.Lock) {}, ""},
		"another tool": {func(t *testing.T, r *remote, _ *pin.Lock) { r.replace(t, "other", "changed") }, ""},
		"removed":      {func(_ *testing.T, r *remote, _ *pin.Lock) { r.Remove(mcp.KindTool, "write") }, "is not offered any more"},
		"changed":      {func(t *testing.T, r *remote, _ *pin.Lock) { r.replace(t, "write", "changed") }, "has changed since the call was made"},
		"quarantined": {func(t *testing.T, r *remote, lock *pin.Lock) {
			if err := lock.Pin("all", pin.Entry{Kind: pin.Tool, Name: "files__write"}, "sha256:"+strings.Repeat("0", 64)); err != nil {
				t.Error(err)
			}
		}, "has changed since the call was made"},
	} {
		for _, where := range []string{"on the server", "on the bridge"} {
			t.Run(name+" "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var d approvaltests.MemoryJournal
					lock := pin.NewLock("")
					r := newRemote(t, "write", "other")
					guards := []mcp.Guard{approval.Guard(approvaltests.Asking(), approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
						test.change(t, r, lock)
						sleep(time.Second) // the bridge notices
						return yes, nil
					}), approvaltests.Options(&d))}
					opts := &server.Options{}
					var provider server.Provider = pin.Wrap(r.bridge, "all", lock, &pin.Options{TrustNew: true, Logger: approvaltests.Quiet()})
					if where == "on the server" {
						opts.Guards = guards
					} else {
						provider = guardedProvider(t, provider, guards)
					}
					session, stop := connectMounted(t, provider, opts, client.Modern)
					defer stop()
					result, err := session.CallTool(t.Context(), "files__write", writeIn{"/tmp/a"}, nil)
					if test.message == "" {
						if err != nil || result.IsError || !slices.Equal(r.calls, []string{"write /tmp/a"}) {
							t.Errorf("%v, the server got %q", err, r.calls)
						}
						return
					}
					wantRefusal(t, result, err, approval.Changed, "Approval request for files.write failed: ")
					if !strings.Contains(result.Text(), test.message) || len(r.calls) != 0 {
						t.Errorf("%q, the server got %q", result.Text(), r.calls)
					}
					approvaltests.WantEvents(t, &d, "asked", "withdrawn")
				})
			})
		}
	}
}

// guardedProvider adds guards to a provider.
func guardedProvider(t testing.TB, p server.Provider, guards []mcp.Guard) server.Provider {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "bridge", Version: "1"}, &server.Options{Logger: approvaltests.Quiet()})
	if err := s.Mount(p, &server.MountOptions{Guards: guards}); err != nil {
		t.Fatal(err)
	}
	return s.Provider()
}

// TestArgumentsAfterApproval: a middleware between the guard and the function cannot change
// approved arguments, on the server of the tool or on one in front of it.
func TestArgumentsAfterApproval(t *testing.T) {
	rewrite := func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			changed, err := call.WithParams(json.RawMessage(`{"name":"` + call.Target().Name + `","arguments":{"path":"/etc/b"}}`))
			if err != nil {
				return nil, err
			}
			return next(ctx, changed)
		}
	}
	guards := func(effect policy.Effect, shown *[]string) []mcp.Guard {
		compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Effect: effect}}})
		if err != nil {
			t.Fatal(err)
		}
		return []mcp.Guard{approval.Guard(compiled, approval.ApproverFunc(func(_ context.Context, q *approval.Request) (approval.Answer, error) {
			*shown = append(*shown, q.Text())
			return yes, nil
		}), approvaltests.Options(nil))}
	}
	for name, options := range map[string]func(guards []mcp.Guard) (front, inner *server.Options){
		"call middleware of the front": func(guards []mcp.Guard) (front, inner *server.Options) {
			return &server.Options{Guards: guards, CallMiddleware: []mcp.Middleware{rewrite}}, &server.Options{}
		},
		"middleware of the server behind": func(guards []mcp.Guard) (front, inner *server.Options) {
			return &server.Options{Guards: guards}, &server.Options{Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
				changes := rewrite(next)
				return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
					if call.Method() != mcp.MethodToolsCall {
						return next(ctx, call)
					}
					return changes(ctx, call)
				}
			}}}
		},
		"call middleware of the server behind": func(guards []mcp.Guard) (front, inner *server.Options) {
			return &server.Options{Guards: guards}, &server.Options{CallMiddleware: []mcp.Middleware{rewrite}}
		},
		"a guard after it": func(guards []mcp.Guard) (front, inner *server.Options) {
			return &server.Options{Guards: append(guards, mcp.Guard{Name: "rewrite", Run: rewrite})}, &server.Options{}
		},
	} {
		for _, effect := range []policy.Effect{policy.Ask, policy.Allow} {
			t.Run(name+" "+effect.String(), func(t *testing.T) {
				var shown, ran []string
				front, inner := options(guards(effect, &shown))
				inner.Logger = approvaltests.Quiet()
				s := server.New(mcp.Implementation{Name: "files", Version: "1"}, inner)
				server.AddTool(s, server.Tool{Name: "write"}, func(_ context.Context, _ *server.Request, in writeIn) (string, error) {
					ran = append(ran, in.Path)
					return "done", nil
				})
				session, stop := connectMounted(t, s.Provider(), front, client.Modern)
				defer stop()
				result, err := session.CallTool(t.Context(), "write", writeIn{"/tmp/a"}, nil)
				if effect == policy.Ask {
					wantRefusal(t, result, err, approval.Changed, "Approval request for write failed: ")
					if !slices.Equal(shown, []string{`{"path":"/tmp/a"}`}) || len(ran) != 0 {
						t.Errorf("shown was %q, ran with %q: %v", shown, ran, err)
					}
					return
				}
				// Arguments without an approval may be changed until they are validated.
				if own := name == "call middleware of the server behind"; len(shown) != 0 || (err == nil) == own || (len(ran) == 1) == own {
					t.Errorf("shown was %q, ran with %q: %v", shown, ran, err)
				}
			})
		}
	}
}
