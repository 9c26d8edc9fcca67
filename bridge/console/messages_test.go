package console_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// newTalker returns a server with a tool that reports progress and asks, and one that answers with its arguments.
func newTalker(t *testing.T) *server.Server {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "upstream", Version: "1"}, &server.Options{Logger: quiet()})
	server.AddTool(s, server.Tool{Name: "talk", TextOnly: true}, func(ctx context.Context, r *server.Request, in text) (string, error) {
		if err := r.Progress(ctx, 1, 2, "half"); err != nil {
			return "", err
		}
		_, err := server.Elicit[string](r, "how", "How many?")
		return "done " + in.Text, err
	})
	server.AddTool(s, server.Tool{Name: "echo", TextOnly: true}, func(_ context.Context, _ *server.Request, in text) (string, error) { return in.Text, nil })
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	return s
}

// overHTTP serves a server and returns its dialer.
func overHTTP(t *testing.T, s transport.Binder, served, dialed func(*jsonrpc.Options)) transport.Dialer {
	t.Helper()
	opts, dial := &streamable.Options{Logger: quiet()}, &streamable.DialOptions{}
	served(&opts.Conn)
	dialed(&dial.Conn)
	endpoint := streamable.Handler(s, opts)
	web := httptest.NewServer(endpoint)
	t.Cleanup(web.Close)
	t.Cleanup(func() { _ = endpoint.Close() })
	return streamable.Dial(web.URL, dial)
}

// TestMessagesOfCalls: the messages of a call are kept with it, those of clients and of servers, while another call runs at the same time.
func TestMessagesOfCalls(t *testing.T) {
	for _, front := range []client.Era{client.Modern, client.Legacy} {
		for _, upstream := range []client.Era{client.Modern, client.Legacy} {
			t.Run(fmt.Sprintf("%v-%v", front, upstream), func(t *testing.T) {
				none := func(*jsonrpc.Options) {}
				r := console.NewRecorder(&console.RecorderOptions{Bodies: true, Messages: true})
				r.Hide("canary-of-the-configuration")
				config := bridge.Config{Alias: "files", Dialer: overHTTP(t, newTalker(t), none, r.TraceServers), ProxyOptions: bridge.ProxyOptions{Era: upstream, Logger: quiet()}}
				r.ObserveUpstream(&config)
				b, err := bridge.New(&bridge.Options{Logger: quiet()}, config)
				if err != nil {
					t.Fatal(err)
				}
				options := &server.Options{Logger: quiet()}
				r.ObserveServer(options)
				s := server.New(mcp.Implementation{Name: "front", Version: "1"}, options)
				if err := s.Mount(b, nil); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
				asked, answer := make(chan struct{}), make(chan struct{})
				session, err := client.Connect(t.Context(), overHTTP(t, s, r.TraceClients, none), &client.Options{
					Era: front, Logger: quiet(), Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
						close(asked)
						<-answer
						return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":"three"}`)}, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { session.Close() })
				done := make(chan error, 1)
				go func() {
					_, err := session.CallTool(t.Context(), "files__talk", text{"a"}, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}})
					done <- err
				}()
				<-asked
				if _, err := session.CallTool(t.Context(), "files__echo", text{"canary-of-the-configuration"}, nil); err != nil {
					t.Error(err)
				}
				close(answer)
				if err := <-done; err != nil {
					t.Error(err)
				}
				want := map[client.Era][]string{
					client.Modern: {"tools/call", "> notifications/progress", "> result", "tools/call", "> notifications/progress", "> result"},
					client.Legacy: {"tools/call", "> notifications/progress", "> elicitation/create", "result", "> result"},
				}
				for _, row := range r.Rows() {
					if isModern := (mcp.Version(row.ServerVersion) == mcp.LatestVersion); isModern != (upstream == client.Modern) || row.ServerVersion == "" {
						t.Errorf("%s: the version of the server is %q", row.Exposed, row.ServerVersion)
					}
					waittest.Until(t, "the answer to the client", func() bool { return slices.Contains(exchange(r.Messages(t, row.ID), "client"), "> result") })
					got := r.Messages(t, row.ID)
					clients, servers := exchange(got, "client"), exchange(got, "server")
					if row.Exposed == "files__echo" {
						want := []string{"tools/call", "> result"}
						if !slices.Equal(clients, want) || !slices.Equal(servers, want) {
							t.Errorf("echo: the client exchanged %q, the server %q", clients, servers)
						}
						for _, m := range got.Messages {
							if strings.Contains(m.Text, "canary") || !m.Redacted || m.Version != map[bool]string{true: row.Version, false: row.ServerVersion}[strings.HasSuffix(m.From, "client")] {
								t.Errorf("a message is %+v", m)
							}
						}
						continue
					}
					if !equalButProgress(clients, want[front]) || !equalButProgress(servers, want[upstream]) {
						t.Errorf("talk: the client exchanged %q, the server %q", clients, servers)
					}
					if !strings.Contains(got.Messages[0].Text, `"name":"files__talk"`) {
						t.Errorf("the first message is %s", got.Messages[0].Text)
					}
				}
			})
		}
	}
}

