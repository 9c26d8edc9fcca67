//go:build soak

package growth

import (
	"context"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// approvalRows are those of policies, pins and approvals.
func approvalRows() []row {
	return []row{
		{of: "rules of a policy", operation: "decision that the last rule makes", n: 50, whole: true, prepare: func(tb testing.TB, n int) func() {
			p := compile(tb, policy.Policy{Rules: rules(n, func(i int) policy.Match { return policy.Match{Names: []string{fmt.Sprint("tool", i)}} })})
			return decide(p, policy.Request{Target: mcp.Target{Name: fmt.Sprint("tool", n-1)}})
		}},
		{of: "patterns of an allow list", operation: "decision that the last pattern makes", n: 50, whole: true, prepare: func(tb testing.TB, n int) func() {
			p := compile(tb, policy.Policy{Allow: names("tool", n)})
			return decide(p, policy.Request{Target: mcp.Target{Name: fmt.Sprint("tool", n-1)}})
		}},
		{of: "principals of a rule", operation: "decision for the last one", n: 16, whole: true, prepare: func(tb testing.TB, n int) func() {
			p := compile(tb, policy.Policy{Rules: []policy.Rule{{Effect: policy.Allow, Match: policy.Match{Principals: names("user", n)}}}})
			return decide(p, policy.Request{Subject: policy.Subject{Principal: fmt.Sprint("user", n-1)}, Target: mcp.Target{Name: "tool"}})
		}},
		{of: "roles of a policy", operation: "decision", n: 50, prepare: func(tb testing.TB, n int) func() {
			roles := make(map[string]policy.RoleOverride, n)
			for _, role := range names("role", n) {
				roles[role] = policy.RoleOverride{Deny: []string{"other"}}
			}
			p := compile(tb, policy.Policy{Roles: roles})
			return decide(p, policy.Request{Subject: policy.Subject{Roles: []string{"role1"}}, Target: mcp.Target{Name: "tool"}})
		}},
		{of: "patterns and roles of a policy", operation: "compilation", n: 50, whole: true, prepare: func(tb testing.TB, n int) func() {
			p := policy.Policy{Deny: names("tool", n), Roles: make(map[string]policy.RoleOverride, n)}
			for _, role := range names("role", n) {
				p.Roles[role] = policy.RoleOverride{Deny: []string{role + "*"}}
			}
			return func() { compile(tb, p) }
		}},
		{
			of: "patterns of an allow and a deny list", operation: "warnings", n: 50, whole: true,
			reason: "each pattern is compared with the others of its list, up to 256, and with those that deny",
			prepare: func(tb testing.TB, n int) func() {
				p := policy.Policy{Allow: names("tool", n), Deny: names("other", n)}
				return func() { p.Warnings() }
			},
		},
		{of: "exempt tools", operation: "decision", n: 100, prepare: func(tb testing.TB, n int) func() {
			var exempt []policy.Exemption
			for _, tool := range names("tool", n) {
				exempt = append(exempt, policy.Exemption{Tool: tool})
			}
			p := compile(tb, policy.Policy{Deny: []string{"*"}, Exempt: exempt})
			return decide(p, policy.Request{Target: mcp.Target{Name: "tool1"}})
		}},
		{of: "tools behind a policy", operation: "call", n: 100, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, guardedServer(n, policy.Guard(compile(tb, policy.Policy{Deny: []string{"other*"}}), nil)), nil)
			return func() { call(tb, session, "tool0", nil) }
		}},
		{of: "tools behind a policy", operation: "list", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, guardedServer(n, policy.Guard(compile(tb, policy.Policy{Deny: []string{"other*"}}), nil)), nil)
			return func() { listTools(tb, session) }
		}},
		{
			of: "tools that an allow list names", operation: "list", n: 50, whole: true,
			reason: "each name is compared with the patterns until one matches, for 6 ns each",
			prepare: func(tb testing.TB, n int) func() {
				session := connect(tb, guardedServer(n, policy.Guard(compile(tb, policy.Policy{Allow: names("tool", n)}), nil)), nil)
				return func() { listTools(tb, session) }
			},
		},
		{of: "pinned tools", operation: "call", n: 100, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, pinnedServer(tb, serverWithTools(n), trusting), nil)
			return func() { call(tb, session, "tool0", nil) }
		}},
		{of: "pinned tools", operation: "list", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			session := connect(tb, pinnedServer(tb, serverWithTools(n), trusting), nil)
			return func() { listTools(tb, session) }
		}},
		{of: "pinned tools", operation: "check of the list after a change of one", n: 100, whole: true, prepare: func(tb testing.TB, n int) func() {
			source := serverWithTools(n)
			pinned := pin.Wrap(source.Provider(), "server", new(pin.Lock), trusting)
			pinned.Catalog()
			toggle := toggler(tb, source)
			return func() {
				toggle()
				pinned.Catalog()
			}
		}},
		{of: "quarantined tools", operation: "acceptance of all", n: 250, whole: true, prepare: func(tb testing.TB, n int) func() {
			source := serverWithTools(n)
			return func() {
				lock := new(pin.Lock)
				pinned := pin.Wrap(source.Provider(), "server", lock, &pin.Options{Logger: silent})
				pinned.Catalog()
				var entries []pin.Entry
				for _, pending := range lock.Pending() {
					entries = append(entries, pending.Entry)
				}
				if err := lock.Accept("server", entries...); err != nil || len(entries) != n {
					tb.Fatal(len(entries), err)
				}
				pinned.Catalog()
			}
		}},
		{
			of: "quarantined tools", operation: "acceptance of each for itself", n: 50, whole: true,
			reason: "each acceptance copies the pins of the server; one acceptance of many does so once",
			prepare: func(tb testing.TB, n int) func() {
				source := serverWithTools(n)
				return func() {
					lock := new(pin.Lock)
					pin.Wrap(source.Provider(), "server", lock, &pin.Options{Logger: silent}).Catalog()
					for _, pending := range lock.Pending() {
						if err := lock.Accept("server", pending.Entry); err != nil {
							tb.Fatal(err)
						}
					}
				}
			}},
		{of: "pinned contents", operation: "reading of one", n: 50, prepare: func(tb testing.TB, n int) func() {
			source := serverWithResources(n)
			session := connect(tb, pinnedServer(tb, source, trusting), nil)
			for i := range n {
				read(tb, session, resource(i))
			}
			return func() { read(tb, session, resource(0)) }
		}},
		{
			of: "pinned contents", operation: "first reading of each", n: 50, whole: true,
			reason: "each new pin copies the pins of the server, of which at most 4,096 are made by a first reading",
			prepare: func(tb testing.TB, n int) func() {
				source := serverWithResources(n)
				return func() {
					pinned := pin.Wrap(source.Provider(), "server", new(pin.Lock), trusting)
					if err := pinned.ReadContents(tb.Context()); err != nil {
						tb.Fatal(err)
					}
				}
			}},
		{of: "open approvals", operation: "ask, decide and run", n: 10, prepare: func(tb testing.TB, n int) func() {
			shown := make(chan struct{}, n)
			approver := approval.Callback(func(ctx context.Context, p *approval.Prompt) {
				if strings.Contains(string(p.Arguments), "open") {
					shown <- struct{}{}
				} else if err := p.Accept(ctx); err != nil {
					tb.Error(err)
				}
			})
			session := askingSession(tb, approver, n)
			openCalls(tb, session, "open", n, shown)
			return func() { call(tb, session, "tool0", nil) }
		}},
		{of: "open approvals", operation: "ask, decide and run through a channel", n: 10, prepare: func(tb testing.TB, n int) func() {
			ch, err := channel.New(&channel.Options{Logger: silent})
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { ch.Close() })
			endpoint := httptest.NewServer(ch)
			tb.Cleanup(endpoint.Close)
			shown := make(chan struct{}, n)
			person, err := channel.Dial(tb.Context(), endpoint.URL, func(ctx context.Context, p *approval.Prompt) {
				if strings.Contains(string(p.Arguments), "open") {
					shown <- struct{}{}
				} else if err := p.Accept(ctx); err != nil {
					tb.Error(err)
				}
			}, &channel.ClientOptions{Token: ch.Token(), Logger: silent})
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { person.Close() })
			session := askingSession(tb, ch, n)
			openCalls(tb, session, "open", n, shown)
			return func() { call(tb, session, "tool0", nil) }
		}},
		{of: "remembered approvals", operation: "call", n: 100, prepare: func(tb testing.TB, n int) func() {
			approver := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
				return approval.Answer{Approved: true, Remember: time.Hour}, nil
			})
			s := guardedServer(n, approval.Guard(asking(tb), approver, &approval.Options{Remember: time.Hour, Logger: silent}))
			session := connectTo(tb, transport.Pipe(s), &client.Options{NoTasks: true})
			for i := range n {
				call(tb, session, fmt.Sprint("tool", i), nil)
			}
			return func() { call(tb, session, "tool0", nil) }
		}},
		{of: "records of a journal", operation: "approved call", n: 50, prepare: func(tb testing.TB, n int) func() {
			journal := openJournal(tb, filepath.Join(tb.TempDir(), "journal"))
			approver := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
				return approval.Answer{Approved: true}, nil
			})
			s := guardedServer(1, approval.Guard(asking(tb), approver, &approval.Options{Journal: journal, Logger: silent}))
			session := connectTo(tb, transport.Pipe(s), &client.Options{NoTasks: true})
			for range n {
				call(tb, session, "tool0", nil)
			}
			return func() { call(tb, session, "tool0", nil) }
		}},
		{of: "records of a journal", operation: "opening", n: 50, whole: true, prepare: func(tb testing.TB, n int) func() {
			path := filepath.Join(tb.TempDir(), "journal")
			journal := openJournal(tb, path)
			for i := range n {
				e := approval.Entry{Event: "asked", ID: fmt.Sprint(i), Digest: approval.Digest{1}, Deadline: time.Now().Add(time.Hour)}
				for _, e.Event = range []string{"asked", "rejected"} {
					if err := journal.Append(e); err != nil {
						tb.Fatal(err)
					}
				}
			}
			if err := journal.Close(); err != nil {
				tb.Fatal(err)
			}
			return func() {
				if err := openJournal(tb, path).Close(); err != nil {
					tb.Fatal(err)
				}
			}
		}},
	}
}

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}

