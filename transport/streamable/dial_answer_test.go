package streamable_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Whatever comes back, a call has one outcome, which says how far it got.
func TestDialAnswers(t *testing.T) {
	const (
		page    = "<html>\nno\x1b[0m"
		refused = `{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"}}`
	)
	type outcome struct {
		result     string           // of success
		code       jsonrpc.Code     // of an error of the peer
		delivery   jsonrpc.Delivery // otherwise
		status     int              // of a StatusError
		notReached bool
		text       string // part of the message
	}
	own := func(text string) func(w http.ResponseWriter, r *asked) {
		return func(w http.ResponseWriter, r *asked) { r.json(w, http.StatusOK, strings.ReplaceAll(text, "ID", r.id)) }
	}
	status := func(status int, text string, header ...string) func(w http.ResponseWriter, r *asked) {
		return func(w http.ResponseWriter, r *asked) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			r.json(w, status, strings.ReplaceAll(text, "ID", r.id))
		}
	}
	typed := func(kind, text string) func(w http.ResponseWriter, r *asked) {
		return func(w http.ResponseWriter, r *asked) {
			w.Header()["Content-Type"] = []string{kind}
			w.Write([]byte(strings.ReplaceAll(text, "ID", r.id)))
		}
	}
	events := func(texts ...string) func(w http.ResponseWriter, r *asked) {
		return func(w http.ResponseWriter, r *asked) {
			send := r.stream(w)
			for _, text := range texts {
				send(data("%s", strings.ReplaceAll(text, "ID", r.id)))
			}
		}
	}
	const response = `{"jsonrpc":"2.0","id":ID,"result":{"a": [1.0]}}`
	const other = `{"jsonrpc":"2.0","id":4711,"result":{}}`
	const twice = `{"jsonrpc":"2.0","id":ID,"result":{"a":1,"a":2}}`
	failure := strings.ReplaceAll(refused, `"error"`, `"id":ID,"error"`)
	busy := strings.ReplaceAll(failure, "-32000", "429")
	lost := outcome{delivery: jsonrpc.MaybeExecuted}
	malformed := outcome{delivery: jsonrpc.MaybeExecuted, text: "malformed answer"}

	for name, test := range map[string]struct {
		serve func(w http.ResponseWriter, r *asked)
		want  outcome
	}{
		"JSON":                        {own(response), outcome{result: `{"a": [1.0]}`}},
		"JSON without a type":         {typed("", response), outcome{result: `{"a": [1.0]}`}},
		"JSON with a charset":         {typed("Application/JSON; charset=utf-8", response), outcome{result: `{"a": [1.0]}`}},
		"JSON in an array":            {own(`[` + note(1) + `,` + response + `]`), outcome{result: `{"a": [1.0]}`}},
		"status 201":                  {status(201, response), outcome{result: `{"a": [1.0]}`}},
		"error":                       {own(failure), outcome{code: -32000}},
		"error without id":            {own(refused), outcome{code: -32000}},
		"error with status 400":       {status(400, failure), outcome{code: -32000}},
		"error without id, 400":       {status(400, refused), outcome{code: -32000}},
		"method not found, 404":       {status(404, strings.ReplaceAll(failure, "-32000", "-32601")), outcome{code: -32601}},
		"error with status 500":       {status(500, failure), outcome{code: -32000}},
		"error without id, 500":       {status(500, refused), outcome{delivery: jsonrpc.MaybeExecuted, status: 500, notReached: true}},
		"somebody else's error, 400":  {status(400, strings.ReplaceAll(failure, "ID", "4711")), outcome{delivery: jsonrpc.Rejected, status: 400}},
		"busy":                        {own(busy), outcome{delivery: jsonrpc.Rejected, text: "no"}},
		"busy in a stream":            {events(busy), outcome{delivery: jsonrpc.Rejected, text: "no"}},
		"somebody else's":             {own(other), outcome{delivery: jsonrpc.MaybeExecuted, text: "does not hold the response"}},
		"a notification":              {own(note(1)), outcome{delivery: jsonrpc.MaybeExecuted, text: "does not hold the response"}},
		"neither JSON nor a message":  {own(page), lost},
		"empty":                       {own(""), lost},
		"malformed":                   {own(twice), malformed},
		"malformed in a stream":       {events(note(1), twice, response), malformed},
		"page":                        {typed("text/html", page), outcome{delivery: jsonrpc.MaybeExecuted, text: `"text/html"`}},
		"status 202":                  {status(202, ""), lost},
		"status 204":                  {func(w http.ResponseWriter, _ *asked) { w.WriteHeader(http.StatusNoContent) }, lost},
		"status 304":                  {func(w http.ResponseWriter, _ *asked) { w.WriteHeader(http.StatusNotModified) }, outcome{delivery: jsonrpc.Rejected, status: 304}},
		"stream":                      {events(response), outcome{result: `{"a": [1.0]}`}},
		"stream with more":            {events(note(1), other, page, `[`+note(2)+`,`+response+`]`, note(3)), outcome{result: `{"a": [1.0]}`}},
		"stream without the response": {events(note(1), other), outcome{delivery: jsonrpc.MaybeExecuted, text: "has ended without the response"}},
		"stream with other events": {func(w http.ResponseWriter, r *asked) {
			send := r.stream(w)
			for _, name := range []string{"endpoint", "ping", "message"} {
				e := data("%s", strings.ReplaceAll(response, `"a"`, `"`+name+`"`))
				e.Name, e.Data = name, []byte(strings.ReplaceAll(string(e.Data), "ID", r.id))
				send(e)
			}
		}, outcome{result: `{"message": [1.0]}`}},
		"status 400":             {status(400, page), outcome{delivery: jsonrpc.Rejected, status: 400, text: `400 Bad Request: "<html>\nno\x1b[0m"`}},
		"status 401":             {status(401, failure), outcome{delivery: jsonrpc.Rejected, status: 401, notReached: true}},
		"status 403":             {status(403, refused), outcome{delivery: jsonrpc.Rejected, status: 403, notReached: true}},
		"status 404":             {status(404, page), outcome{delivery: jsonrpc.Rejected, status: 404}},
		"status 429":             {status(429, page), outcome{delivery: jsonrpc.Rejected, status: 429, notReached: true}},
		"status 502":             {status(502, page), outcome{delivery: jsonrpc.MaybeExecuted, status: 502, notReached: true}},
		"status 503":             {status(503, page), outcome{delivery: jsonrpc.MaybeExecuted, status: 503, notReached: true}},
		"status 503, come again": {status(503, page, "Retry-After", "7"), outcome{delivery: jsonrpc.Rejected, status: 503, notReached: true}},
		"too long":               {own(`"` + strings.Repeat("x", 2000) + `"`), outcome{delivery: jsonrpc.MaybeExecuted, text: "at most 1000 bytes"}},
		"too long, length not given": {func(w http.ResponseWriter, r *asked) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			w.Write(make([]byte, 2000))
		}, outcome{delivery: jsonrpc.MaybeExecuted, text: "at most 1000 bytes"}},
		"too long for an event": {events(strings.Repeat("x", 2000)), outcome{delivery: jsonrpc.MaybeExecuted, text: "at most 1000 bytes"}},
		"too long for an error": {status(404, strings.Repeat("x", 2000)), outcome{delivery: jsonrpc.Rejected, status: 404}},
		"cut off": {func(w http.ResponseWriter, r *asked) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			w.Write([]byte(`{"jsonrpc"`))
		}, outcome{delivery: jsonrpc.MaybeExecuted, notReached: true}},
		"no answer": {func(http.ResponseWriter, *asked) { panic(http.ErrAbortHandler) }, outcome{delivery: jsonrpc.MaybeExecuted, notReached: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, test.serve)
			conn := s.dial(new(notebook), streamable.DialOptions{MaxMessage: 1000})
			resp, err := conn.Call(t.Context(), "tools/call", jsonrpc.Raw(modern(`"name":"a"`)))
			want := test.want
			switch {
			case want.result != "":
				if err != nil || string(resp.Result) != want.result {
					t.Errorf("got %v, %v, want %s", resp, err, want.result)
				}
				return
			case err == nil:
				t.Fatalf("got %s, want an error", resp.Result)
			case want.code != 0:
				if e, ok := err.(*jsonrpc.Error); !ok || e.Code != want.code {
					t.Errorf("got %v, want code %d", err, want.code)
				}
				return
			}
			failed, ok := err.(*jsonrpc.CallError)
			if !ok || failed.Delivery != want.delivery || failed.Method != "tools/call" {
				t.Errorf("got %v (%T), want %v", err, err, want.delivery)
			}
			if errors.Is(err, transport.ErrNotReached) != want.notReached {
				t.Errorf("%v: ErrNotReached is %t, want %t", err, !want.notReached, want.notReached)
			}
			if e, ok := errors.AsType[*streamable.StatusError](err); ok != (want.status != 0) || ok && e.Status != want.status {
				t.Errorf("got %v, want status %d", err, want.status)
			}
			if !strings.Contains(err.Error(), want.text) {
				t.Errorf("got %v, want it to contain %s", err, want.text)
			}
			if strings.Contains(err.Error(), "secret") || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q is not fit to print", err)
			}
			if _, ok := errors.AsType[*streamable.SizeError](err); ok != strings.Contains(want.text, "at most") {
				t.Errorf("got %v (%T)", err, failed.Err)
			}
			if strings.Contains(want.text, "malformed") {
				if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
					t.Errorf("%v counts as an error of the peer", err)
				}
			}
		})
	}
}

