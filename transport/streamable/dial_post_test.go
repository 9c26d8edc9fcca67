package streamable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Each HTTP response maps to a result or an error with its delivery.
func TestDialAnswers(t *testing.T) {
	const (
		page    = "<html>\nno\x1b[0m"
		refused = `{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"}}`
	)
	type outcome struct {
		result     string           // of success
		code       jsonrpc.Code     // of an error of the peer
		delivery   jsonrpc.Delivery // otherwise
		status     int              // of a httptransport.StatusError
		notReached bool
		text       string // part of the message
	}
	own := func(text string) func(w http.ResponseWriter, r *receivedRequest) {
		return func(w http.ResponseWriter, r *receivedRequest) {
			r.json(w, http.StatusOK, strings.ReplaceAll(text, "ID", r.id))
		}
	}
	status := func(status int, text string, header ...string) func(w http.ResponseWriter, r *receivedRequest) {
		return func(w http.ResponseWriter, r *receivedRequest) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			r.json(w, status, strings.ReplaceAll(text, "ID", r.id))
		}
	}
	typed := func(kind, text string) func(w http.ResponseWriter, r *receivedRequest) {
		return func(w http.ResponseWriter, r *receivedRequest) {
			w.Header()["Content-Type"] = []string{kind}
			w.Write([]byte(strings.ReplaceAll(text, "ID", r.id)))
		}
	}
	events := func(texts ...string) func(w http.ResponseWriter, r *receivedRequest) {
		return func(w http.ResponseWriter, r *receivedRequest) {
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
		serve func(w http.ResponseWriter, r *receivedRequest)
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
		"error with another id, 400":  {status(400, strings.ReplaceAll(failure, "ID", "4711")), outcome{delivery: jsonrpc.Rejected, status: 400}},
		"busy":                        {own(busy), outcome{delivery: jsonrpc.Rejected, text: "no"}},
		"busy in a stream":            {events(busy), outcome{delivery: jsonrpc.Rejected, text: "no"}},
		"another id":                  {own(other), outcome{delivery: jsonrpc.MaybeExecuted, text: "does not contain the JSON-RPC response"}},
		"a notification":              {own(note(1)), outcome{delivery: jsonrpc.MaybeExecuted, text: "does not contain the JSON-RPC response"}},
		"neither JSON nor a message":  {own(page), lost},
		"empty":                       {own(""), lost},
		"malformed":                   {own(twice), malformed},
		"not UTF-8":                   {own(`{"jsonrpc":"2.0","result":{"a":"` + "\xff" + `"},"id":ID}`), outcome{result: "{\"a\":\"\uFFFD\"}"}},
		"not UTF-8 in a stream":       {events(note(1), `{"jsonrpc":"2.0","result":{"a":"`+"\xff"+`"},"id":ID}`), outcome{result: "{\"a\":\"\uFFFD\"}"}},
		"control character, stream":   {events(`{"jsonrpc":"2.0","id":ID,"result":{"a":"` + "\x01" + `"}}`), malformed},
		"half a surrogate pair":       {own(`{"jsonrpc":"2.0","id":ID,"result":{"a":"\uD83D"}}`), outcome{result: `{"a":"\uD83D"}`}},
		"the id as a string":          {own(`{"jsonrpc":"2.0","id":"ID","result":{"a":1}}`), outcome{result: `{"a":1}`}},
		"the id as a float, stream":   {events(`{"jsonrpc":"2.0","id":ID.0,"result":{"a":1}}`), outcome{result: `{"a":1}`}},
		"malformed in a stream":       {events(note(1), twice, response), malformed},
		"page":                        {typed("text/html", page), outcome{delivery: jsonrpc.MaybeExecuted, text: `"text/html"`}},
		"status 202":                  {status(202, ""), lost},
		"status 204":                  {func(w http.ResponseWriter, _ *receivedRequest) { w.WriteHeader(http.StatusNoContent) }, lost},
		"status 304":                  {func(w http.ResponseWriter, _ *receivedRequest) { w.WriteHeader(http.StatusNotModified) }, outcome{delivery: jsonrpc.Rejected, status: 304}},
		"stream":                      {events(response), outcome{result: `{"a": [1.0]}`}},
		"stream with more":            {events(note(1), other, page, `[`+note(2)+`,`+response+`]`, note(3)), outcome{result: `{"a": [1.0]}`}},
		"stream without the response": {events(note(1), other), outcome{delivery: jsonrpc.MaybeExecuted, text: "has ended without the response"}},
		"stream with other events": {func(w http.ResponseWriter, r *receivedRequest) {
			send := r.stream(w)
			for _, name := range []string{"endpoint", "ping", "message"} {
				e := data("%s", strings.ReplaceAll(response, `"a"`, `"`+name+`"`))
				e.Name, e.Data = name, []byte(strings.ReplaceAll(string(e.Data), "ID", r.id))
				send(e)
			}
		}, outcome{result: `{"message": [1.0]}`}},
		"status 400":              {status(400, page), outcome{delivery: jsonrpc.Rejected, status: 400, text: `400 Bad Request: "<html>\nno\x1b[0m"`}},
		"status 401":              {status(401, failure), outcome{delivery: jsonrpc.Rejected, status: 401, notReached: true}},
		"status 403":              {status(403, refused), outcome{delivery: jsonrpc.Rejected, status: 403, notReached: true}},
		"status 404":              {status(404, page), outcome{delivery: jsonrpc.Rejected, status: 404}},
		"status 429":              {status(429, page), outcome{delivery: jsonrpc.Rejected, status: 429, notReached: true}},
		"status 502":              {status(502, page), outcome{delivery: jsonrpc.MaybeExecuted, status: 502, notReached: true}},
		"status 503":              {status(503, page), outcome{delivery: jsonrpc.MaybeExecuted, status: 503, notReached: true}},
		"status 503, Retry-After": {status(503, page, "Retry-After", "7"), outcome{delivery: jsonrpc.Rejected, status: 503, notReached: true}},
		"too long":                {own(`"` + strings.Repeat("x", 2000) + `"`), outcome{delivery: jsonrpc.MaybeExecuted, text: "longer than 1000 bytes"}},
		"too long, length not given": {func(w http.ResponseWriter, r *receivedRequest) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			w.Write(make([]byte, 2000))
		}, outcome{delivery: jsonrpc.MaybeExecuted, text: "longer than 1000 bytes"}},
		"too long for an event": {events(strings.Repeat("x", 2000)), outcome{delivery: jsonrpc.MaybeExecuted, text: "longer than 1000 bytes"}},
		"too long for an error": {status(404, strings.Repeat("x", 2000)), outcome{delivery: jsonrpc.Rejected, status: 404}},
		"cut off": {func(w http.ResponseWriter, r *receivedRequest) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			w.Write([]byte(`{"jsonrpc"`))
		}, outcome{delivery: jsonrpc.MaybeExecuted, notReached: true}},
		"no answer": {func(http.ResponseWriter, *receivedRequest) { panic(http.ErrAbortHandler) }, outcome{delivery: jsonrpc.MaybeExecuted, notReached: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, test.serve)
			conn := s.dial(new(recorder), streamable.DialOptions{MaxMessage: 1000})
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
			if e, ok := errors.AsType[*httptransport.StatusError](err); ok != (want.status != 0) || ok && e.Status != want.status {
				t.Errorf("got %v, want status %d", err, want.status)
			}
			if !strings.Contains(err.Error(), want.text) {
				t.Errorf("got %v, want it to contain %s", err, want.text)
			}
			if strings.Contains(err.Error(), "secret") || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q is not fit to print", err)
			}
			if _, ok := errors.AsType[*streamable.SizeError](err); ok != strings.Contains(want.text, "longer than") {
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

// A refusal by HTTP has the same error type in all transports.
func TestDialStatusError(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		w.Header().Set("Retry-After", "7")
		r.json(w, 401, "no")
	})
	failed := s.failure(s.dial(new(recorder), streamable.DialOptions{}), "tools/list", modern(""))
	status, ok := errors.AsType[*httptransport.StatusError](failed)
	if !ok {
		t.Fatalf("got %v, want a httptransport.StatusError", failed)
	}
	want := &httptransport.StatusError{Method: http.MethodPost, Status: 401, Header: http.Header{"Retry-After": {"7"}}, Body: "no"}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A message that cannot be sent has the delivery NotSent.
