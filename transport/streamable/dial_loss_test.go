package streamable_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/sessiontest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// openOn connects to a server and opens a session.
func openOn(t *testing.T, s *sessiontest.Server) transport.Conn {
	t.Helper()
	conn, err := streamable.Dial(sessiontest.URL, &streamable.DialOptions{HTTPClient: s.Client(), Conn: jsonrpc.Options{Malformed: func(error) {}}}).Dial(t.Context(), new(recorder))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Call(t.Context(), "initialize", jsonrpc.Raw(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Notify(t.Context(), "notifications/initialized", nil); err != nil {
		t.Fatal(err)
	}
	return conn
}

// A lost session ends the connection, in whatever form the server reports it. The error says whether the message may have been
// executed.
func TestDialSessionLosses(t *testing.T) {
	call := func(method, params string) func(transport.Conn) error {
		return func(conn transport.Conn) error {
			_, err := conn.Call(context.Background(), method, jsonrpc.Raw(params))
			return err
		}
	}
	sends := map[string]func(conn transport.Conn) error{
		"call":          call("tools/call", `{"name":"work"}`),
		"progress":      call("tools/call", `{"name":"work","_meta":{"progressToken":7}}`),
		"list":          call("tools/list", `{}`),
		"ping":          call("ping", `{}`),
		"notification":  func(conn transport.Conn) error { return conn.Notify(context.Background(), "note", nil) },
		"first message": call("tools/call", `{"name":"work"}`),
	}
	for _, loss := range sessiontest.Losses() {
		t.Run(loss.Name, func(t *testing.T) {
			for name, send := range sends {
				synctest.Test(t, func(t *testing.T) {
					s := sessiontest.New(t, loss.Report)
					conn := openOn(t, s)
					if name != "first message" {
						if err := sends["call"](conn); err != nil {
							t.Fatal(err)
						}
					}
					s.Lose()
					err := send(conn)
					if loss.Status == http.StatusOK && name == "notification" {
						return // accepted
					}
					want := jsonrpc.MaybeExecuted
					if loss.IsRefused {
						want = jsonrpc.NotSent
					}
					if failed, ok := err.(*jsonrpc.CallError); !ok || failed.Delivery != want || !errors.Is(err, transport.ErrSessionLost) || !errors.Is(err, jsonrpc.ErrClosed) {
						t.Errorf("%s: got %v, want a lost session, %v", name, err, want)
					}
					if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
						t.Errorf("%s: %v is an error of the server", name, err)
					}
					select {
					case <-conn.Done():
					case <-time.After(2 * time.Second):
						t.Errorf("%s: the connection has not ended", name)
					}
					if err := send(conn); !errors.Is(err, transport.ErrSessionLost) {
						t.Errorf("%s: the next message gets %v", name, err)
					}
					conn.Close()
					synctest.Wait()
					if n := s.Opened(); n > 1 {
						t.Errorf("%s: %d sessions were left open", name, n-1)
					}
				})
			}
		})
	}
}

// The stream without calls reports a lost session too.
func TestDialSessionLossesByStream(t *testing.T) {
	for _, loss := range sessiontest.Losses() {
		if loss.Status == http.StatusOK {
			continue
		}
		t.Run(loss.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cut := make(chan struct{})
				s := sessiontest.New(t, loss.Report)
				s.Stream = func(w http.ResponseWriter, r *sessiontest.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
					select {
					case <-cut:
					case <-r.Context().Done():
					}
				}
				conn := openOn(t, s)
				synctest.Wait()
				s.Lose()
				close(cut)
				select {
				case <-conn.Done():
				case <-time.After(time.Minute):
					t.Errorf("the connection has not ended after %v", s.Log())
				}
			})
		})
	}
}

// A refusal of one call does not end a session that the server knows. It is returned as it is.
func TestDialRefusalsInKnownSession(t *testing.T) {
	for _, loss := range sessiontest.Losses() {
		t.Run(loss.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					switch {
					case r.opening(w, "session~1"):
					case r.call == "tools/call":
						message, err := jsonrpc.NewRequest(jsonrpc.IntID(1), "tools/call", nil)
						if err != nil {
							t.Error(err)
						}
						loss.Report(w, sessiontest.NewRequest(r.Request, r.id, message))
					default:
						r.result(w, "{}")
					}
				})
				conn := s.dial(new(recorder), streamable.DialOptions{})
				s.open(conn)
				_, err := conn.Call(t.Context(), "tools/call", jsonrpc.Raw(`{}`))
				if err == nil || errors.Is(err, transport.ErrSessionLost) {
					t.Errorf("got %v", err)
				}
				if failed, ok := err.(*jsonrpc.CallError); ok && loss.Status < 500 && failed.Delivery != jsonrpc.Rejected {
					t.Errorf("got %v", err)
				}
				s.call(conn, "tools/list", `{}`)
				select {
				case <-conn.Done():
					t.Error("the connection has ended")
				default:
				}
				if n := strings.Count(s.log(), "initialize,"); n != 1 {
					t.Errorf("there were %s", s.log())
				}
			})
		})
	}
}

// A server that refuses everything for a while keeps its session.
func TestDialSessionOutlastsAnOutage(t *testing.T) {
	for _, status := range []int{400, 401, 403, 429, 500, 502, 503, 504} {
		for _, body := range []string{"", "<html>Out of order</html>", `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Internal server error"}}`} {
			synctest.Test(t, func(t *testing.T) {
				out := false
				s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
					switch {
					case out:
						r.json(w, status, body)
					case r.opening(w, "session~1"):
					default:
						r.result(w, "{}")
					}
				})
				conn := s.dial(new(recorder), streamable.DialOptions{})
				s.open(conn)
				for _, out = range []bool{true, false, true, false} {
					if _, err := conn.Call(t.Context(), "tools/call", jsonrpc.Raw(`{}`)); out != (err != nil) || errors.Is(err, transport.ErrSessionLost) {
						t.Errorf("%d %s: got %v during an outage: %t", status, body, err, out)
					}
				}
			})
		}
	}
}