func rules(n int, match func(i int) policy.Match) []policy.Rule {
	all := make([]policy.Rule, n)
	for i := range all {
		all[i] = policy.Rule{Effect: policy.Allow, Match: match(i)}
	}
	return all
}

func compile(tb testing.TB, p policy.Policy) *policy.Compiled {
	tb.Helper()
	compiled, err := policy.Compile(&p)
	if err != nil {
		tb.Fatal(err)
	}
	return compiled
}

// decide returns a function that gets a decision to allow a request.
func decide(p *policy.Compiled, q policy.Request) func() {
	return func() {
		if d := p.Decide(&q); d.Effect != policy.Allow {
			panic(d.String())
		}
	}
}

// asking returns a policy that asks about every call.
func asking(tb testing.TB) *policy.Compiled {
	return compile(tb, policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask}}})
}

func guardedServer(tools int, guard mcp.Guard) *server.Server {
	s := server.New(mcp.Implementation{Name: "guarded", Version: "1.0.0"}, &server.Options{Guards: []mcp.Guard{guard}, Logger: silent})
	for i := range tools {
		server.AddTool(s, server.Tool{Name: fmt.Sprint("tool", i)}, answer)
	}
	return s
}

var trusting = &pin.Options{TrustNew: true, Logger: silent}

