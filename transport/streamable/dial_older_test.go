package streamable_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A client comes to terms with a server of 2024-11-05 by itself.
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

// An old server is one that does not answer "initialize" with a message to it.
func TestDialFallsBackOnlyThen(t *testing.T) {
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
			s := play(t, func(w http.ResponseWriter, r *asked) {
				if r.Method == http.MethodGet {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				r.json(w, test.status, strings.ReplaceAll(test.text, "ID", r.id))
			})
			conn := s.dial(new(notebook), streamable.DialOptions{Header: bearer})
			_, err := conn.Call(t.Context(), "initialize", jsonrpc.Raw(`{}`))
			if err == nil {
				t.Fatal("it was answered")
			}
			want := "POST initialize"
			if test.want {
				want += ", GET"
				status, ok := errors.AsType[*streamable.StatusError](err)
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

// From then on everything goes that way, and ends with it.
func TestDialFellBack(t *testing.T) {
	messages := make(chan string)
	s := play(t, func(w http.ResponseWriter, r *asked) {
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
	handler := &notebook{}
	conn := s.dial(handler, streamable.DialOptions{})
	s.open(conn)
	s.ask(conn, "ping", `{}`)
	conn.Cancel(jsonrpc.IntID(1)) // of nothing
	messages <- note(1)
	s.ask(conn, "ping", `{}`)
	if got := handler.read(); got != "note[1]" {
		t.Errorf("told %s", got)
	}
	messages <- ""
	<-conn.Done()
	if failed := s.failure(conn, "ping", `{}`); failed.Delivery != jsonrpc.NotSent || !errors.Is(failed, jsonrpc.ErrClosed) {
		t.Errorf("got %v", failed)
	}
	conn.Close()
}