// An error by which HTTP refuses is of one type, whichever transport has met it.
func TestDialStatusError(t *testing.T) {
	s := play(t, func(w http.ResponseWriter, r *asked) {
		w.Header().Set("Retry-After", "7")
		r.json(w, 401, "no")
	})
	failed := s.failure(s.dial(new(notebook), streamable.DialOptions{}), "tools/list", modern(""))
	status, ok := errors.AsType[*sse.StatusError](failed)
	if !ok {
		t.Fatalf("got %v, want a StatusError", failed)
	}
	want := &streamable.StatusError{Method: http.MethodPost, Status: 401, Header: http.Header{"Retry-After": {"7"}}, Body: "no"}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What could not be sent was not, whatever kept it.
func TestDialNotSent(t *testing.T) {
	refuses, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + refuses.Addr().String()
	refuses.Close()
	for name, test := range map[string]struct {
		url        string
		notReached bool
	}{
		"connection refused": {nobody, true},
		"no TLS":             {"https" + strings.TrimPrefix(canned(t).URL, "http"), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dial(t, test.url).Call(t.Context(), "tools/list", jsonrpc.Raw(modern("")))
			failed, ok := err.(*jsonrpc.CallError)
			if !ok || failed.Delivery != jsonrpc.NotSent || !errors.Is(err, transport.ErrNotReached) {
				t.Errorf("got %v, want it not sent", err)
			}
		})
	}

	s := play(t, func(w http.ResponseWriter, r *asked) { t.Errorf("%s was sent", r.text) })
	conn := s.dial(new(notebook), streamable.DialOptions{})
	for _, params := range []string{`{"a":1,"a":2}`, `{"a":`, `1`, `"a"`} {
		failed := s.failure(conn, "tools/list", params)
		if _, ok := errors.AsType[*jsonrpc.Error](failed); ok || failed.Delivery != jsonrpc.NotSent {
			t.Errorf("%s: got %v, want it not sent", params, failed)
		}
	}
}

