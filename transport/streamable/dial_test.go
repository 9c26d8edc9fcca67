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

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/httptransport"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A redirect is followed if method and origin stay the same, without additional requests.
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
			s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
				if r.URL.Path == "/there" {
					r.result(w, "{}")
					return
				}
				w.Header().Set("Location", test.to)
				w.WriteHeader(test.status)
			})
			conn := s.dial(new(recorder), streamable.DialOptions{Header: bearer})
			if test.refuse == "" {
				s.call(conn, "tools/call", modern(`"name":"a"`))
				requests := s.requests()
				first, last := requests[0], requests[len(requests)-1]
				if len(requests) != 2 || last.text != first.text || last.Header.Get("Mcp-Name") != "a" || last.Header.Get("Authorization") != "Bearer secret" {
					t.Errorf("asked %d times, then with %v for %s", len(requests), last.Header, last.text)
				}
				return
			}
			failed := s.failure(conn, "tools/call", modern(`"name":"a"`))
			refused, ok := errors.AsType[*httptransport.RedirectError](failed)
			if !ok || failed.Delivery != jsonrpc.Rejected || !strings.Contains(refused.Reason, test.refuse) {
				t.Errorf("got %v", failed)
			}
			if strings.Contains(failed.Error(), "secret") {
				t.Errorf("%v contains a secret", failed)
			}
		})
	}
}

func bearer(_ context.Context, header http.Header) error {
	header.Set("Authorization", "Bearer secret")
	return nil
}

