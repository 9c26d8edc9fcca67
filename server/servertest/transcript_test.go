package servertest_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/servertest"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// bookTable uses a session: it asks, reports progress, and has a value that differs each time.
func bookTable(t testing.TB, session *client.Session) {
	t.Helper()
	got, err := client.CallAs[string](t.Context(), session, "book", nil, nil)
	if err != nil || got != "4 for Ada Lovelace" {
		t.Errorf("got %q, %v", got, err)
	}
	steps := 0
	if _, err := session.CallTool(t.Context(), "steps", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { steps++ }}); err != nil || steps != 1 {
		t.Errorf("%d steps, %v", steps, err)
	}
	for range 2 {
		if _, err := session.CallTool(t.Context(), "now", nil, nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := session.CallTool(t.Context(), "missing", nil, nil); err == nil {
		t.Error("a tool that does not exist can be called")
	}
}

// recording are the options of a session with a transcript.
func recording(mode servertest.Mode, path string) *servertest.Options {
	return &servertest.Options{Mode: mode, Transcript: path, Volatile: []string{"at"}, Answers: map[string]any{
		"How many guests?": 4,
		"Which name?":      map[string]string{"first": "Ada", "last": "Lovelace"},
	}}
}

// record writes the transcript of a session.
func record(t *testing.T, mode servertest.Mode) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "session.jsonl")
	t.Run("record", func(t *testing.T) {
		update(t)
		bookTable(t, servertest.Connect(t, newServer(nil), recording(mode, path)))
	})
	return path
}

// A session of each mode is equal to its transcript, which is played to a server and to a client.
func TestTranscript(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		path := record(t, mode)
		t.Run("compare", func(t *testing.T) {
			bookTable(t, servertest.Connect(t, newServer(nil), recording(mode, path)))
		})
		t.Run("server", func(t *testing.T) {
			servertest.CheckTranscript(t, newServer(nil), path, nil)
		})
		t.Run("client", func(t *testing.T) {
			opts := client.Options{
				Era:  mode.Era,
				Info: mcp.Implementation{Name: "other", Version: "2"},
				Elicit: func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					content := `{"value":4}`
					if params.Message == "Which name?" {
						content = `{"first":"Ada","last":"Lovelace"}`
					}
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(content)}, nil
				},
			}
			session, err := client.Connect(t.Context(), transport.Pipe(servertest.ReplayServer(t, path)), &opts)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			if name := session.Server().Name; name != "tested" {
				t.Errorf("the server is %q", name)
			}
			if got, err := client.CallAs[string](t.Context(), session, "book", nil, nil); err != nil || got != "4 for Ada Lovelace" {
				t.Errorf("got %q, %v", got, err)
			}
			progress := 0
			if _, err := session.CallTool(t.Context(), "steps", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { progress++ }}); err != nil || progress != 1 {
				t.Errorf("%d progress notifications, %v", progress, err)
			}
			var times []int64
			for range 3 {
				got, err := client.CallAs[struct {
					At int64 `json:"at"`
				}](t.Context(), session, "now", nil, nil)
				if err != nil {
					t.Error(err)
				}
				times = append(times, got.At)
			}
			if times[0] == 0 || times[0] >= times[1] || times[1] != times[2] { // two were recorded
				t.Errorf("the times are %d", times)
			}
			if _, err := session.CallTool(t.Context(), "missing", nil, nil); err == nil || !strings.Contains(err.Error(), `unknown tool: \"missing\"`) {
				t.Errorf("a recorded error: %v", err)
			}
		})
	})
}

// A transcript of an earlier version of the server finds what has changed.
func TestTranscriptDiffers(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		path := record(t, mode)
		changed := func() *server.Server {
			s := newServer(nil)
			s.Remove(mcp.KindTool, "steps")
			server.AddTool(s, server.Tool{Name: "steps"}, func(ctx context.Context, r *server.Request, _ none) (string, error) {
				return "finished", r.Progress(ctx, 1, 2, "middle")
			})
			return s
		}
		got := failing(t, func(tb *fakeTB) { bookTable(t, servertest.Connect(tb, changed(), recording(mode, path))) })
		wantFailure(t, got, `"message":"middle"`)
		got = failing(t, func(tb *fakeTB) { servertest.CheckTranscript(tb, changed(), path, nil) })
		wantFailure(t, got, `+    "message": "middle",`)
	})
}

func TestCheckTranscriptFails(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, test := range map[string]struct{ path, want string }{
		"no file":   {filepath.Join(folder, "none"), "none: open"},
		"not JSON":  {file("text", "{}}\n"), "text: line 1: "},
		"no member": {file("empty", "{}\n"), "empty: line 1 has neither"},
		"silence":   {file("silence", `{"client":{"jsonrpc":"2.0","method":"notifications/none"}}`+"\n"+`{"server":{}}`), "silence: line 2: the server sent nothing for 10s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := failing(t, func(tb *fakeTB) { servertest.CheckTranscript(tb, newServer(nil), test.path, nil) })
				wantFailure(t, got, test.want)
			})
		})
	}
	got := failing(t, func(tb *fakeTB) { servertest.ReplayServer(tb, file("number", `{"client":7}`)) })
	wantFailure(t, got, "number: line 1")
}

