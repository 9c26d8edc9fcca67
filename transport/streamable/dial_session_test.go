package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// headerOf returns the protocol headers of a request.
func headerOf(r *receivedRequest) map[string]string {
	header := map[string]string{}
	for name, values := range r.Header {
		if name == "Accept" || name == "Content-Type" || name == "Last-Event-Id" || strings.HasPrefix(name, "Mcp-") {
			header[name] = strings.Join(values, " and ")
		}
	}
	return header
}

// A message of 2026-07-28 repeats parts of itself in headers and belongs to no session.
// Other messages belong to the session, if there is one.
func TestDialHeaders(t *testing.T) {
	const both = "application/json, text/event-stream"
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			switch {
			case r.opening(w, "session~1"):
			case r.id == "":
				w.WriteHeader(http.StatusAccepted)
			default:
				r.result(w, "{}")
			}
		})
		conn := s.dial(new(recorder), streamable.DialOptions{})
		var want []map[string]string
		expect := func(more ...string) {
			header := map[string]string{"Accept": both, "Content-Type": "application/json"}
			for i := 0; i < len(more); i += 2 {
				header[more[i]] = more[i+1]
			}
			want = append(want, header)
		}
		const version = "2026-07-28"
		s.call(conn, "server/discover", modern(""))
		expect("Mcp-Protocol-Version", version, "Mcp-Method", "server/discover")
		s.call(conn, "initialize", `{}`)
		expect()
		if err := conn.Notify(t.Context(), "notifications/initialized", nil); err != nil {
			t.Fatal(err)
		}
		expect("Mcp-Session-Id", "session~1", "Mcp-Protocol-Version", "2025-11-25")
		synctest.Wait() // for the GET
		want = append(want, map[string]string{"Accept": "text/event-stream", "Mcp-Session-Id": "session~1", "Mcp-Protocol-Version": "2025-11-25"})
		s.call(conn, "tools/call", `{"name":"a","_meta":{"progressToken":1}}`)
		expect("Mcp-Session-Id", "session~1", "Mcp-Protocol-Version", "2025-11-25")
		s.call(conn, "tools/call", modern(`"name":"a"`))
		expect("Mcp-Protocol-Version", version, "Mcp-Method", "tools/call", "Mcp-Name", "a")
		s.call(conn, "prompts/get", modern(`"name":"Hello, 世界"`))
		expect("Mcp-Protocol-Version", version, "Mcp-Method", "prompts/get", "Mcp-Name", "=?base64?SGVsbG8sIOS4lueVjA==?=")
		s.call(conn, "resources/read", modern(`"uri":" a\r\nX-Evil: 1"`))
		expect("Mcp-Protocol-Version", version, "Mcp-Method", "resources/read", "Mcp-Name", "=?base64?IGENClgtRXZpbDogMQ==?=")
		s.call(conn, "tools/list", strings.ReplaceAll(modern(""), "2026-07-28", `v9\u0039\n`))
		expect("Mcp-Protocol-Version", "=?base64?djk5Cg==?=", "Mcp-Method", "tools/list")
		s.call(conn, "initialize", modern("")) // a removed method, to probe the server
		expect("Mcp-Protocol-Version", version, "Mcp-Method", "initialize")
		s.call(conn, "initialize", `{}`) // a new session sends no values of the old one
		expect()
		conn.Close()
		want = append(want, map[string]string{"Mcp-Session-Id": "session~1", "Mcp-Protocol-Version": "2025-11-25"})

		requests := s.requests()
		if len(requests) != len(want) {
			t.Fatalf("there were %d requests, want %d", len(requests), len(want))
		}
		for i, r := range requests {
			if diff := cmp.Diff(want[i], headerOf(r)); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", r.Method, r.text, diff)
			}
		}
		if got := requests[len(requests)-1].Method; got != http.MethodDelete {
			t.Errorf("the last request was a %s, want DELETE", got)
		}
	})
}