// Every request has the program's header, which cannot replace headers of the protocol.
func TestDialHeaderOption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
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
		conn := s.dial(new(recorder), streamable.DialOptions{Header: func(ctx context.Context, header http.Header) error {
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
	s := newScript(t, func(_ http.ResponseWriter, r *receivedRequest) { t.Errorf("%s was sent", r.text) })
	conn := s.dial(new(recorder), streamable.DialOptions{Header: func(context.Context, http.Header) error { return errNoToken }})
	if failed := s.failure(conn, "tools/list", modern("")); failed.Delivery != jsonrpc.NotSent || !errors.Is(failed, errNoToken) {
		t.Errorf("got %v", failed)
	}
	if err := conn.Notify(t.Context(), "note", nil); !errors.Is(err, errNoToken) {
		t.Errorf("got %v", err)
	}
}

// The trace gets every message in both directions.
func TestDialTrace(t *testing.T) {
	answered := make(chan struct{})
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
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
	conn := s.dial(&recorder{answer: pong}, streamable.DialOptions{Conn: jsonrpc.Options{Trace: func(_ string, sent bool, frame []byte) {
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

// Dial sends no request and reports the cause of an ended context.
func TestDialIsLazy(t *testing.T) {
	s := newScript(t, func(http.ResponseWriter, *receivedRequest) {})
	conn := s.dial(new(recorder), streamable.DialOptions{})
	if _, err := conn.Call(ended(t), "ping", nil); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
	if err := conn.Notify(ended(t), "ping", nil); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
	conn.Close()
	if _, err := streamable.Dial(endpoint, nil).Dial(ended(t), new(recorder)); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
	if s.Dialed() > 0 || len(s.requests()) > 0 {
		t.Error("it was dialled")
	}
}

var errEnded = errors.New("too late")

func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnded)
	return ctx
}

// Connections of one dialer share idle connections, which the last Close closes.
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
		conn, err := dialer.Dial(t.Context(), new(recorder))
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

// A client detects a server of 2024-11-05.
func TestDialFallsBack(t *testing.T) {
	for _, era := range []client.Era{client.Auto, client.Legacy} {
		t.Run(fmt.Sprint(era), func(t *testing.T) {
			endpoint := sse.Handler(newServer(), nil)
			web := httptest.NewServer(endpoint)
			defer web.Close()
			defer endpoint.Close()
			session, err := client.Connect(t.Context(), streamable.Dial(web.URL, nil), &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			var progress int
			result, err := session.CallTool(t.Context(), "steps", sumIn{A: 3}, &client.CallOptions{Progress: func(*mcp.ProgressParams) { progress++ }})
			if err != nil || result.IsError || progress != 3 {
				t.Errorf("got %+v, %v after %d steps", result, err, progress)
			}
		})
	}
}

// A server is an old one if it answers "initialize" without a message.
func TestDialNoFallBack(t *testing.T) {
	named := `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}`
	nameless := strings.ReplaceAll(named, `"id":ID,`, "")
	for name, test := range map[string]struct {
		status int
		text   string
		want   bool
	}{
		"400":           {400, "no", true},
		"404":           {404, "no", true},
		"405":           {405, "", true},
		"406":           {406, "no", true},
		"422":           {422, `{"detail":"no"}`, true},
		"nameless":      {404, nameless, true},
		"named":         {400, named, false},
		"nameless, 200": {200, nameless, false},
		"401":           {401, "no", false},
		"403":           {403, nameless, false},
		"429":           {429, "no", false},
		"500":           {500, "no", false},
		"503":           {503, nameless, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
				if r.Method == http.MethodGet {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				r.json(w, test.status, strings.ReplaceAll(test.text, "ID", r.id))
			})
			conn := s.dial(new(recorder), streamable.DialOptions{Header: bearer})
			_, err := conn.Call(t.Context(), "initialize", jsonrpc.Raw(`{}`))
			if err == nil {
				t.Fatal("it was answered")
			}
			want := "POST initialize"
			if test.want {
				want += ", GET"
				status, ok := errors.AsType[*httptransport.StatusError](err)
				if !ok || status.Status != test.status {
					t.Errorf("got %v, want status %d", err, test.status)
				}
				for _, part := range []string{"neither Streamable HTTP", fmt.Sprint(test.status), "nor HTTP+SSE", "418"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("got %v, want it to contain %s", err, part)
					}
				}
			}
			if got := s.log(); got != want {
				t.Errorf("the requests were %s, want %s", got, want)
			}
			for _, r := range s.requests() {
				if r.Header.Get("Authorization") == "" {
					t.Errorf("%s was asked without authorization", r.Method)
				}
			}
			before := len(s.requests())
			for _, params := range []string{`{}`, modern("")} { // no other message leads there
				_, _ = conn.Call(t.Context(), "ping", jsonrpc.Raw(params))
			}
			if n := len(s.requests()) - before; n != 2 {
				t.Errorf("there were %d more requests", n)
			}
		})
	}
}

// A server that answers a POST with the stream of HTTP+SSE is one of HTTP+SSE.
func TestDialFallsBackAfterEndpointEvent(t *testing.T) {
	messages := make(chan string)
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		if r.URL.Path != "/mcp" {
			w.WriteHeader(http.StatusAccepted)
			if r.id != "" && r.call != "response" {
				go func() { messages <- r.response("{}") }()
			}
			return
		}
		send := r.stream(w)
		e := data("/messages?id=1")
		e.Name = "endpoint"
		send(e)
		answers := messages
		if r.Method == http.MethodPost {
			answers = nil // the client closes this stream
		}
		for {
			select {
			case text := <-answers:
				send(data("%s", text))
			case <-r.Context().Done():
				return
			}
		}
	})
	conn := s.dial(&recorder{}, streamable.DialOptions{})
	if failed := s.failure(conn, "ping", `{}`); failed.Delivery != jsonrpc.Rejected || !strings.Contains(failed.Error(), "HTTP+SSE") {
		t.Errorf("another call fails with %v", failed)
	}
	s.open(conn)
	s.call(conn, "ping", `{}`)
	conn.Close()
}

// The connection then uses HTTP+SSE for everything.
func TestDialAfterFallBack(t *testing.T) {
	messages := make(chan string)
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		switch {
		case r.Method == http.MethodGet:
			send := r.stream(w)
			e := data("/messages?id=1")
			e.Name = "endpoint"
			send(e)
			for {
				select {
				case text := <-messages:
					if text == "" {
						return
					}
					send(data("%s", text))
				case <-r.Context().Done():
					return
				}
			}
		case r.URL.Path == "/mcp":
			w.WriteHeader(http.StatusMethodNotAllowed)
		default:
			w.WriteHeader(http.StatusAccepted)
			if r.id != "" && r.call != "response" {
				go func() { messages <- r.response("{}") }()
			}
		}
	})
	handler := &recorder{}
	conn := s.dial(handler, streamable.DialOptions{})
	s.open(conn)
	s.call(conn, "ping", `{}`)
	conn.Cancel(jsonrpc.IntID(1)) // of nothing
	messages <- note(1)
	s.call(conn, "ping", `{}`)
	if got := handler.read(); got != "note[1]" {
		t.Errorf("got notifications %s", got)
	}
	messages <- ""
	waittest.Receive(t, "the end of the connection", conn.Done())
	if failed := s.failure(conn, "ping", `{}`); failed.Delivery != jsonrpc.NotSent || !errors.Is(failed, jsonrpc.ErrClosed) {
		t.Errorf("got %v", failed)
	}
	conn.Close()
}