func TestDialNotSent(t *testing.T) {
	refuses, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused := "http://" + refuses.Addr().String()
	refuses.Close()
	for name, test := range map[string]struct {
		url        string
		notReached bool
	}{
		"connection refused": {unused, true},
		"no TLS":             {"https" + strings.TrimPrefix(cannedTransport(t).URL, "http"), true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := dial(t, test.url).Call(t.Context(), "tools/list", jsonrpc.Raw(modern("")))
			failed, ok := err.(*jsonrpc.CallError)
			if !ok || failed.Delivery != jsonrpc.NotSent || !errors.Is(err, transport.ErrNotReached) {
				t.Errorf("got %v, want it not sent", err)
			}
		})
	}

	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) { t.Errorf("%s was sent", r.text) })
	conn := s.dial(new(recorder), streamable.DialOptions{})
	for _, params := range []string{`{"a":1,"a":2}`, `{"a":`, `1`, `"a"`} {
		failed := s.failure(conn, "tools/list", params)
		if _, ok := errors.AsType[*jsonrpc.Error](failed); ok || failed.Delivery != jsonrpc.NotSent {
			t.Errorf("%s: got %v, want it not sent", params, failed)
		}
	}
}

func TestDialURL(t *testing.T) {
	for _, url := range []string{"", "example.com", "/mcp", "ftp://example.com", "http://", "http:///mcp", "ws://example.com", "http://user:secret@exa mple.com", "http://a\nb"} {
		conn, err := streamable.Dial(url, nil).Dial(t.Context(), new(recorder))
		if err == nil {
			conn.Close()
			t.Errorf("%q was accepted", url)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error is %v", url, err)
		}
	}
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		if r.URL.Path != "/mcp" || r.URL.RawQuery != "key=secret" || r.Host != "script.test" {
			t.Errorf("got a request for %s at %s", r.URL, r.Host)
		}
		r.result(w, "{}")
	})
	s.call(s.dial(new(recorder), streamable.DialOptions{}), "tools/list", modern(""))
}

