package streamable_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A stream that answers a call may be cut at any byte. In a session it is resumed without
// loss or repetition; in later versions the call fails immediately.
func TestDialBrokenStream(t *testing.T) {
	const total = 4
	event := func(n int, id string) string {
		text := note(n)
		if n == total {
			text = `{"jsonrpc":"2.0","id":` + id + `,"result":{}}`
		}
		return fmt.Sprintf("id: e-%d\ndata: %s\n\n", n, text)
	}
	eventsAfter := func(lastID, id string) string {
		last, _ := strconv.Atoi(strings.TrimPrefix(lastID, "e-"))
		var b strings.Builder
		for n := last + 1; n <= total; n++ {
			b.WriteString(event(n, id))
		}
		return b.String()
	}
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	chunked := func(text string) string {
		var b strings.Builder
		for len(text) > 0 {
			n := min(len(text), 37)
			fmt.Fprintf(&b, "%x\r\n%s\r\n", n, text[:n])
			text = text[n:]
		}
		return head + "Transfer-Encoding: chunked\r\n\r\n" + b.String() + "0\r\n\r\n"
	}
	whole := func(text string) string { return head + "Connection: close\r\n\r\n: hello\r\n\r\n" + text }

	for name, form := range map[string]func(string) string{"chunked": chunked, "until the end": whole} {
		for _, params := range []string{`{}`, modern("")} {
			era := "legacy"
			if params != `{}` {
				era = "modern"
			}
			t.Run(name+", "+era, func(t *testing.T) {
				full := form(eventsAfter("", "1"))
				resumed := 0
				for cut := range len(full) + 1 {
					synctest.Test(t, func(t *testing.T) {
						s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
							link, _, err := http.NewResponseController(w).Hijack()
							if err != nil {
								t.Error(err)
								return
							}
							defer link.Close()
							if r.Method == http.MethodGet {
								if r.Header.Get("Last-Event-ID") == "" {
									t.Errorf("cut at %d: requested the stream without an event id", cut)
								}
								io.WriteString(link, form(eventsAfter(r.Header.Get("Last-Event-ID"), "1")))
								return
							}
							io.WriteString(link, full[:cut])
						})
						handler := new(recorder)
						conn := s.dial(handler, streamable.DialOptions{})
						resp, err := conn.Call(t.Context(), "tools/call", jsonrpc.Raw(params))
						begun := strings.Count(full[:cut], "id: e-") // an id counts when its event is complete
						switch err {
						case nil:
							if want := "note[1] note[2] note[3]"; handler.read() != want || string(resp.Result) != "{}" {
								t.Errorf("cut at %d: got notifications %s, want %s", cut, handler.read(), want)
							}
							if n := len(s.requests()); n == 2 {
								resumed++
							} else if n != 1 {
								t.Errorf("cut at %d: %s", cut, s.log())
							}
							if era == "modern" && begun < total {
								t.Errorf("cut at %d: answered", cut)
							}
						default:
							failed, ok := err.(*jsonrpc.CallError)
							if !ok || failed.Delivery != jsonrpc.MaybeExecuted || len(s.requests()) != 1 {
								t.Errorf("cut at %d: %v after %s", cut, err, s.log())
							}
							if era == "legacy" && begun > 1 {
								t.Errorf("cut at %d: %v, want the stream resumed", cut, err)
							}
						}
					})
				}
				if era == "legacy" && resumed < len(event(2, "")+event(3, "")) || era == "modern" && resumed > 0 {
					t.Errorf("%d streams were resumed", resumed)
				}
			})
		}
	}
}

// A stream that is cut before its first event cannot be resumed.
func TestDialBrokenBeforeStream(t *testing.T) {
	s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
		link, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		link.Close()
	})
	failed := s.failure(s.dial(new(recorder), streamable.DialOptions{}), "tools/call", `{}`)
	if failed.Delivery != jsonrpc.MaybeExecuted || !errors.Is(failed, transport.ErrNotReached) {
		t.Errorf("got %v", failed)
	}
}