// All requests have different ids.
func TestDialIDs(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		if !r.opening(w, "") {
			r.result(w, "{}")
		}
	})
	conn := s.dial(new(recorder), streamable.DialOptions{})
	s.open(conn)
	params := new(idParams)
	var announced []string
	for range 10 {
		if _, err := conn.Call(t.Context(), "ping", params); err != nil {
			t.Fatal(err)
		}
		announced = append(announced, params.id.String())
	}
	var sent []string
	for _, r := range s.requests() {
		if r.call == "ping" {
			sent = append(sent, r.id)
		}
	}
	if diff := cmp.Diff(announced, sent); diff != "" || len(slices.Compact(slices.Sorted(slices.Values(sent)))) != 10 {
		t.Errorf("the ids are %q (-announced +sent):\n%s", sent, diff)
	}
}

// idParams is params that record the id of their request.
type idParams struct{ id jsonrpc.ID }

func (k *idParams) ReceiveID(id jsonrpc.ID) { k.id = id }

func (k *idParams) AppendJSON(dst []byte) ([]byte, error) {
	return append(k.id.AppendJSON(append(dst, `{"id":`...)), '}'), nil
}

// An invalid session id is refused.
func TestDialSessionIDs(t *testing.T) {
	for name, ok := range map[string]bool{
		"!~": true, strings.Repeat("x", 1024): true, strings.Repeat("x", 1025): false, "a b": false, "é": false, "a\tb": false,
	} {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) { r.opening(w, name) })
		conn := s.dial(new(recorder), streamable.DialOptions{})
		_, err := conn.Call(t.Context(), "initialize", nil)
		if failed, is := err.(*jsonrpc.CallError); ok != (err == nil) || !ok && (!is || failed.Delivery != jsonrpc.MaybeExecuted) {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// A 404 in a session means that the session is lost: the connection ends, and the call can
// be repeated in another session.
func TestDialSessionLost(t *testing.T) {
	for name, lose := range map[string]func(w http.ResponseWriter, r *receivedRequest){
		"by an error": func(w http.ResponseWriter, r *receivedRequest) {
			r.json(w, http.StatusNotFound, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`)
		},
		"by a page": func(w http.ResponseWriter, r *receivedRequest) { http.NotFound(w, r.Request) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
				if !r.opening(w, "1") {
					lose(w, r)
				}
			})
			conn := s.dial(new(recorder), streamable.DialOptions{})
			s.open(conn)
			failed := s.failure(conn, "ping", `{}`)
			if failed.Delivery != jsonrpc.NotSent || !errors.Is(failed, jsonrpc.ErrClosed) {
				t.Errorf("got %v", failed)
			}
			select {
			case <-conn.Done():
			default:
				t.Error("Done is open")
			}
			conn.Close()
			if strings.Contains(s.log(), "DELETE") {
				t.Error("a lost session was deleted")
			}
		})
	}
}

// Pending calls fail by themselves when the session is lost.
func TestDialSessionLostWithPendingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			switch {
			case r.opening(w, "1"):
			case r.call == "wait":
				<-r.Context().Done()
			case r.call == "late":
				<-time.After(500 * time.Millisecond)
				http.NotFound(w, r.Request)
			default:
				http.NotFound(w, r.Request)
			}
		})
		conn := s.dial(new(recorder), streamable.DialOptions{})
		s.open(conn)
		failures := make(map[string]chan error)
		for _, method := range []string{"wait", "late"} {
			failure := make(chan error, 1)
			failures[method] = failure
			go func() {
				_, err := conn.Call(t.Context(), method, nil)
				failure <- err
			}()
		}
		synctest.Wait()
		start := time.Now()
		for _, call := range []string{"first", "next"} {
			if failed := s.failure(conn, call, `{}`); failed.Delivery != jsonrpc.NotSent || !errors.Is(failed, jsonrpc.ErrClosed) {
				t.Errorf("%s: got %v", call, failed)
			}
		}
		for method, want := range map[string]jsonrpc.Delivery{"late": jsonrpc.NotSent, "wait": jsonrpc.MaybeExecuted} {
			err := <-failures[method]
			if failed, ok := err.(*jsonrpc.CallError); !ok || failed.Delivery != want || !errors.Is(err, jsonrpc.ErrClosed) {
				t.Errorf("%s: got %v, want %v", method, err, want)
			}
		}
		<-conn.Done()
		if took := time.Since(start); took != time.Second {
			t.Errorf("it ended after %v", took)
		}
		if strings.Contains(s.log(), "next") {
			t.Errorf("the requests were %s", s.log())
		}
	})
}

func TestDialSessionLostWithoutCall(t *testing.T) {
	for name, lost := range map[string]func(r *receivedRequest) bool{
		"by a notification":                      func(r *receivedRequest) bool { return r.call == "note" },
		"by an answer":                           func(r *receivedRequest) bool { return r.call == "response" },
		"by the stream for unsolicited messages": func(r *receivedRequest) bool { return r.Method == http.MethodGet && r.nth > 2 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					switch {
					case lost(r):
						http.NotFound(w, r.Request)
					case r.Method == http.MethodGet:
						r.stream(w)
						<-r.Context().Done()
					case r.opening(w, "1"):
					case r.call == "tools/call":
						r.stream(w)(data(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
						<-r.Context().Done()
					}
				})
				conn := s.dial(&recorder{answer: pong}, streamable.DialOptions{})
				s.open(conn)
				synctest.Wait()
				switch name {
				case "by a notification":
					err := conn.Notify(t.Context(), "note", nil)
					if failed, ok := err.(*jsonrpc.CallError); !ok || failed.Delivery != jsonrpc.NotSent || !errors.Is(err, jsonrpc.ErrClosed) {
						t.Errorf("got %v", err)
					}
				case "by an answer":
					failed := s.failure(conn, "tools/call", `{}`)
					if failed.Delivery != jsonrpc.MaybeExecuted || !errors.Is(failed, jsonrpc.ErrClosed) {
						t.Errorf("got %v", failed)
					}
				case "by the stream for unsolicited messages":
					s.Cut()
				}
				select {
				case <-conn.Done():
				case <-time.After(time.Minute):
					t.Error("Done is open")
				}
			})
		})
	}
}

func pong(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return reply.Write(jsonrpc.Raw(`{}`))
}

// Close deletes the session at the server and waits a bounded time.
func TestDialCloseDeletesSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			if r.Method == http.MethodDelete {
				<-r.Context().Done()
				return
			}
			r.opening(w, "1")
		})
		conn := s.dial(new(recorder), streamable.DialOptions{})
		s.open(conn)
		synctest.Wait()
		start := time.Now()
		conn.Close()
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("Close took %v, want 2 s", took)
		}
		conn.Close()
		if got, want := s.log(), "POST initialize, POST notifications/initialized, GET, DELETE"; got != want {
			t.Errorf("the requests were %s, want %s", got, want)
		}
	})
	for name, use := range map[string]func(s *script){
		"modern":     func(s *script) { s.call(s.dial(new(recorder), streamable.DialOptions{}), "ping", modern("")) },
		"without id": func(s *script) { s.open(s.dial(new(recorder), streamable.DialOptions{})) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
				if !r.opening(w, "") {
					r.result(w, "{}")
				}
			})
			t.Cleanup(func() {
				if strings.Contains(s.log(), "DELETE") {
					t.Errorf("the requests were %s", s.log())
				}
			})
			use(s)
		})
	}
}

// In a session, a call is canceled by a message; in later versions, by the end of its
// request.
func TestDialCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disconnected := make(chan string, 10)
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			switch {
			case r.opening(w, "1"):
			case r.id == "":
				w.WriteHeader(http.StatusAccepted)
			case r.call == "ping":
				r.result(w, "{}")
			default:
				<-r.Context().Done()
				disconnected <- r.call
			}
		})
		conn := s.dial(&recorder{abandoned: func(from jsonrpc.Peer, id jsonrpc.ID, cause error) {
			<-time.After(time.Second) // the caller must not wait for this
			if err := from.Notify(context.Background(), "cancelled", jsonrpc.Raw(fmt.Sprintf(`["%s",%q]`, id, cause))); err != nil {
				t.Error(err)
			}
		}}, streamable.DialOptions{})
		s.open(conn)
		cause := errors.New("enough")
		for method, params := range map[string]string{"legacy": `{}`, "modern": modern("")} {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
			start := time.Now()
			_, err := conn.Call(ctx, method, jsonrpc.Raw(params))
			cancel()
			if failed, ok := err.(*jsonrpc.CallError); !ok || failed.Delivery != jsonrpc.MaybeExecuted || failed.Err != cause {
				t.Errorf("%s: got %v", method, err)
			}
			if took := time.Since(start); took != time.Second {
				t.Errorf("%s: the caller waited for %v", method, took)
			}
			if got := <-disconnected; got != method {
				t.Errorf("%s was disconnected, want %s", got, method)
			}
		}
		s.call(conn, "ping", `{}`)
		<-time.After(2 * time.Second)
		log := s.log()
		if n := strings.Count(log, "POST cancelled"); n != 1 {
			t.Errorf("the requests were %s, want one cancellation", log)
		}
		for _, r := range s.requests() {
			if r.call == "cancelled" && (!strings.Contains(r.text, `"enough"`) || r.Header.Get("Mcp-Session-Id") != "1") {
				t.Errorf("cancelled by %s with %v", r.text, headerOf(r))
			}
		}
	})
}

// An answer to a call of the server is sent again if the server could not be reached.
func TestDialAnswersAgain(t *testing.T) {
	for name, test := range map[string]struct {
		statuses []int // of the first answers; 0 breaks the connection
		want     int   // number of attempts
	}{
		"once":              {nil, 1},
		"bad gateway":       {[]int{502}, 2},
		"unavailable twice": {[]int{503, 503}, 3},
		"lost connection":   {[]int{0, 504}, 3},
		"never":             {[]int{502, 502, 502, 502, 502, 502}, 5},
		"refused":           {[]int{400}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answers atomic.Int32
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					switch {
					case r.opening(w, "1"):
					case r.call == "response":
						n := int(answers.Add(1))
						switch {
						case n > len(test.statuses):
							w.WriteHeader(http.StatusAccepted)
						case test.statuses[n-1] == 0:
							panic(http.ErrAbortHandler)
						default:
							w.WriteHeader(test.statuses[n-1])
						}
					case r.call == "tools/call":
						send := r.stream(w)
						send(data(`{"jsonrpc":"2.0","id":"q","method":"ask"}`))
						<-time.After(20 * time.Second)
						send(data("%s", r.response("{}")))
					}
				})
				client := s.dial(&recorder{answer: pong}, streamable.DialOptions{})
				s.open(client)
				s.call(client, "tools/call", `{}`)
				if n := int(answers.Load()); n != test.want {
					t.Errorf("%d answers were sent, want %d", n, test.want)
				}
			})
		})
	}
}

// Calls of the server on a stream are answered by POST, within the limit of the options.
func TestDialCallsOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			switch {
			case r.opening(w, "1"):
			case r.call == "response":
				w.WriteHeader(http.StatusAccepted)
			case r.call == "tools/call":
				send := r.stream(w)
				for i := range 5 {
					send(data(`{"jsonrpc":"2.0","id":"q%d","method":"ask","params":{"n":%d}}`, i, i))
				}
				<-time.After(10 * time.Second)
				send(data(`[{"jsonrpc":"2.0","id":"q5","method":"fail"},{"jsonrpc":"2.0","id":"q6","method":"panic"}]`))
				<-time.After(10 * time.Second)
				send(data("%s", r.response("{}")))
			}
		})
		var running atomic.Int32
		opts := streamable.DialOptions{Conn: jsonrpc.Options{MaxInFlight: 3}}
		client := s.dial(&recorder{answer: func(_ context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
			if peer, ok := from.(transport.CallPeer); !ok || peer.CallContext() == nil {
				t.Errorf("the peer %T has no context of the call", from)
			}
			switch req.Method {
			case "fail":
				return errors.New("secret")
			case "panic":
				panic("secret")
			}
			running.Add(1)
			<-time.After(time.Second)
			return reply.Write(jsonrpc.Raw(req.Params))
		}}, opts)
		s.open(client)
		s.call(client, "tools/call", `{}`)
		answers := map[string]string{}
		for _, r := range s.requests() {
			if r.call == "response" {
				answers[r.id] = r.text
				if r.Header.Get("Mcp-Session-Id") != "1" {
					t.Errorf("%s was sent with %v", r.text, headerOf(r))
				}
			}
		}
		want := map[string]string{}
		for i := range 3 {
			want[fmt.Sprintf(`"q%d"`, i)] = fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","result":{"n":%d}}`, i, i)
		}
		for i := 3; i < 5; i++ {
			want[fmt.Sprintf(`"q%d"`, i)] = fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","error":{"code":429,"message":"busy: at most 3 calls run at once"}}`, i)
		}
		for i := 5; i < 7; i++ {
			want[fmt.Sprintf(`"q%d"`, i)] = fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","error":{"code":-32603,"message":"internal error"}}`, i)
		}
		if diff := cmp.Diff(want, answers); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
		if n := running.Load(); n != 3 {
			t.Errorf("%d calls ran", n)
		}
	})
}

