package streamable_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/memnet"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// An http2Rig is an endpoint behind HTTP/2 on a network in memory, for virtual time.
type http2Rig struct {
	*testing.T
	*memnet.Network
	client  *http.Client
	serving atomic.Int32 // requests that the endpoint has not answered
}

func newHTTP2Rig(t *testing.T, server transport.Binder, opts *streamable.Options) *http2Rig {
	t.Helper()
	r := &http2Rig{T: t, Network: memnet.New()}
	endpoint := streamable.Handler(server, opts)
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.serving.Add(1)
		defer r.serving.Add(-1)
		if req.ProtoMajor != 2 {
			t.Errorf("the request came by %s", req.Proto)
		}
		endpoint.ServeHTTP(w, req)
	}))
	web.Listener.Close()
	web.Listener, web.EnableHTTP2 = r.Network, true
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	own := &http.Transport{
		DialContext: r.DialContext, ForceAttemptHTTP2: true, DisableCompression: true,
		TLSClientConfig: web.Client().Transport.(*http.Transport).TLSClientConfig,
	}
	r.client = &http.Client{Transport: own}
	t.Cleanup(func() {
		endpoint.Close()
		own.CloseIdleConnections()
		web.Close()
	})
	return r
}

// send sends a call of version 2026-07-28.
func (r *http2Rig) send(ctx context.Context, tool string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.0.0.1/mcp", body)
	if err != nil {
		r.Fatal(err)
	}
	req.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
	}
	return r.client.Do(req)
}

func callOf(tool string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":{},` + modernMeta + `}}`
}

// mustAnswer sends a call that must be answered immediately.
func (r *http2Rig) mustAnswer() {
	r.Helper()
	began := time.Now()
	res, err := r.send(r.Context(), "sum", strings.NewReader(sum(1, 2, 3)))
	if err != nil {
		r.Errorf("another call on the connection: %v", err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(body), `"5"`) || time.Since(began) > time.Second {
		r.Errorf("another call on the connection: %s, %v, after %v", body, err, time.Since(began))
	}
}

// mustEnd waits until the endpoint serves no request.
func (r *http2Rig) mustEnd(within time.Duration) {
	r.Helper()
	for began := time.Now(); r.serving.Load() > 0; {
		if time.Since(began) > within {
			r.Errorf("%d requests are served after %v", r.serving.Load(), within)
			return
		}
		<-time.After(100 * time.Millisecond)
	}
}

// A dripping is a body that has a byte in each interval and no end.
type dripping struct {
	interval time.Duration
	sent     int
}

func (d *dripping) Read(p []byte) (int, error) {
	<-time.After(d.interval)
	d.sent++
	p[0] = ' '
	return 1, nil
}

// A body that stalls or comes too slowly is refused, and delays no other request of its
// connection.
func TestHTTP2BodyThatIsTooSlow(t *testing.T) {
	for name, interval := range map[string]time.Duration{"stalls": time.Hour, "drips": 10 * time.Millisecond, "drips slowly": 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newHTTP2Rig(t, newServer(), nil)
			r.mustAnswer()
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			res, err := r.send(ctx, "sum", &dripping{interval: interval})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if elapsed := time.Since(began); res.StatusCode != http.StatusRequestTimeout || elapsed < 9*time.Second || elapsed > 15*time.Second {
				t.Errorf("%s: status %d after %v", name, res.StatusCode, elapsed)
			}
			r.mustEnd(time.Second)
			r.mustAnswer()
			res.Body.Close()
			cancel()
			<-time.After(2 * time.Hour) // until the body has ended
		})
	}
}