// A server may end a stream with a retry time.
func TestDialResumeDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent time.Time
		var pauses []time.Duration
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			switch {
			case r.opening(w, "1"):
			case r.Method == http.MethodGet:
				pauses = append(pauses, time.Since(sent))
				if got, want := r.Header.Get("Last-Event-ID"), strconv.Itoa(len(pauses)); got != want {
					t.Errorf("resumed after event %s, want %s", got, want)
				}
				if r.Header.Get("Mcp-Session-Id") != "1" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25" {
					t.Errorf("resumed with %v", headerOf(r))
				}
				send := r.stream(w)
				if len(pauses) == 4 {
					send(data(`{"jsonrpc":"2.0","id":3,"result":{}}`))
					return
				}
				if len(pauses) == 2 {
					send(sse.Event{Retry: 1500 * time.Millisecond})
				}
				send(sse.Event{ID: strconv.Itoa(len(pauses) + 1)})
				sent = time.Now()
			default:
				send := r.stream(w)
				send(sse.Event{ID: "1", Retry: 500 * time.Millisecond})
				sent = time.Now()
			}
		})
		conn := s.dial(new(recorder), streamable.DialOptions{})
		s.open(conn)
		s.call(conn, "tools/call", `{}`)
		want := "[500ms 500ms 1.5s 1.5s]"
		if got := fmt.Sprint(pauses); got != want {
			t.Errorf("resumed after %s, want %s", got, want)
		}
	})
}

// The retry time applies to each reconnection. The delay grows after failures, and if each stream ends immediately and brings
// no message.
func TestDialResumeBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before time.Time
		var pauses []time.Duration
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			if r.Method == http.MethodGet {
				pauses = append(pauses, time.Since(before))
			}
			before = time.Now()
			switch n := len(pauses); {
			case n == 8:
				r.stream(w)(data(`{"jsonrpc":"2.0","id":1,"result":{}}`))
			case n > 4:
				w.WriteHeader(http.StatusBadGateway)
			default:
				r.stream(w)(sse.Event{ID: "1", Retry: 100 * time.Millisecond})
			}
		})
		s.call(s.dial(new(recorder), streamable.DialOptions{}), "tools/call", `{}`)
		for i, pause := range pauses {
			if exact := i == 0; exact && pause != 100*time.Millisecond || !exact && pause < 100*time.Millisecond {
				t.Errorf("resumed after %v", pauses)
				break
			}
		}
		if last := pauses[len(pauses)-1]; last < 200*time.Millisecond {
			t.Errorf("resumed after %v", pauses)
		}
	})
}