// The server can cancel its calls, and Close waits for their handlers.
func TestDialCancelCallsOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			switch {
			case r.opening(w, "1"):
			case r.call == "tools/call":
				send := r.stream(w)
				send(data(`{"jsonrpc":"2.0","id":1,"method":"ask"}`))
				send(data(`{"jsonrpc":"2.0","id":2,"method":"ask"}`))
				<-r.Context().Done()
			}
		})
		causes := make(chan error, 2)
		conn := s.dial(&recorder{answer: func(ctx context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
			<-ctx.Done()
			<-time.After(time.Second)
			causes <- context.Cause(ctx)
			return nil
		}}, streamable.DialOptions{})
		s.open(conn)
		go conn.Call(t.Context(), "tools/call", nil)
		synctest.Wait()
		conn.Cancel(jsonrpc.IntID(1))
		if cause := <-causes; cause != jsonrpc.ErrCancelled {
			t.Errorf("the cause is %v", cause)
		}
		start := time.Now()
		conn.Close()
		if took := time.Since(start); took != time.Second {
			t.Errorf("Close took %v", took)
		}
		if len(causes) != 1 {
			t.Error("Close did not wait for the handler")
		}
		if strings.Contains(s.log(), "response") {
			t.Errorf("the requests were %s, want no response to a cancelled call", s.log())
		}
	})
}