// A client that does not read a long result ends its own stream only.
func TestHTTP2ReaderThatIsTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		server.AddTool(s, server.Tool{Name: "long"}, func(context.Context, *server.Request, struct{}) (string, error) {
			return strings.Repeat("x", 16<<20), nil
		})
		server.AddTool(s, server.Tool{Name: "stream"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			for i := 1; ctx.Err() == nil; i++ {
				if err := r.Progress(ctx, float64(i), 0, strings.Repeat("x", 64<<10)); err != nil {
					return "", err
				}
				<-time.After(time.Millisecond) // virtual time advances only while all goroutines wait
			}
			return "", ctx.Err()
		})
		r := newHTTP2Rig(t, s, nil)
		for _, tool := range []string{"long", "stream"} {
			res, err := r.send(t.Context(), tool, strings.NewReader(callOf(tool)))
			if err != nil {
				t.Fatal(err)
			}
			r.mustAnswer()
			r.mustEnd(3 * transport.Limits{}.WithDefaults().WriteTimeout)
			if n, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Errorf("%s: the client has read all %d bytes", tool, n)
			}
			res.Body.Close()
			r.mustAnswer()
		}
		if n := r.Dialed(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

// A stream without events lasts longer than the timeout of a write.
func TestHTTP2StreamThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		server.AddTool(s, server.Tool{Name: "slow"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			for i := range 3 {
				if err := r.Progress(ctx, float64(i+1), 3, "still there"); err != nil {
					return "", err
				}
				<-time.After(time.Minute)
			}
			return "at last", ctx.Err()
		})
		for name, keepAlive := range map[string]time.Duration{"comments": 0, "no comments": -1} {
			r := newHTTP2Rig(t, s, &streamable.Options{KeepAlive: keepAlive})
			res, err := r.send(t.Context(), "slow", strings.NewReader(callOf("slow")))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err != nil || strings.Count(string(body), "still there") != 3 || !strings.Contains(string(body), "at last") {
				t.Errorf("%s: got %s, %v", name, body, err)
			}
			res.Body.Close()
		}
	})
}

// A client that resets its stream, or loses its connection, cancels its call.
func TestHTTP2Disconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, how := range []string{"reset", "cut"} {
			ended := make(chan error, 1)
			s := newServer()
			server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				<-ctx.Done()
				ended <- ctx.Err()
				return "", ctx.Err()
			})
			r := newHTTP2Rig(t, s, nil)
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				res, err := r.send(ctx, "wait", strings.NewReader(callOf("wait")))
				if err == nil {
					_, err = io.ReadAll(res.Body)
					res.Body.Close()
				}
				failed <- err
			}()
			synctest.Wait()
			if how == "reset" {
				r.mustAnswer()
				cancel()
			} else {
				r.Cut()
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the call ended with %v", how, err)
			}
			if err := <-failed; err == nil {
				t.Errorf("%s: the client got an answer", how)
			}
			cancel()
			r.mustEnd(time.Second)
			r.mustAnswer()
		}
	})
}

// A request that is refused does not wait for its body.
func TestHTTP2RefusalDoesNotWaitForTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newHTTP2Rig(t, newServer(), nil)
		for name, change := range map[string]func(*http.Request){
			"host":   func(req *http.Request) { req.Host = "evil.example" },
			"origin": func(req *http.Request) { req.Header.Set("Origin", "https://evil.example") },
			"method": func(req *http.Request) { req.Method = http.MethodPut },
			"type":   func(req *http.Request) { req.Header.Set("Content-Type", "text/plain") },
			"accept": func(req *http.Request) { req.Header.Set("Accept", "text/html") },
			"length": func(req *http.Request) { req.ContentLength = 1 << 40 },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.0.0.1/mcp", &dripping{interval: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			change(req)
			began := time.Now()
			res, err := r.client.Do(req)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else {
				if res.StatusCode < 400 || time.Since(began) > time.Second {
					t.Errorf("%s: status %d after %v", name, res.StatusCode, time.Since(began))
				}
				res.Body.Close()
			}
			r.mustEnd(time.Second)
			cancel()
		}
		r.mustAnswer()
		<-time.After(2 * time.Minute) // until the bodies have ended
	})
}