func TestDialURL(t *testing.T) {
	for _, url := range []string{"", "example.com", "/mcp", "ftp://example.com", "http://", "http:///mcp", "ws://example.com", "http://user:secret@exa mple.com", "http://a\nb"} {
		conn, err := streamable.Dial(url, nil).Dial(t.Context(), new(notebook))
		if err == nil {
			conn.Close()
			t.Errorf("%q was accepted", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error is %v", url, err)
		}
	}
	s := play(t, func(w http.ResponseWriter, r *asked) {
		if r.URL.Path != "/mcp" || r.URL.RawQuery != "key=secret" || r.Host != "script.test" {
			t.Errorf("asked for %s at %s", r.URL, r.Host)
		}
		r.result(w, "{}")
	})
	s.ask(s.dial(new(notebook), streamable.DialOptions{}), "tools/list", modern(""))
}

// Close cuts off what waits, in whatever state it is.
func TestDialCloseCutsOff(t *testing.T) {
	for name, serve := range map[string]func(w http.ResponseWriter, r *asked){
		"before the answer": func(_ http.ResponseWriter, r *asked) { <-r.Context().Done() },
		"in the answer": func(w http.ResponseWriter, r *asked) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"in a stream": func(w http.ResponseWriter, r *asked) {
			r.stream(w)(numberedData("1", "%s", note(1)))
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t, serve)
				conn := s.dial(new(notebook), streamable.DialOptions{})
				failures := make(chan error)
				for _, params := range []string{modern(""), `{}`} {
					go func() {
						_, err := conn.Call(t.Context(), "tools/list", jsonrpc.Raw(params))
						failures <- err
					}()
				}
				synctest.Wait()
				start := time.Now()
				conn.Close()
				conn.Close()
				for range 2 {
					if err := <-failures; !errors.Is(err, jsonrpc.ErrClosed) || errors.Is(err, transport.ErrNotReached) {
						t.Errorf("got %v, want ErrClosed", err)
					}
				}
				if took := time.Since(start); took != 0 {
					t.Errorf("Close took %v", took)
				}
				<-conn.Done()
				failed := s.failure(conn, "tools/list", modern(""))
				if failed.Delivery != jsonrpc.NotSent || !errors.Is(failed, jsonrpc.ErrClosed) {
					t.Errorf("after Close: %v", failed)
				}
			})
		})
	}
}