// Calls of a server of 2026-07-28 are refused.
func TestDialRefusesCallsOfModernServer(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		send := r.stream(w)
		send(data(`{"jsonrpc":"2.0","id":1,"method":"ask"}`))
		send(data("%s", note(1)))
		send(data("%s", r.response("{}")))
	})
	var reported []error
	handler := &recorder{answer: func(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
		t.Error("the handler was called")
		return nil
	}}
	conn := s.dial(handler, streamable.DialOptions{Conn: jsonrpc.Options{Malformed: func(err error) { reported = append(reported, err) }}})
	s.call(conn, "tools/call", modern(""))
	if len(reported) != 1 || handler.read() != "note[1]" {
		t.Errorf("%v was reported; notifications: %s", reported, handler.read())
	}
}

// A late response answers an earlier request, and has an id of the same value.
func TestDialReportsLateResponses(t *testing.T) {
	ids := map[string]bool{`1`: true, `"1"`: true, `1.0`: true, `"\u0031"`: true, `7`: false, `"7"`: false, `0`: false, `-1`: false, `"one"`: false, `"1.0"`: false}
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		if r.call == "first" {
			r.stream(w)(data("%s", r.response("{}")))
			return
		}
		send := r.stream(w)
		for id := range ids {
			send(data(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id))
		}
		send(data("%s", r.response("{}")))
	})
	late := make(map[string]bool)
	conn := s.dial(new(recorder), streamable.DialOptions{Conn: jsonrpc.Options{Malformed: func(err error) {
		if unexpected, ok := errors.AsType[*jsonrpc.UnexpectedResponseError](err); ok {
			late[unexpected.ID.String()] = unexpected.Late
		}
	}}})
	s.call(conn, "first", modern(""))
	s.call(conn, "second", modern(""))
	if diff := cmp.Diff(ids, late); diff != "" {
		t.Error(diff)
	}
}

