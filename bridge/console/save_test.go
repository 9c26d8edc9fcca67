package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/bridge/internal/transcript"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// results collects the results of calls of tools as they are on a connection of a client.
type results struct {
	mu   sync.Mutex
	list []string
}

func (r *results) trace(opts *jsonrpc.Options) {
	opts.Trace = func(_ string, sent bool, frame []byte) {
		var m struct{ Result json.RawMessage }
		if !sent && json.Unmarshal(frame, &m) == nil && strings.Contains(string(m.Result), `"content"`) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.list = append(r.list, string(m.Result))
		}
	}
}

// last returns the last result.
func (r *results) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return ""
	}
	return r.list[len(r.list)-1]
}

// newRecordedBridge returns a recorder, a server and a bridge to a server over HTTP.
func newRecordedBridge(t *testing.T, upstream client.Era, got *results, opts *console.RecorderOptions) (*console.Recorder, *server.Server) {
	t.Helper()
	r := console.NewRecorder(opts)
	config := bridge.Config{Alias: "files", ProxyOptions: bridge.ProxyOptions{Era: upstream, Logger: quiet()}}
	config.Dialer = overHTTP(t, newTalker(t), func(*jsonrpc.Options) {}, func(conn *jsonrpc.Options) {
		got.trace(conn)
		r.TraceServers(conn)
	})
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
	return r, s
}

// connectAnswering connects a client that answers questions.
func connectAnswering(t *testing.T, s *server.Server, era client.Era) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), overHTTP(t, s, func(*jsonrpc.Options) {}, func(*jsonrpc.Options) {}), answering(era))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func answering(era client.Era) *client.Options {
	return &client.Options{Era: era, Logger: quiet(), Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":"three"}`)}, nil
	}}
}

// TestSavedCallsAreReplayed: a saved call has the handshake of its connection, so that a server that replays it answers the same
// call with the same bytes.
func TestSavedCallsAreReplayed(t *testing.T) {
	for _, upstream := range []client.Era{client.Modern, client.Legacy} {
		for _, tool := range []string{"echo", "talk"} {
			t.Run(fmt.Sprintf("%s/%v", tool, upstream), func(t *testing.T) {
				var recorded, replayed results
				r, s := newRecordedBridge(t, upstream, &recorded, &console.RecorderOptions{Bodies: true, Messages: true})
				in := map[string]any{"text": "<b>\u202e", "n": json.Number("9007199254740993")}
				session := connectAnswering(t, s, upstream)
				if _, err := session.CallTool(t.Context(), "files__echo", text{"another call"}, nil); err != nil {
					t.Fatal(err)
				}
				if _, err := session.CallTool(t.Context(), "files__"+tool, in, nil); err != nil {
					t.Fatal(err)
				}
				want := recorded.last()
				saved, err := r.Save(2, false)
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), "call.jsonl")
				if err := os.WriteFile(path, []byte(saved), 0o600); err != nil {
					t.Fatal(err)
				}
				loaded, err := transcript.Load(path)
				if err != nil {
					t.Fatal(err)
				}
				mock := loaded.Mock(func(method string) { t.Errorf("the transcript has no such request: %s", method) })
				again, err := client.Connect(t.Context(), overHTTP(t, mock, func(*jsonrpc.Options) {}, replayed.trace), answering(upstream))
				if err != nil {
					t.Fatalf("%v:\n%s", err, saved)
				}
				defer again.Close()
				if _, err := again.CallTool(t.Context(), tool, in, nil); err != nil {
					t.Fatalf("%v:\n%s", err, saved)
				}
				if got := replayed.last(); got != want || got == "" {
					t.Errorf("the result is\n%s\nwant\n%s", got, want)
				}
				if strings.Contains(saved, "another call") {
					t.Errorf("the transcript has another call:\n%s", saved)
				}
			})
		}
	}
}

// TestSavedCallIsMasked: what is saved is what the page shows, without secrets of the configuration and with masked values.
func TestSavedCallIsMasked(t *testing.T) {
	r, s := newRecordedBridge(t, client.Modern, new(results), &console.RecorderOptions{Bodies: true, Messages: true})
	r.Hide("canary-of-the-configuration")
	session := connectAnswering(t, s, client.Modern)
	if _, err := session.CallTool(t.Context(), "files__echo", map[string]string{"password": "hunter2", "text": "canary-of-the-configuration"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, reveal := range []bool{false, true} {
		saved, err := r.Save(1, reveal)
		if err != nil || strings.Contains(saved, "hunter2") != reveal || strings.Contains(saved, "canary") {
			t.Errorf("revealed: %t: %v\n%s", reveal, err, saved)
		}
	}
}

// TestCallsThatCannotBeSaved: the operator learns why.
func TestCallsThatCannotBeSaved(t *testing.T) {
	r, s := newRecordedBridge(t, client.Legacy, new(results), &console.RecorderOptions{Bodies: true, Messages: true})
	session := connectAnswering(t, s, client.Legacy)
	if _, err := session.CallTool(t.Context(), "files__echo", text{strings.Repeat("x", 100_000)}, nil); err != nil {
		t.Fatal(err)
	}
	unrecorded := newRig(t, client.Legacy, &console.RecorderOptions{Bodies: true})
	unrecorded.call(t, "echo", `{}`)
	for want, of := range map[string]struct {
		recorder *console.Recorder
		id       uint64
	}{
		"a message is longer than 64 KiB":                             {r, 1},
		"the call is not kept any more":                               {r, 7},
		"the messages between this program and a server are not kept": {unrecorded.recorder, 1},
	} {
		if saved, err := of.recorder.Save(of.id, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s:\n%s", err, want, saved)
		}
	}
}

// TestHandshakesAreBounded: however many connections there are to servers, their handshakes have at most 4 MiB.
func TestHandshakesAreBounded(t *testing.T) {
	r := console.NewRecorder(&console.RecorderOptions{Bodies: true})
	var conn jsonrpc.Options
	r.TraceServers(&conn)
	for i := range 20_000 {
		name := fmt.Sprint("connection ", i)
		conn.Trace(name, true, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"filler":%q}}`, strings.Repeat("x", 1000)))
		conn.Trace(name, true, []byte(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`))
	}
	if n, size := r.Handshakes(); size > 4<<20 || n == 0 || n > 4<<20/1000 {
		t.Errorf("%d handshakes of %d bytes are kept", n, size)
	}
}
