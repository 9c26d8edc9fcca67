package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A redirect is followed if the request stays what it is, and where it was going.
func TestDialRedirects(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		to     string
		refuse string // part of the reason, "" if it is followed
	}{
		"followed":         {307, "/there", ""},
		"another request":  {303, "/there", "turns a POST into a GET"},
		"another server":   {307, "http://evil.test/mcp?key=secret", "another origin"},
		"the default port": {308, "http://script.test:80/there", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, func(w http.ResponseWriter, r *asked) {
				if r.URL.Path == "/there" {
					r.result(w, "{}")
					return
				}
				w.Header().Set("Location", test.to)
				w.WriteHeader(test.status)
			})
			conn := s.dial(new(notebook), streamable.DialOptions{Header: bearer})
			if test.refuse == "" {
				s.ask(conn, "tools/call", modern(`"name":"a"`))
				requests := s.requests()
				first, last := requests[0], requests[len(requests)-1]
				if len(requests) != 2 || last.text != first.text || last.Header.Get("Mcp-Name") != "a" || last.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("asked %d times, then with %v for %s", len(requests), last.Header, last.text)
				}
				return
			}
			failed := s.failure(conn, "tools/call", modern(`"name":"a"`))
			refused, ok := errors.AsType[*streamable.RedirectError](failed)
			if !ok || failed.Delivery != jsonrpc.Rejected || !strings.Contains(refused.Reason, test.refuse) {
				t.Errorf("got %v", failed)
			}
			if strings.Contains(failed.Error(), "secret") {
				t.Errorf("%v tells a secret", failed)
			}
		})
	}
}

func bearer(_ context.Context, header http.Header) error {
	header.Set("Authorization", "Bearer secret")
	return nil
}

// Every request has what the program adds to the header, which cannot be what the
// protocol puts there.
func TestDialHeaderOfTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t, func(w http.ResponseWriter, r *asked) {
			if r.Header.Get("X-Call") == "" {
				t.Errorf("%s %s has no header of the program", r.Method, r.call)
			}
			if !r.opening(w, "1") {
				r.result(w, "{}")
			}
		})
		type key struct{}
		var mu sync.Mutex
		calls := 0
		conn := s.dial(new(notebook), streamable.DialOptions{Header: func(ctx context.Context, header http.Header) error {
			mu.Lock()
			defer mu.Unlock()
			calls++
			header.Set("X-Call", fmt.Sprint(calls, ctx.Value(key{})))
			for _, name := range []string{"Accept", "Content-Type", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
				header.Set(name, "no")
			}
			return nil
		}})
		s.open(conn)
		synctest.Wait()
		ctx := context.WithValue(t.Context(), key{}, "value")
		if _, err := conn.Call(ctx, "tools/call", jsonrpc.Raw(modern(`"name":"a"`))); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		requests := s.requests()
		last := requests[len(requests)-2]
		want := map[string]string{
			"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "a",
		}
		if diff := cmp.Diff(want, headerOf(last)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := last.Header.Get("X-Call"); got != "4value" || len(requests) != calls {
			t.Errorf("the header was made for %s, of %d calls for %d requests", got, calls, len(requests))
		}
	})
}

var errNoToken = errors.New("no token")

func TestDialHeaderFails(t *testing.T) {
	s := play(t, func(_ http.ResponseWriter, r *asked) { t.Errorf("%s was sent", r.text) })
	conn := s.dial(new(notebook), streamable.DialOptions{Header: func(context.Context, http.Header) error { return errNoToken }})
	if failed := s.failure(conn, "tools/list", modern("")); failed.Delivery != jsonrpc.NotSent || !errors.Is(failed, errNoToken) {
		t.Errorf("got %v", failed)
	}
	if err := conn.Notify(t.Context(), "note", nil); !errors.Is(err, errNoToken) {
		t.Errorf("got %v", err)
	}
}

// The trace shows every message, both ways.
func TestDialTrace(t *testing.T) {
	answered := make(chan struct{})
	s := play(t, func(w http.ResponseWriter, r *asked) {
		switch {
		case r.opening(w, ""):
		case r.call == "response":
			w.WriteHeader(http.StatusAccepted)
			close(answered)
		case r.call == "stream":
			send := r.stream(w)
			send(data("%s", note(1)))
			send(data(`{"jsonrpc":"2.0","id":"q","method":"ping"}`))
			<-r.Context().Done()
		default:
			r.json(w, http.StatusBadRequest, `{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}`)
		}
	})
	var mu sync.Mutex
	var frames []string
	ctx, cancel := context.WithCancel(t.Context())
	conn := s.dial(&notebook{answer: pong}, streamable.DialOptions{Conn: jsonrpc.Options{Trace: func(sent bool, frame []byte) {
		mu.Lock()
		defer mu.Unlock()
		direction := "<"
		if sent {
			direction = ">"
		}
		frames = append(frames, direction+string(frame))
	}}})
	s.open(conn)
	go func() {
		<-answered
		cancel()
	}()
	_, _ = conn.Call(ctx, "stream", jsonrpc.Raw(`{}`))
	_, _ = conn.Call(t.Context(), "fail", nil)
	conn.Close()
	want := []string{
		`>{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`,
		`<{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}`,
		`>{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`>{"jsonrpc":"2.0","id":3,"method":"stream","params":{}}`,
		`<{"jsonrpc":"2.0","method":"note","params":[1]}`,
		`<{"jsonrpc":"2.0","id":"q","method":"ping"}`,
		`>{"jsonrpc":"2.0","id":"q","result":{}}`,
		`>{"jsonrpc":"2.0","id":5,"method":"fail"}`,
		`<{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}`,
	}
	if diff := cmp.Diff(want, frames); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Dialling makes no request, and an ended context is said so.
func TestDialIsLazy(t *testing.T) {
	s := play(t, func(http.ResponseWriter, *asked) {})
	conn := s.dial(new(notebook), streamable.DialOptions{})
	if _, err := conn.Call(ended(t), "ping", nil); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
	if err := conn.Notify(ended(t), "ping", nil); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
	conn.Close()
	if _, err := streamable.Dial(endpoint, nil).Dial(ended(t), new(notebook)); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
	if len(s.dialled) > 0 || len(s.requests()) > 0 {
		t.Error("it was dialled")
	}
}

var errEnded = errors.New("too late")

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnded)
	return ctx
}

// Connections of one dialer share what is idle, which goes with the last of them.
func TestDialSharesConnections(t *testing.T) {
	opened, closed := 0, make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			opened++
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	dialer := streamable.Dial(server.URL, nil)
	var conns []transport.Conn
	for range 3 {
		conn, err := dialer.Dial(t.Context(), new(notebook))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		if err := conn.Notify(t.Context(), "note", nil); err != nil {
			t.Error(err)
		}
		conn.Close()
		conn.Close()
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection is still open")
	}
	if opened != 1 {
		t.Errorf("there were %d connections", opened)
	}
}