// Close ends pending calls in every state.
func TestDialCloseEndsPendingCalls(t *testing.T) {
	for name, serve := range map[string]func(w http.ResponseWriter, r *receivedRequest){
		"before the answer": func(_ http.ResponseWriter, r *receivedRequest) { <-r.Context().Done() },
		"in the answer": func(w http.ResponseWriter, r *receivedRequest) {
			w.Header().Set("Content-Type", "application/json")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
		"in a stream": func(w http.ResponseWriter, r *receivedRequest) {
			r.stream(w)(numberedData("1", "%s", note(1)))
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, serve)
				conn := s.dial(new(recorder), streamable.DialOptions{})
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

// A call waits for a slow server until its context ends, or for a minute without a
// deadline.
func TestDialTimeout(t *testing.T) {
	for name, serve := range map[string]func(w http.ResponseWriter, r *receivedRequest){
		"silence": func(_ http.ResponseWriter, r *receivedRequest) { <-r.Context().Done() },
		"endless comments": func(w http.ResponseWriter, r *receivedRequest) {
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
		"an endless body": func(w http.ResponseWriter, r *receivedRequest) {
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
				s := newScript(t, serve)
				conn := s.dial(new(recorder), streamable.DialOptions{})
				start := time.Now()
				if failed := s.failure(conn, "tools/list", modern("")); !errors.Is(failed, context.DeadlineExceeded) || failed.Delivery != jsonrpc.MaybeExecuted {
					t.Errorf("got %v", failed)
				}
				if took := time.Since(start); took != time.Minute {
					t.Errorf("the call took %v", took)
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
					t.Errorf("the call took %v", took)
				}
			})
		})
	}
}

// tool returns a tool whose argument a has a header with this name.
func tool(name, header string) string {
	return fmt.Sprintf(`{"name":%q, "inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":%q},"n":{"type":"integer"}}}}`, name, header)
}

const plainTool = `{"name":"plain","inputSchema":{"type":"object"}}`

func list(more string, tools ...string) string {
	return `{"resultType":"complete", "tools" : [` + strings.Join(tools, ",") + `]` + more + `,"ttlMs":1.0}`
}

// paramHeaders returns the headers of a request that repeat arguments.
func paramHeaders(r *receivedRequest) map[string]string {
	header := map[string]string{}
	for name, value := range headerOf(r) {
		if strings.HasPrefix(name, "Mcp-Param-") {
			header[name] = value
		}
	}
	return header
}

// A client reads from the list of tools which arguments it must repeat in headers.
func TestDialHeaderParams(t *testing.T) {
	tools := list("", tool("a", "Region"), plainTool)
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		if r.call == "tools/list" {
			r.result(w, tools)
			return
		}
		r.result(w, "{}")
	})
	conn := s.dial(new(recorder), streamable.DialOptions{})
	headers := func(params string) map[string]string {
		t.Helper()
		s.call(conn, "tools/call", params)
		requests := s.requests()
		return paramHeaders(requests[len(requests)-1])
	}
	check := func(params string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, headers(params)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", params, diff)
		}
	}
	call := modern(`"name":"a","arguments":{"a":"eu","n":1}`)
	none := map[string]string{}
	check(call, none)
	if got := s.call(conn, "tools/list", modern("")); got != tools {
		t.Errorf("the list is\n%s, want\n%s", got, tools)
	}
	region := map[string]string{"Mcp-Param-Region": "eu"}
	check(call, region)
	check(modern(`"name":"a","arguments":{"a":"é"}`), map[string]string{"Mcp-Param-Region": "=?base64?w6k=?="})
	check(modern(`"name":"a","arguments":{"a":null}`), none)
	check(modern(`"name":"a"`), none)
	check(modern(`"name":"plain","arguments":{"a":"eu"}`), none)
	check(`{"name":"a","arguments":{"a":"eu"}}`, none) // a session has no such headers

	tools = list("", tool("b", "Method")) // another page does not change tool a
	s.call(conn, "tools/list", modern(""))
	check(call, region)
	check(modern(`"name":"b","arguments":{"a":"eu"}`), map[string]string{"Mcp-Param-Method": "eu"})
	tools = list("", tool("a", "Zone"))
	s.call(conn, "tools/list", `{}`) // a list in a session is not read
	check(call, region)
	s.call(conn, "tools/list", modern(""))
	check(call, map[string]string{"Mcp-Param-Zone": "eu"})
	tools = list("", strings.ReplaceAll(plainTool, "plain", "a"))
	s.call(conn, "tools/list", modern(""))
	check(call, none)
}

