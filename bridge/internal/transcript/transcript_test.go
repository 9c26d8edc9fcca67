package transcript

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// newServer returns a server with a tool, greet, that reports progress and asks for a name.
func newServer(greeting string) *server.Server {
	s := server.New(mcp.Implementation{Name: "greeter", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "greet"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		if err := r.Progress(ctx, 1, 2, "asking"); err != nil {
			return "", err
		}
		name, err := server.Elicit[struct {
			Name string `json:"name"`
		}](r, "name", "Who are you?")
		if err != nil {
			return "", err
		}
		return greeting + " " + name.Name, nil
	})
	server.AddTool(s, server.Tool{Name: "count"}, func(context.Context, *server.Request, struct{}) (int, error) { return 7, nil })
	return s
}

func use(t *testing.T, dialer transport.Dialer, era client.Era) (greeting string, progress int) {
	t.Helper()
	session, err := client.Connect(t.Context(), dialer, &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"name":"Ada"}`)}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil || tool.Name == "" {
			t.Fatal(err)
		}
	}
	result, err := session.CallTool(t.Context(), "greet", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { progress++ }})
	if err != nil {
		t.Fatal(err)
	}
	return result.Text(), progress
}

// recording returns a dialer for a server, with a recording of the messages.
func recording(t *testing.T, s *server.Server, recorder *Recorder) transport.Dialer {
	endpoint := streamable.Handler(s, nil)
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if err := endpoint.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	opts := &streamable.DialOptions{}
	opts.Conn.Trace = func(_ string, sent bool, frame []byte) { recorder.Record(sent, frame) }
	return streamable.Dial(web.URL, opts)
}

// recorded records a session with a server.
func recorded(t *testing.T, s *server.Server, era client.Era) *Transcript {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.jsonl")
	recorder, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if greeting, progress := use(t, recording(t, s, recorder), era); greeting != "hello Ada" || progress == 0 {
		t.Fatalf("%q with %d reports", greeting, progress)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// A transcript is complete without Close, since a program may be killed. An older one stays until
// there is a message.
func TestRecorderWritesImmediately(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(path, []byte(strings.Repeat("older\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	recorder, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer recorder.Close()
	recorder.Record(false, []byte("no message"))
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "older\n") {
		t.Errorf("before the first message: error %v:\n%s", err, text)
	}
	recorder.Record(true, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	recorder.Record(false, []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	if loaded, err := Load(path); err != nil || len(loaded.steps) != 1 || loaded.steps[0].response == nil {
		t.Errorf("after two messages: error %v, %+v", err, loaded)
	}
}

// A replayed server answers the same client as the recorded server did. The recorded client finds no differences in the
// same server, and finds differences in another server.
func TestReplay(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		t.Run(era.String(), func(t *testing.T) {
			loaded := recorded(t, newServer("hello"), era)
			mock := loaded.Mock(func(method string) { t.Errorf("unseen: %s", method) })
			if greeting, progress := use(t, transport.Pipe(mock), era); greeting != "hello Ada" || progress == 0 {
				t.Errorf("the replayed server says %q with %d reports", greeting, progress)
			}
			compared, found, err := loaded.Check(t.Context(), transport.Pipe(newServer("hello")), nil)
			if err != nil || len(found) != 0 || compared < 3 {
				t.Errorf("the same server: %d answers, differences %v, error %v", compared, found, err)
			}
			other := newServer("good bye")
			_, found, err = loaded.Check(t.Context(), transport.Pipe(other), nil)
			if err != nil || len(found) == 0 || !strings.Contains(found[0].String(), `recorded "hello Ada", now "good bye Ada"`) {
				t.Errorf("another server: differences %v, error %v", found, err)
			}
			if _, found, err = loaded.Check(t.Context(), transport.Pipe(other), &CheckOptions{Ignore: []string{"content[*].text", "structuredContent"}}); err != nil || len(found) != 0 {
				t.Errorf("ignored: differences %v, error %v", found, err)
			}
		})
	}
}

func TestUnknownRequestsAreRefused(t *testing.T) {
	var unseen []string
	mock := recorded(t, newServer("hello"), client.Modern).Mock(func(method string) { unseen = append(unseen, method) })
	session, err := client.Connect(t.Context(), transport.Pipe(mock), &client.Options{Era: client.Modern})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(t.Context(), "count", nil, nil); err == nil || !strings.Contains(err.Error(), "the transcript has no such request") {
		t.Error(err)
	}
	if len(unseen) != 1 || unseen[0] != "tools/call" {
		t.Errorf("unseen are %q", unseen)
	}
}

func TestInvalidTranscriptsAreRefused(t *testing.T) {
	const head = `{"format":"dovetail-transcript","version":1}` + "\n"
	for text, want := range map[string]string{
		"":     "line 1",
		"{}\n": "line 1",
		`{"format":"dovetail-transcript","version":2}`: "expected version 1",
		head + "x":                                     "line 2",
		head + `{"from":"me","message":{}}`:            `expected "client" or "server"`,
		head + `{"from":"client"}`:                     "line 2",
		head + "\n" + `{"from":"server","message":[]}`: "line 3",
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestIgnoredPaths(t *testing.T) {
	for _, test := range []struct {
		pattern, path string
		want          bool
	}{
		{"a", "a", true}, {"a", "a.b", true}, {"a.b", "a", false}, {"a[*].c", "a[12].c", true}, {"a[1]", "a[2]", false}, {"*.b", "a.b", true}, {"a", "", false},
	} {
		if got := matches(test.pattern, test.path); got != test.want {
			t.Errorf("%s, %s: %t", test.pattern, test.path, got)
		}
	}
}

// parse returns a transcript or an error, and comparing it with itself finds no difference.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"format":"dovetail-transcript","version":1}
{"ms":0,"from":"client","message":{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"progressToken":1}}}}
{"ms":1,"from":"server","message":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}}
{"ms":1,"from":"server","message":{"jsonrpc":"2.0","id":1,"result":{"a":[1,{}],"_meta":{}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed, err := parse(text)
		if err != nil {
			return
		}
		mock := parsed.Mock(nil)
		for _, s := range parsed.steps {
			if s.ID != nil {
				mock.take(s.Method, s.Params)
				for _, m := range s.during {
					replaced(m.Params, s, []byte("1"), s.Params)
				}
			}
			if s.response != nil && s.response.Result != nil && s.response.Error == nil {
				c := &comparison{}
				if c.answers(s.response, s.response); len(c.found) > 0 {
					t.Errorf("%q differs from itself: %v", text, c.found)
				}
			}
		}
	})
}