// A server that takes its time, or never ends to answer, is waited for as long as
// the caller wants, and a minute if that is not said.
func TestDialTimeout(t *testing.T) {
	for name, serve := range map[string]func(w http.ResponseWriter, r *asked){
		"silence": func(_ http.ResponseWriter, r *asked) { <-r.Context().Done() },
		"comments for ever": func(w http.ResponseWriter, r *asked) {
			r.stream(w)
			for r.Context().Err() == nil {
				w.Write([]byte(":\n\n"))
				w.(http.Flusher).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		},
		"a body for ever": func(w http.ResponseWriter, r *asked) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				w.Write([]byte(" "))
				w.(http.Flusher).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t, serve)
				conn := s.dial(new(notebook), streamable.DialOptions{})
				start := time.Now()
				if failed := s.failure(conn, "tools/list", modern("")); !errors.Is(failed, context.DeadlineExceeded) || failed.Delivery != jsonrpc.MaybeExecuted {
					t.Errorf("got %v", failed)
				}
				if took := time.Since(start); took != time.Minute {
					t.Errorf("it was waited for %v", took)
				}
				cause := errors.New("lost interest")
				ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, cause)
				defer cancel()
				start = time.Now()
				_, err := conn.Call(ctx, "tools/list", jsonrpc.Raw(modern("")))
				if !errors.Is(err, cause) || errors.Is(err, transport.ErrNotReached) {
					t.Errorf("got %v, want the caller's cause", err)
				}
				if took := time.Since(start); took != 2*time.Minute {
					t.Errorf("it was waited for %v", took)
				}
			})
		})
	}
}