func pinnedServer(tb testing.TB, source *server.Server, opts *pin.Options) *server.Server {
	tb.Helper()
	s := newServer(nil)
	mount(tb, s, pin.Wrap(source.Provider(), "server", new(pin.Lock), opts))
	return s
}

// askingSession returns a session with a server that asks about every call. n calls may be open.
func askingSession(tb testing.TB, approver approval.Approver, n int) *client.Session {
	tb.Helper()
	s := guardedServer(1, approval.Guard(asking(tb), approver, &approval.Options{MaxOpen: n + 1, MaxPerCaller: n + 1, Logger: silent}))
	server.AddTool(s, server.Tool{Name: "open"}, func(context.Context, *server.Request, openIn) (string, error) { return "", nil })
	return connectTo(tb, transport.Pipe(s), &client.Options{NoTasks: true})
}

type openIn struct {
	Open int `json:"open"`
}

// openCalls makes n calls of a tool, which last until the end of the test, and waits for a value of begun for each.
func openCalls(tb testing.TB, session *client.Session, tool string, n int, begun <-chan struct{}) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error, n)
	tb.Cleanup(func() {
		cancel()
		for range n {
			<-ended
		}
	})
	for i := range n {
		go func() {
			_, err := session.CallTool(ctx, tool, map[string]any{"open": i + 1}, nil)
			ended <- err
		}()
	}
	for range n {
		select {
		case <-begun:
		case err := <-ended:
			ended <- err
			tb.Fatal("a call has ended", err)
		}
	}
}

func openJournal(tb testing.TB, path string) *approval.FileJournal {
	tb.Helper()
	journal, err := approval.OpenJournal(path, silent)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { journal.Close() })
	return journal
}

func resource(i int) string { return fmt.Sprintf("ui://view/%d", i) }

func resources(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = resource(i)
	}
	return all
}

// serverWithResources returns a server with n resources that browsers run.
func serverWithResources(n int) *server.Server {
	s := newServer(nil)
	for _, uri := range resources(n) {
		addResource(s, uri)
	}
	return s
}

func read(tb testing.TB, session *client.Session, uri string) {
	tb.Helper()
	if _, err := session.ReadResource(tb.Context(), uri, nil); err != nil {
		tb.Fatal(err)
	}
}