// Malformed messages are ignored.
func TestDialIgnoresMalformedMessages(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		send := r.stream(w)
		for _, text := range []string{"", "no", "{}", "[]", `[1,2]`, `{"jsonrpc":"2.0","id":99,"result":1,"result":2}`, "[" + strings.Repeat(note(0)+",", 99) + note(0) + "]"} {
			send(data("%s", text))
		}
		send(sse.Event{Name: "other", Data: []byte(note(9))})
		send(data("%s", note(1)))
		send(data("%s", r.response("{}")))
	})
	handler := new(recorder)
	reports := 0
	conn := s.dial(handler, streamable.DialOptions{Conn: jsonrpc.Options{Malformed: func(error) { reports++ }}})
	s.call(conn, "tools/call", modern(""))
	if reports != 7 || handler.read() != "note[1]" {
		t.Errorf("%d reports and notifications %s", reports, handler.read())
	}
}

func TestDialMaxPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(_ http.ResponseWriter, r *receivedRequest) { <-r.Context().Done() })
		conn := s.dial(new(recorder), streamable.DialOptions{Conn: jsonrpc.Options{MaxPending: 3}})
		for range 3 {
			go conn.Call(t.Context(), "tools/call", jsonrpc.Raw(modern("")))
		}
		synctest.Wait()
		if failed := s.failure(conn, "tools/call", modern("")); failed.Delivery != jsonrpc.NotSent || !strings.Contains(failed.Error(), "too many") {
			t.Errorf("got %v", failed)
		}
	})
}