// A client that makes another call than the recorded ones fails the test.
func TestReplayOfAnotherCall(t *testing.T) {
	path := record(t, servertest.Mode{Era: client.Legacy})
	got := failing(t, func(tb *fakeTB) {
		session, err := client.Connect(t.Context(), transport.Pipe(servertest.ReplayServer(tb, path)), &client.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if _, err := session.CallTool(t.Context(), "upper", nil, nil); err == nil {
			t.Error("a call that was not recorded has an answer")
		}
		if _, err := session.Call(t.Context(), "other/method", nil, nil); err == nil {
			t.Error("a method that was not recorded has an answer")
		}
	})
	if want := `servertest: the transcript has no call of tools/call with {"name":"upper"}`; got != want {
		t.Errorf("the failure is %q, want %q", got, want)
	}
}

// A file that differs only in volatile values is not written again.
func TestUpdateKeepsEqualTranscripts(t *testing.T) {
	path := record(t, servertest.Mode{})
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("again", func(t *testing.T) {
		update(t)
		bookTable(t, servertest.Connect(t, newServer(nil), recording(servertest.Mode{}, path)))
	})
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file was written again: %v", err)
	}
	t.Run("other", func(t *testing.T) {
		update(t)
		session := servertest.Connect(t, newServer(nil), recording(servertest.Mode{}, path))
		if _, err := session.CallTool(t.Context(), "now", nil, nil); err != nil {
			t.Error(err)
		}
	})
	if after, err = os.ReadFile(path); err != nil || string(after) == string(before) {
		t.Errorf("the file was not written: %v", err)
	}
}

// A transcript is bounded in messages and bytes, and contains only JSON.
func TestTranscriptLimits(t *testing.T) {
	long := `"` + strings.Repeat("x", 9<<20) + `"`
	for name, test := range map[string]struct {
		frame string
		count int
		want  string
	}{
		"messages": {"{}", 10_001, "the session has more than 10000 messages or 16 MiB"},
		"bytes":    {long, 2, "the session has more than 10000 messages or 16 MiB"},
		"no JSON":  {"{", 1, `a message is not JSON: "{"`},
		"allowed":  {"{}", 10_000, "limits.jsonl does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			got := failing(t, func(tb *fakeTB) {
				trace := servertest.Record(tb, filepath.Join(t.TempDir(), "limits.jsonl"))
				for i := range test.count {
					trace("", i%2 == 0, []byte(test.frame))
				}
			})
			wantFailure(t, got, test.want)
		})
	}
}

// A session that Connect has not opened is recorded too.
func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "remote.jsonl")
	endpoint := ws.Handler(newServer(nil), nil)
	web := httptest.NewServer(endpoint)
	defer web.Close()
	defer endpoint.Close()
	visit := func(t testing.TB, text string) {
		opts := &ws.DialOptions{Conn: jsonrpc.Options{Trace: servertest.Record(t, path)}}
		session, err := client.Connect(t.Context(), ws.Dial(web.URL, opts), nil)
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		defer session.Close()
		if _, err := session.CallTool(t.Context(), "upper", map[string]string{"text": text}, nil); err != nil {
			t.Errorf("call: %v", err)
		}
	}
	t.Run("record", func(t *testing.T) {
		update(t)
		visit(t, "a")
	})
	t.Run("compare", func(t *testing.T) { visit(t, "a") })
	servertest.CheckTranscript(t, newServer(nil), path, nil)
	wantFailure(t, failing(t, func(tb *fakeTB) { visit(tb, "b") }), `"text":"B"`)
}

// Subscriptions are recorded and replayed.
func TestTranscriptOfSubscription(t *testing.T) {
	servertest.EachMode(t, func(t *testing.T, mode servertest.Mode) {
		path := filepath.Join(t.TempDir(), "changes.jsonl")
		watch := func(t testing.TB, connect func(client.Options) *client.Session) {
			changes := make(chan mcp.Change, 1)
			session := connect(client.Options{Era: mode.Era, OnChange: func(_ context.Context, change mcp.Change) { changes <- change }})
			subscription, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"mem://profile"}})
			if err != nil {
				t.Fatalf("subscribe: %v", err)
			}
			if _, err := session.CallTool(t.Context(), "touch", nil, nil); err != nil {
				t.Errorf("call: %v", err)
			}
			if change := <-changes; change.URI != "mem://profile" {
				t.Errorf("got %+v", change)
			}
			subscription.Close()
		}
		t.Run("record", func(t *testing.T) {
			update(t)
			s := newServer(nil)
			watched := make(chan struct{}, 1)
			server.AddTool(s, server.Tool{Name: "touch"}, func(ctx context.Context, _ *server.Request, _ none) (string, error) {
				s.ResourceUpdated("mem://profile")
				select {
				case <-watched: // so that the notification precedes the answer
				case <-ctx.Done():
				}
				return "touched", nil
			})
			watch(t, func(opts client.Options) *client.Session {
				report := opts.OnChange
				opts.OnChange = func(ctx context.Context, change mcp.Change) {
					watched <- struct{}{}
					report(ctx, change)
				}
				return servertest.Connect(t, s, &servertest.Options{Mode: mode, Transcript: path, Client: opts})
			})
		})
		t.Run("client", func(t *testing.T) {
			watch(t, func(opts client.Options) *client.Session {
				session, err := client.Connect(t.Context(), transport.Pipe(servertest.ReplayServer(t, path)), &opts)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { session.Close() })
				_, _ = session.Call(t.Context(), "other/method", nil, nil) // the ids of later calls are others
				return session
			})
		})
	})
}