// Calls that fail at the same time share the question whether the server knows the session, and a caller does not wait for it
// longer than for its call.
func TestDialSessionChecksAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, func(w http.ResponseWriter, r *receivedRequest) {
			switch {
			case r.opening(w, "session~1"):
			case r.call == "ping":
				<-time.After(time.Second)
				r.result(w, "{}")
			default:
				w.WriteHeader(http.StatusForbidden)
			}
		})
		conn := s.dial(new(recorder), streamable.DialOptions{})
		s.open(conn)
		start := time.Now()
		failures := make(chan error, 20)
		for i := range cap(failures) {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i+1)*100*time.Millisecond)
				defer cancel()
				_, err := conn.Call(ctx, "tools/call", jsonrpc.Raw(`{}`))
				failures <- err
				if took, most := time.Since(start), min(time.Duration(i+1)*100*time.Millisecond, time.Second); took != most {
					t.Errorf("call %d took %v, want %v", i, took, most)
				}
			}()
		}
		for range cap(failures) {
			if err := <-failures; !errors.Is(err, transport.ErrForbidden) {
				t.Errorf("got %v", err)
			}
		}
		if n := strings.Count(s.log(), "POST ping"); n != 1 {
			t.Errorf("there were %d pings", n)
		}
	})
}

// A server with sessions and without streams is used without the stream.
func TestDialServerWithoutStream(t *testing.T) {
	for _, status := range []int{404, 400, 403, 405, 406, 410, 422, 500, 501} {
		for _, body := range []string{"", "404 page not found", `{"detail":"Not Found"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Method not allowed."}}`} {
			synctest.Test(t, func(t *testing.T) {
				s := sessiontest.New(t, nil)
				s.Stream = func(w http.ResponseWriter, _ *sessiontest.Request) { http.Error(w, body, status) }
				conn := openOn(t, s)
				for range 10 {
					<-time.After(time.Minute)
					if _, err := conn.Call(t.Context(), "tools/call", jsonrpc.Raw(`{"name":"work"}`)); err != nil {
						t.Fatalf("%d %q: %v after %v", status, body, err, s.Log())
					}
				}
				if s.Opened() != 1 || len(s.Log()) > 100 {
					t.Errorf("%d %q: there were %v", status, body, s.Log())
				}
			})
		}
	}
}

// Streams that end immediately are requested with growing delays, whatever short delay the server requests.
func TestDialStreamsThatEndImmediately(t *testing.T) {
	for _, retry := range []string{"", "retry: 0\n\n", "retry: 1\n\n", "retry: 100\n\n", "retry: 999\n\n", "id: 1\nretry: 0\n\n", "id: 1\nretry: 0\ndata:\n\n", "id: {n}\nretry: 0\ndata:\n\n", ": hello\nretry: 0\n\n", "retry: 1000\n\n"} {
		synctest.Test(t, func(t *testing.T) {
			s := sessiontest.New(t, nil)
			gets := 0
			s.Stream = func(w http.ResponseWriter, _ *sessiontest.Request) {
				gets++
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, strings.ReplaceAll(retry, "{n}", strconv.Itoa(gets)))
			}
			conn := openOn(t, s)
			<-time.After(time.Hour)
			conn.Close()
			if most := 300; gets > most && retry != "retry: 1000\n\n" || gets < 100 || gets > 3700 {
				t.Errorf("%q: %d requests in an hour", retry, gets)
			}
		})
	}
}

// A server of the legacy era may refuse the request for its versions in any form.
func TestConnectWithRefusedDiscovery(t *testing.T) {
	for _, status := range []int{200, 202, 204, 302, 400, 401, 403, 404, 405, 406, 410, 413, 415, 422, 429, 500, 501, 502, 503, 504, 520} {
		for _, body := range []string{"", "no", "<!DOCTYPE html><html><body>Blocked</body></html>", `{"detail":"x"}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error"}}`,
		} {
			for _, contentType := range []string{"application/json", "text/html", "text/event-stream"} {
				synctest.Test(t, func(t *testing.T) {
					s := sessiontest.New(t, nil)
					s.Discover = func(w http.ResponseWriter, _ *sessiontest.Request) {
						w.Header().Set("Content-Type", contentType)
						w.Header().Set("Location", "https://login.example/")
						w.Header().Set("Retry-After", "3600")
						w.WriteHeader(status)
						io.WriteString(w, body)
					}
					session, err := client.Connect(t.Context(), streamable.Dial(sessiontest.URL, &streamable.DialOptions{
						HTTPClient: s.Client(), Logger: slog.New(slog.DiscardHandler), Conn: jsonrpc.Options{Malformed: func(error) {}},
					}), nil)
					if status == http.StatusUnauthorized { // it asks for a token, which is for the authorizer
						if err == nil || s.Opened() != 0 {
							t.Errorf("%d %s %q: got %v", status, contentType, body, err)
						}
						return
					}
					if err != nil {
						t.Fatalf("%d %s %q: %v", status, contentType, body, err)
					}
					defer session.Close()
					if _, err := session.CallTool(t.Context(), "work", nil, nil); err != nil || session.Version() != mcp.LatestLegacyVersion {
						t.Errorf("%d %s %q: version %s, %v", status, contentType, body, session.Version(), err)
					}
				})
			}
		}
	}
}