// A retainingHandler is a client's handler that retains notifications.
type retainingHandler struct {
	recorder
	mu   sync.Mutex
	kept []*jsonrpc.Request
}

func (k *retainingHandler) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, note)
}

// heldParams hold the buffer of a response.
type heldParams struct {
	jsonrpc.Raw
	buffer *bufpool.Buffer
}

func (p *heldParams) Hold(buffer *bufpool.Buffer) { p.buffer = buffer }

func (p *heldParams) free() {
	if p.buffer != nil {
		p.buffer.Free()
	}
}

// Retained messages of a batch are not overwritten when buffers are reused.
func TestDialRetainedMessages(t *testing.T) {
	note := func(n int, filler string) string {
		return `{"jsonrpc":"2.0","method":"note","params":{"n":` + strconv.Itoa(n) + `,"filler":"` + filler + `"}}`
	}
	for name, answer := range map[string]func(w http.ResponseWriter, r *receivedRequest, n int){
		"in a stream": func(w http.ResponseWriter, r *receivedRequest, n int) {
			send := r.stream(w)
			send(data("[%s]", note(n, strings.Repeat("x", 300))))
			send(data("%s", r.response(`{"filler":"`+strings.Repeat("y", 100)+`"}`)))
		},
		"in a large body": func(w http.ResponseWriter, r *receivedRequest, n int) {
			body := "[" + note(n, strings.Repeat("x", 20<<10)) + "," + r.response("{}") + "]"
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			r.json(w, http.StatusOK, body)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					if !r.opening(w, "1") {
						n++
						answer(w, r, n)
					}
				})
				k := new(retainingHandler)
				conn := s.dial(k, streamable.DialOptions{})
				s.open(conn)
				for range 5 {
					params := &heldParams{Raw: jsonrpc.Raw(`{}`)}
					if _, err := conn.Call(context.Background(), "tools/call", params); err != nil {
						t.Fatal(err)
					}
					params.free()
				}
				for i, note := range k.kept {
					if got := string(note.Member("n")); got != strconv.Itoa(i+1) || note.Method != "note" {
						t.Errorf("message %d was overwritten with %s: %.80s", i+1, got, note.Params)
					}
				}
				if len(k.kept) != 5 {
					t.Errorf("got %d messages", len(k.kept))
				}
			})
		})
	}
}