// exchange returns what was exchanged with the client or the server. What was sent as an answer to a call begins with >.
func exchange(of *console.ShownMessages, side string) (list []string) {
	for _, m := range of.Messages {
		switch answers := side == "client"; m.From {
		case side:
			list = append(list, map[bool]string{true: "", false: "> "}[answers]+m.What)
		case "to " + side:
			list = append(list, map[bool]string{true: "> ", false: ""}[answers]+m.What)
		}
	}
	return list
}

// equalButProgress compares exchanges. A run that asks at once may pass its progress on or not. The level of log messages may
// have been set for the call.
func equalButProgress(got, want []string) bool {
	if got[0] == mcp.MethodSetLevel {
		got = got[2:]
	}
	without := func(list []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(what string) bool { return what == "> notifications/progress" })
	}
	return slices.Equal(without(got), without(want)) && slices.Contains(got, "> notifications/progress")
}

// TestMessagesAreKeptWhileTheyAreRecorded: an operator begins and ends it, and a call that was begun before is kept to its end.
func TestMessagesAreKeptWhileTheyAreRecorded(t *testing.T) {
	r := newRig(t, client.Modern, &console.RecorderOptions{Bodies: true})
	c, url := r.open(t)
	session, err := client.Connect(t.Context(), overHTTP(t, r.server, r.recorder.TraceClients, func(*jsonrpc.Options) {}), &client.Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	f := dial(t, url, c.Token())
	for i, on := range []bool{false, true, false} {
		if answer := f.ask(fmt.Sprintf(`"do":"record","on":%t`, on)); answer["error"] != nil {
			t.Fatal(answer)
		}
		if _, err := session.CallTool(t.Context(), "files__echo", map[string]any{"n": i}, nil); err != nil {
			t.Fatal(err)
		}
		f.until(uint64(i+1), "ok")
		answer := f.ask(fmt.Sprintf(`"do":"messages","call":%d`, i+1))
		if got := len(answer["messages"].([]any)); got != map[bool]int{true: 2}[on] || answer["recording"] != on {
			t.Errorf("recording %t: %d messages, %v", on, got, answer["recording"])
		}
	}
	if answer := dial(t, url, c.ViewerToken()).ask(`"do":"messages","call":2`); answer["error"] == nil {
		t.Errorf("a viewer gets %v", answer)
	}
}

// TestMessagesAreBounded: notifications of a call are counted from some number on, and its messages have the limits of contents.
func TestMessagesAreBounded(t *testing.T) {
	racetest.Skip(t)
	r := console.NewRecorder(&console.RecorderOptions{Bodies: true, Messages: true})
	options := &server.Options{Logger: quiet()}
	r.ObserveServer(options)
	s := server.New(mcp.Implementation{Name: "front", Version: "1"}, options)
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	server.AddTool(s, server.Tool{Name: "flood", TextOnly: true}, func(ctx context.Context, q *server.Request, in text) (string, error) {
		for i := range 250 {
			if err := q.Progress(ctx, float64(i), 250, ""); err != nil {
				return "", err
			}
		}
		return strings.Repeat("x", 200_000), nil
	})
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session, err := client.Connect(t.Context(), overHTTP(t, s, r.TraceClients, func(*jsonrpc.Options) {}), &client.Options{Era: era, Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if _, err := session.CallTool(t.Context(), "flood", text{strings.Repeat("y", 100_000)}, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}}); err != nil {
				t.Fatal(err)
			}
		}
		session.Close()
		last := r.Rows()[0].ID
		waittest.Until(t, "the answer to the client", func() bool { return slices.Contains(exchange(r.Messages(t, last), "client"), "> result") })
		got := r.Messages(t, last)
		first, end := got.Messages[0], got.Messages[len(got.Messages)-1]
		if got.Folded[mcp.NotificationProgress] == 0 || len(got.Messages) > 210 || first.Bytes < 100_000 || len(first.Text)+len(first.End) > 64<<10 || end.Bytes < 200_000 {
			t.Errorf("%v: %d messages, folded %v, the first has %d bytes of %d, the last %d", era, len(got.Messages), got.Folded, len(first.Text)+len(first.End), first.Bytes, end.Bytes)
		}
	}
	if size := r.ContentSize(); size > 16<<20 || size < 1<<20 {
		t.Errorf("%d bytes are kept", size)
	}
}