// Tools with invalid annotations are removed from the list, which is otherwise unchanged.
func TestDialRemovesInvalidTools(t *testing.T) {
	bad := []string{
		tool("empty", ""), tool("space", "a b"), tool("colon", "a:b"), tool("evil", "a\r\nAuthorization"), tool("unicode", "é"),
		strings.ReplaceAll(tool("object", "A"), `"type":"string"`, `"type":"object"`),
		strings.ReplaceAll(tool("twice", "A"), `"type":"integer"`, `"type":"integer","x-mcp-header":"a"`),
		strings.ReplaceAll(tool("escaped", "a b"), "x-mcp-header", `x\u002dmcp-header`),
	}
	odd := []string{`1`, `{"inputSchema":1}`, `{"name":1}`} // the transport does not check these
	good := []string{plainTool, tool("a", "Region"), ` {"name" : "z", "n":[1.0,1e400] }`}
	var all []string
	for i := range bad {
		all = append(all, bad[i], good[i%len(good)])
	}
	all = append(all, odd...)
	var want []string
	for _, tool := range all {
		if !strings.Contains(strings.Join(bad, "\n"), tool) || tool == "1" {
			want = append(want, strings.TrimSpace(tool))
		}
	}
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) { r.result(w, list(`,"nextCursor":"2"`, all...)) })
	var log bytes.Buffer
	conn := s.dial(new(recorder), streamable.DialOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if diff := cmp.Diff(list(`,"nextCursor":"2"`, want...), s.call(conn, "tools/list", modern(""))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, name := range []string{"empty", "space", "colon", "evil", "unicode", "object", "twice", "escaped"} {
		if !strings.Contains(log.String(), "tool="+name) {
			t.Errorf("the log does not contain %s:\n%s", name, &log)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != len(bad) {
		t.Errorf("there are %d lines:\n%s", n, &log)
	}
	log.Reset()
	s.call(conn, "tools/list", `{}`)
	if log.Len() > 0 {
		t.Errorf("a list of a session was checked:\n%s", &log)
	}
	resp, err := conn.Call(t.Context(), "tools/list", jsonrpc.Raw(modern("")))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(resp.Member("nextCursor")); got != `"2"` {
		t.Errorf("the next cursor is %s", got)
	}
}

// Malformed lists are not modified.
func TestDialMalformedLists(t *testing.T) {
	for _, result := range []string{
		`{"x-mcp-header":1}`, `{"tools":"x-mcp-header"}`, `{"tools":{"x-mcp-header":1}}`, `"x-mcp-header"`, `[ "x-mcp-header" ]`, `null`, `{"tools":[ ], "x-mcp-header":0}`,
	} {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) { r.result(w, result) })
		if got := s.call(s.dial(new(recorder), streamable.DialOptions{}), "tools/list", modern("")); got != result {
			t.Errorf("got %s, want %s", got, result)
		}
	}
}

const mismatch = `{"jsonrpc":"2.0","id":ID,"error":{"code":-32020,"message":"a header is missing"}}`

// When the server refuses a call without a header, the client lists the tools and repeats
// the call.
func TestDialRelistsTools(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		switch {
		case r.call == "tools/list" && strings.Contains(r.text, `"cursor":"\u0032"`):
			r.result(w, list("", tool("a", "Region")))
		case r.call == "tools/list":
			r.result(w, list(`,"nextCursor":"\u0032"`, plainTool))
		case r.Header.Get("Mcp-Param-Region") == "eu":
			r.result(w, "{}")
		default:
			r.json(w, 400, strings.ReplaceAll(mismatch, "ID", r.id))
		}
	})
	conn := s.dial(new(recorder), streamable.DialOptions{})
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}`
	s.call(conn, "tools/call", `{"name":"a","arguments":{"a":"eu"},`+meta+`}`)
	if got, want := s.log(), "POST tools/call, POST tools/list, POST tools/list, POST tools/call"; got != want {
		t.Errorf("the requests were %s, want %s", got, want)
	}
	requests := s.requests()
	ids := map[string]bool{}
	for _, r := range requests {
		ids[r.id] = true
		if listing := r.call == "tools/list"; strings.Contains(r.text, "progressToken") == listing || !strings.Contains(r.text, `"name":"c"`) {
			t.Errorf("the request is %s", r.text)
		}
	}
	if len(ids) != 4 {
		t.Errorf("the ids are %v", ids)
	}
	s.call(conn, "tools/call", `{"name":"a","arguments":{"a":"eu"},`+meta+`}`)
	if n := len(s.requests()); n != 5 {
		t.Errorf("there were %d requests, want one more", n)
	}
}

// The client repeats a call only once.
func TestDialRepeatsCallOnce(t *testing.T) {
	for name, test := range map[string]struct {
		list func(w http.ResponseWriter, r *receivedRequest)
		want int
	}{
		"no help": {func(w http.ResponseWriter, r *receivedRequest) { r.result(w, list("", plainTool)) }, 3},
		"no list": {func(w http.ResponseWriter, r *receivedRequest) {
			r.json(w, 400, strings.ReplaceAll(mismatch, "ID", r.id))
		}, 2},
		"same page repeatedly": {func(w http.ResponseWriter, r *receivedRequest) { r.result(w, list(`,"nextCursor":"2"`)) }, 3},
		"endless pages": {func(w http.ResponseWriter, r *receivedRequest) {
			r.result(w, list(fmt.Sprintf(`,"nextCursor":"%d"`, r.nth)))
		}, 65},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
				if r.call == "tools/list" {
					test.list(w, r)
					return
				}
				r.json(w, 400, strings.ReplaceAll(mismatch, "ID", r.id))
			})
			conn := s.dial(new(recorder), streamable.DialOptions{})
			_, err := conn.Call(t.Context(), "tools/call", jsonrpc.Raw(modern(`"name":"a"`)))
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != -32020 {
				t.Errorf("got %v, want the server's error", err)
			}
			if n := len(s.requests()); n != test.want {
				t.Errorf("there were %d requests, want %d", n, test.want)
			}
			before := len(s.requests())
			_, _ = conn.Call(t.Context(), "prompts/get", jsonrpc.Raw(modern("")))    // only a tools/call lists the tools
			_, _ = conn.Call(t.Context(), "tools/call", jsonrpc.Raw(`{"_meta":{}}`)) // sessions have no such headers
			if n := len(s.requests()) - before; n != 2 {
				t.Errorf("%d requests for two calls", n)
			}
		})
	}
}

// The number of remembered tools is bounded.
func TestDialMaxHeaderParams(t *testing.T) {
	page := 0
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		if r.call != "tools/list" {
			r.result(w, "{}")
			return
		}
		var tools []string
		for i := range 6000 {
			tools = append(tools, tool(fmt.Sprint(page, ".", i), "Region"))
		}
		page++
		r.result(w, list("", tools...))
	})
	conn := s.dial(new(recorder), streamable.DialOptions{})
	for range 2 {
		s.call(conn, "tools/list", modern(""))
	}
	for name, want := range map[string]int{"0.0": 1, "1.3999": 1, "1.4000": 0, "1.5999": 0} {
		s.call(conn, "tools/call", modern(`"name":"`+name+`","arguments":{"a":"eu"}`))
		requests := s.requests()
		if got := len(paramHeaders(requests[len(requests)-1])); got != want {
			t.Errorf("%s has %d headers, want %d", name, got, want)
		}
	}
}

// Calls and lists may be concurrent.
func TestDialHeaderParamsConcurrently(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		switch {
		case r.call == "tools/list":
			r.result(w, list("", tool("a", fmt.Sprintf("Region%d", r.nth%2))))
		case len(paramHeaders(r)) == 0:
			r.json(w, 400, strings.ReplaceAll(mismatch, "ID", r.id))
		default:
			r.result(w, "{}")
		}
	})
	conn := s.dial(new(recorder), streamable.DialOptions{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				s.call(conn, "tools/call", modern(`"name":"a","arguments":{"a":"eu"}`))
				s.call(conn, "tools/list", modern(""))
			}
		})
	}
	all.Wait()
}

// A roundTripper is the transport of an HTTP client.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// cancelReader is a body that ends its request's context when it is read.
type cancelReader struct{ cancel context.CancelFunc }

func (r cancelReader) Read([]byte) (int, error) {
	r.cancel()
	return 0, context.Canceled
}

// A call whose context ends while the response arrives fails with the reason of the context, and nothing
// is reported as malformed.
func TestDialCancelledWithResponse(t *testing.T) {
	for name, c := range map[string]struct {
		status   int
		kind     string
		unread   bool // the context ends while the body is read, not before
		delivery jsonrpc.Delivery
	}{
		"202 without a body":         {status: http.StatusAccepted, delivery: jsonrpc.MaybeExecuted},
		"200 without a body":         {status: http.StatusOK, kind: "application/json", delivery: jsonrpc.MaybeExecuted},
		"200 whose body is not read": {status: http.StatusOK, kind: "application/json", unread: true, delivery: jsonrpc.MaybeExecuted},
		"400 whose body is not read": {status: http.StatusBadRequest, kind: "application/json", unread: true, delivery: jsonrpc.Rejected},
		"stream without an event":    {status: http.StatusOK, kind: "text/event-stream", delivery: jsonrpc.MaybeExecuted},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			network := roundTripper(func(r *http.Request) (*http.Response, error) {
				res := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, ContentLength: -1, Body: http.NoBody, Request: r}
				if c.unread {
					res.Body = io.NopCloser(cancelReader{cancel})
				} else {
					cancel()
				}
				return res, nil
			})
			opts := &streamable.DialOptions{HTTPClient: &http.Client{Transport: network}, Conn: jsonrpc.Options{Malformed: func(err error) { t.Errorf("reported: %v", err) }}}
			conn, err := streamable.Dial(endpoint, opts).Dial(t.Context(), new(recorder))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = conn.Call(ctx, "tools/call", jsonrpc.Raw(`{"name":"a"}`))
			if failed, ok := errors.AsType[*jsonrpc.CallError](err); !ok || failed.Delivery != c.delivery || !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v, want that the call was canceled, and the delivery %v", err, c.delivery)
			}
		})
	}
}

// A call that is canceled while the client lists the tools again fails with the reason of the context.
func TestDialCancelledWhileRelisting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		if r.call == "tools/list" {
			cancel()
			<-r.Context().Done()
			return
		}
		r.json(w, 400, strings.ReplaceAll(mismatch, "ID", r.id))
	})
	conn := s.dial(new(recorder), streamable.DialOptions{})
	_, err := conn.Call(ctx, "tools/call", jsonrpc.Raw(`{"name":"a","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`))
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); !ok || failed.Delivery != jsonrpc.Rejected || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want that the call was canceled and not executed", err)
	}
}