// An event that caused an error is not requested again.
func TestDialInvalidEventIsNotResumed(t *testing.T) {
	for name, text := range map[string]string{
		"too long":  strings.Repeat("x", 2000),
		"malformed": `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
				send := r.stream(w)
				send(numberedData("1", "%s", note(1)))
				send(numberedData("2", "%s", text))
			})
			failed := s.failure(s.dial(new(recorder), streamable.DialOptions{MaxMessage: 1000}), "tools/call", `{}`)
			if failed.Delivery != jsonrpc.MaybeExecuted || len(s.requests()) != 1 {
				t.Errorf("got %v after %s", failed, s.log())
			}
		})
	}
}

// Resuming is tried several times, and not at all if the server refuses it.
func TestDialResumeFails(t *testing.T) {
	for name, test := range map[string]struct {
		back func(w http.ResponseWriter)
		want int // times
	}{
		"network":      {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 6}, // net/http tries once more by itself
		"gateway":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, 5},
		"overload":     {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, 5},
		"not there":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusMethodNotAllowed) }, 1},
		"unknown":      {func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) }, 1},
		"gone":         {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, 1},
		"not a stream": {func(w http.ResponseWriter) { w.Write([]byte("{}")) }, 1},
		"no content":   {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				back := 0
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					if r.Method == http.MethodGet {
						back++
						test.back(w)
						return
					}
					r.stream(w)(numberedData("1", "%s", note(1)))
				})
				start := time.Now()
				failed := s.failure(s.dial(new(recorder), streamable.DialOptions{}), "tools/call", `{}`)
				if failed.Delivery != jsonrpc.MaybeExecuted || back != test.want || !strings.Contains(failed.Error(), "resuming the stream") {
					t.Errorf("got %v after %d times, want %d", failed, back, test.want)
				}
				if took := time.Since(start); took > 10*time.Second || test.want > 1 && took < time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// Nothing is lost when the server is reachable again.
func TestDialResumesManyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			switch {
			case r.Method == http.MethodPost:
				r.stream(w)(numberedData("0", "%s", note(0)))
			case r.nth%4 != 0:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				last, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
				if err != nil {
					t.Error(err)
				}
				send := r.stream(w)
				if last == 9 {
					send(data(`{"jsonrpc":"2.0","id":1,"result":{}}`))
					return
				}
				send(numberedData(strconv.Itoa(last+1), "%s", note(last+1)))
			}
		})
		handler := new(recorder)
		s.call(s.dial(handler, streamable.DialOptions{}), "tools/call", `{}`)
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprintf("note[%d]", i))
		}
		if got := handler.read(); got != strings.Join(want, " ") {
			t.Errorf("got notifications %s", got)
		}
	})
}

// The program's Header function applies to each attempt.
func TestDialResumeHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			send := r.stream(w)
			if r.Method == http.MethodPost {
				send(numberedData("1", "%s", note(1)))
				return
			}
			send(data(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		})
		calls := 0
		s.call(s.dial(new(recorder), streamable.DialOptions{Header: func(context.Context, http.Header) error {
			if calls++; calls == 2 {
				return errNoToken
			}
			return nil
		}}), "tools/call", `{}`)
		if got := s.log(); got != "POST tools/call, GET" {
			t.Errorf("the requests were %s", got)
		}
	})
}

// The timeout of a call includes resuming its stream.
func TestDialResumeEndsWithCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) { r.stream(w)(sse.Event{ID: "1"}) })
		start := time.Now()
		failed := s.failure(s.dial(new(recorder), streamable.DialOptions{}), "tools/call", `{}`)
		if took := time.Since(start); took != time.Minute || !errors.Is(failed, context.DeadlineExceeded) {
			t.Errorf("got %v after %v", failed, took)
		}
		if n := len(s.requests()); n > 15 {
			t.Errorf("there were %d requests", n)
		}
	})
}

// The stream for unsolicited messages is opened with the session, and again when it ends.
func TestDialListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opens []time.Duration
		var start time.Time
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			if r.Method != http.MethodGet {
				r.opening(w, "1")
				return
			}
			opens = append(opens, time.Since(start))
			switch len(opens) {
			case 1: // no event, no retry delay
				r.stream(w)
			case 2:
				w.WriteHeader(http.StatusBadGateway)
			case 3:
				send := r.stream(w)
				send(numberedData("7", "%s", note(1)))
				send(sse.Event{Retry: 3 * time.Second})
				<-time.After(time.Minute)
				start = time.Now()
			case 4:
				if got := r.Header.Get("Last-Event-ID"); got != "7" {
					t.Errorf("resumed after event %q, want 7", got)
				}
				send := r.stream(w)
				send(data(`{"jsonrpc":"2.0","id":1,"result":{}}`)) // of nothing
				send(data("%s", note(2)))
				<-r.Context().Done()
			}
		})
		handler := new(recorder)
		conn := s.dial(handler, streamable.DialOptions{})
		start = time.Now()
		s.open(conn)
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if got := handler.read(); got != "note[1] note[2]" {
			t.Errorf("got notifications %s", got)
		}
		if len(opens) != 4 || opens[0] != 0 || opens[1] > 200*time.Millisecond || opens[2] > 600*time.Millisecond || opens[3] != 3*time.Second {
			t.Errorf("it was opened after %v", opens)
		}
		conn.Close()
		<-time.After(time.Minute)
		synctest.Wait()
		if len(opens) != 4 {
			t.Errorf("it was opened after %v", opens)
		}
	})
}

// A server without such a stream is not asked again. One that fails is asked with delays.
func TestDialListenRefused(t *testing.T) {
	for status, want := range map[int]int{405: 1, 400: 1, 404: 1, 406: 1, 200: 1, 204: 1, 500: 0, 401: 0, 409: 0} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				times := 0
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					switch {
					case r.Method == http.MethodGet:
						times++
						w.WriteHeader(status)
					case r.opening(w, ""): // without an id, a 404 is no lost session
					default:
						r.result(w, "{}")
					}
				})
				conn := s.dial(new(recorder), streamable.DialOptions{})
				s.open(conn)
				<-time.After(time.Hour)
				synctest.Wait()
				if want == 0 && (times < 100 || times > 300) || want != 0 && times != want {
					t.Errorf("it was asked %d times", times)
				}
				s.call(conn, "ping", `{}`)
			})
		})
	}
}

// Opening a session waits for the stream of unsolicited messages, within a bound.
func TestDialInitializedWaitsForStream(t *testing.T) {
	for name, test := range map[string]struct {
		get  func(w http.ResponseWriter, r *receivedRequest)
		want time.Duration
	}{
		"stream": {func(w http.ResponseWriter, r *receivedRequest) {
			<-time.After(100 * time.Millisecond)
			r.stream(w)
			<-r.Context().Done()
		}, 100 * time.Millisecond},
		"none":    {func(w http.ResponseWriter, _ *receivedRequest) { w.WriteHeader(http.StatusMethodNotAllowed) }, 0},
		"silence": {func(_ http.ResponseWriter, r *receivedRequest) { <-r.Context().Done() }, 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					if r.Method == http.MethodGet {
						test.get(w, r)
						return
					}
					r.opening(w, "1")
				})
				start := time.Now()
				s.open(s.dial(new(recorder), streamable.DialOptions{}))
				if took := time.Since(start); took != test.want {
					t.Errorf("it took %v, want %v", took, test.want)
				}
			})
		})
	}
}

// The body of the answer to a notification is not awaited.
func TestDialNotificationAnsweredByAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			r.stream(w)
			<-r.Context().Done()
		})
		start := time.Now()
		if err := s.dial(new(recorder), streamable.DialOptions{}).Notify(t.Context(), "note", nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// If the missed events are not available, the stream continues with new ones.
func TestDialListensAfterPurge(t *testing.T) {
	for name, first := range map[string]func(send func(sse.Event)){
		"purged":   func(func(sse.Event)) {},
		"too long": func(send func(sse.Event)) { send(data("%s", strings.Repeat("x", 2000))) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var opens []string
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					if r.Method != http.MethodGet {
						r.opening(w, "1")
						return
					}
					last := r.Header.Get("Last-Event-ID")
					opens = append(opens, last)
					switch {
					case last != "":
						w.WriteHeader(http.StatusBadRequest)
					case len(opens) == 1:
						send := r.stream(w)
						send(numberedData("1", "%s", note(1)))
						first(send)
					default:
						r.stream(w)(data("%s", note(2)))
						<-r.Context().Done()
					}
				})
				handler := new(recorder)
				s.open(s.dial(handler, streamable.DialOptions{MaxMessage: 1000}))
				<-time.After(time.Second)
				synctest.Wait()
				want := map[string]string{"purged": `["" "1" ""]`, "too long": `["" ""]`}[name]
				if got := fmt.Sprintf("%q", opens); got != want || handler.read() != "note[1] note[2]" {
					t.Errorf("resumed after event %s, want %s, with notifications %s", got, want, handler.read())
				}
			})
		})
	}
}

// A stream that stays open after the response delays neither the caller nor, for long, the
// connection.
func TestDialStreamOpenAfterResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			start := time.Now()
			r.stream(w)(data("%s", r.response("{}")))
			<-r.Context().Done()
			ended <- time.Since(start)
		})
		conn := s.dial(new(recorder), streamable.DialOptions{})
		start := time.Now()
		s.call(conn, "tools/call", modern(""))
		if took := time.Since(start); took != 0 {
			t.Errorf("the call took %v", took)
		}
		if took := <-ended; took != time.Second {
			t.Errorf("the stream was closed after %v", took)
		}
		s.call(conn, "tools/call", modern(""))
		conn.Close()
		<-ended
	})
}

// Connections are reused after every kind of answer.
func TestDialReusesConnections(t *testing.T) {
	for name, serve := range map[string]func(w http.ResponseWriter, r *receivedRequest){
		"JSON":   func(w http.ResponseWriter, r *receivedRequest) { r.result(w, `"`+strings.Repeat("x", 100_000)+`"`) },
		"stream": func(w http.ResponseWriter, r *receivedRequest) { r.stream(w)(data("%s", r.response("{}"))) },
		"error":  func(w http.ResponseWriter, r *receivedRequest) { r.json(w, 400, strings.Repeat("no", 10_000)) },
		"page": func(w http.ResponseWriter, r *receivedRequest) {
			http.Error(w, strings.Repeat("no", 10_000), http.StatusOK)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					if r.id == "" {
						w.WriteHeader(http.StatusAccepted)
						return
					}
					serve(w, r)
				})
				conn := s.dial(new(recorder), streamable.DialOptions{})
				for range 20 {
					_, _ = conn.Call(t.Context(), "tools/call", jsonrpc.Raw(modern("")))
					if err := conn.Notify(t.Context(), "note", nil); err != nil {
						t.Error(err)
					}
					synctest.Wait()
				}
				// What ends a stream may come while the next request is made.
				if n := s.Dialed(); n > 2 || n == 2 && name != "stream" {
					t.Errorf("there were %d connections", n)
				}
			})
		})
	}
}

// Malformed and endless HTTP responses fail the call.
func TestDialHostileServers(t *testing.T) {
	racetest.Skip(t)
	for name, talk := range map[string]func(w *bufio.Writer) error{
		"header without end":          endless("HTTP/1.1 200 OK\r\n", "X-Header: "+strings.Repeat("x", 1000)+"\r\n"),
		"header line without end":     endless("HTTP/1.1 200 OK\r\nX-Header: ", strings.Repeat("x", 1000)),
		"body of a gigabyte":          endless("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1073741824\r\n\r\n", strings.Repeat(" ", 1000)),
		"body without end":            endless("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", strings.Repeat(" ", 1000)),
		"error without end":           endless("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n\r\n", strings.Repeat(" ", 1000)),
		"page without end":            endless("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", strings.Repeat(" ", 1000)),
		"event without end":           endless("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ", strings.Repeat("x", 1000)),
		"interim answers without end": endless("", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"),
		"no HTTP":                     endless("", "SSH-2.0-OpenSSH\r\n"),
		"nothing":                     func(*bufio.Writer) error { return io.EOF },
		"RST":                         func(w *bufio.Writer) error { w.WriteString("HTTP/1.1 200 O"); return io.EOF },
	} {
		t.Run(name, func(t *testing.T) {
			var written atomic.Int64
			s := newScript(t, func(w http.ResponseWriter, _ *receivedRequest) {
				link, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer link.Close()
				out := bufio.NewWriter(&counting{link, &written})
				_ = talk(out)
				_ = out.Flush()
			})
			opts := streamable.DialOptions{MaxMessage: 1 << 20}
			conn := s.dial(new(recorder), opts)
			failed := s.failure(conn, "tools/call", modern(""))
			if failed.Delivery == jsonrpc.NotSent {
				t.Errorf("got %v", failed)
			}
			conn.Close()
			if n := written.Load(); n > 12<<20 { // net/http reads up to 10 MiB of header by default
				t.Errorf("%d bytes were read", n)
			}
		})
	}
}

// endless writes a head and then a text until writing fails.
func endless(head, text string) func(w *bufio.Writer) error {
	return func(w *bufio.Writer) error {
		_, err := w.WriteString(head)
		for err == nil {
			_, err = w.WriteString(text)
		}
		return err
	}
}

type counting struct {
	w io.Writer
	n *atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}
