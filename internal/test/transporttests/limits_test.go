package transporttests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

type endpoint interface {
	http.Handler
	io.Closer
}

// endpoints are the endpoints with [transport.Limits], with the versions that they carry.
var endpoints = map[string]struct {
	serve func(s *server.Server, limits transport.Limits, logger *slog.Logger) endpoint
	dial  func(url string, header func(context.Context, http.Header) error) transport.Dialer
	era   client.Era
}{
	"streamable":          {serveStreamable, dialStreamable, client.Modern},
	"streamable sessions": {serveStreamable, dialStreamable, client.Legacy},
	"sse": {
		func(s *server.Server, l transport.Limits, logger *slog.Logger) endpoint {
			return sse.Handler(s, &sse.Options{Limits: l, Logger: logger})
		},
		func(url string, header func(context.Context, http.Header) error) transport.Dialer {
			return sse.Dial(url, &sse.DialOptions{Header: header, Logger: quiet()})
		}, client.Legacy,
	},
	"ws":          {serveWS, dialWS, client.Modern},
	"ws sessions": {serveWS, dialWS, client.Legacy},
}

func serveStreamable(s *server.Server, l transport.Limits, logger *slog.Logger) endpoint {
	return streamable.Handler(s, &streamable.Options{Limits: l, Logger: logger})
}

func dialStreamable(url string, header func(context.Context, http.Header) error) transport.Dialer {
	return streamable.Dial(url, &streamable.DialOptions{Header: header, Logger: quiet()})
}

func serveWS(s *server.Server, l transport.Limits, logger *slog.Logger) endpoint {
	return ws.Handler(s, &ws.Options{Limits: l, Logger: logger})
}

func dialWS(url string, header func(context.Context, http.Header) error) transport.Dialer {
	return ws.Dial(url, &ws.DialOptions{Header: header, Logger: quiet()})
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A limited server has the tools echo and wait, behind an endpoint with limits.
type limited struct {
	*testing.T
	url     string
	dial    func(url string, header func(context.Context, http.Header) error) transport.Dialer
	era     client.Era
	waiting chan struct{} // has an element for each call of wait that has begun
}

type padded struct {
	Padding string `json:"padding"`
}

// overEndpoints runs a test over each endpoint.
func overEndpoints(t *testing.T, limits transport.Limits, test func(l *limited)) {
	for name, e := range endpoints {
		t.Run(name, func(t *testing.T) {
			l := &limited{T: t, dial: e.dial, era: e.era, waiting: make(chan struct{}, 100)}
			s := server.New(mcp.Implementation{Name: "limited", Version: "1"}, &server.Options{Logger: quiet()})
			server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in padded) (string, error) {
				return fmt.Sprint(len(in.Padding)), nil
			})
			server.AddTool(s, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Request, _ padded) (string, error) {
				l.waiting <- struct{}{}
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
			endpoint := e.serve(s, limits, quiet())
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), r.Header.Get("X-Principal"))))
			}))
			t.Cleanup(func() {
				_ = endpoint.Close()
				web.Close()
			})
			l.url = web.URL
			test(l)
		})
	}
}

// connect connects as a principal.
func (l *limited) connect(principal string) *client.Session {
	l.Helper()
	header := func(_ context.Context, h http.Header) error {
		h.Set("X-Principal", principal)
		return nil
	}
	session, err := client.Connect(l.Context(), l.dial(l.url, header), &client.Options{Era: l.era})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = session.Close() })
	return session
}

// begin begins a call that waits. The result ends it and waits for its end.
func (l *limited) begin(session *client.Session, padding int) (end func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, "wait", padded{strings.Repeat("x", padding)}, nil)
		ended <- err
	}()
	select {
	case <-l.waiting:
	case err := <-ended:
		l.Fatalf("a call within the limits failed: %v", err)
	}
	return func() {
		cancel()
		<-ended
	}
}

func (l *limited) call(session *client.Session, padding int) error {
	ctx, cancel := context.WithTimeout(l.Context(), 30*time.Second)
	defer cancel()
	_, err := session.CallTool(ctx, "echo", padded{strings.Repeat("x", padding)}, nil)
	return err
}

func (l *limited) wantBusy(session *client.Session, padding int) {
	l.Helper()
	if err := l.call(session, padding); err == nil || !strings.Contains(err.Error(), "busy") {
		l.Errorf("a call beyond the limit: %v, want a busy error", err)
	}
}

// wantRoom checks that a call succeeds soon, since the end of another call takes a moment to
// reach the server.
func (l *limited) wantRoom(session *client.Session, padding int) {
	l.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := l.call(session, padding)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("a call when another has ended: %v", err)
		}
	}
}

// Calls beyond the limit are refused until another has ended. Pings do not count.
func TestLimitCalls(t *testing.T) {
	overEndpoints(t, transport.Limits{Calls: 2}, func(l *limited) {
		first, second := l.connect(""), l.connect("")
		end := l.begin(first, 10)
		defer l.begin(second, 10)()
		l.wantBusy(first, 10)
		l.wantBusy(second, 10)
		end()
		l.wantRoom(second, 10)
		for range 10 { // nothing is left of the calls that have ended
			l.wantRoom(first, 10)
		}
	})
}

// One client cannot use up the calls of others.
func TestLimitCallsPerPrincipal(t *testing.T) {
	overEndpoints(t, transport.Limits{CallsPerPrincipal: 1}, func(l *limited) {
		ann, too, bob := l.connect("ann"), l.connect("ann"), l.connect("bob")
		end := l.begin(ann, 10)
		l.wantBusy(too, 10)
		l.wantRoom(bob, 10)
		end()
		l.wantRoom(too, 10)
	})
}

// Large messages beyond the limit are refused until the call of another has been answered. Small
// ones do not count.
func TestLimitHeldBytes(t *testing.T) {
	racetest.Skip(t)
	const large = 600 << 10
	overEndpoints(t, transport.Limits{HeldBytes: 1 << 20}, func(l *limited) {
		first, second := l.connect(""), l.connect("")
		end := l.begin(first, large)
		l.wantBusy(second, large)
		l.wantRoom(second, 60<<10)
		l.wantRoom(first, 60<<10)
		end()
		l.wantRoom(second, large)
		for range 10 { // nothing is left of the calls that have ended
			l.wantRoom(first, large)
		}
		l.wantBusy(first, 2<<20) // alone beyond the limit
		l.wantRoom(first, large)
	})
}

// A session keeps what the handshake says, so a long handshake is refused.
func TestLongHandshake(t *testing.T) {
	overEndpoints(t, transport.Limits{}, func(l *limited) {
		opts := &client.Options{Era: client.Legacy, Info: mcp.Implementation{Name: strings.Repeat("x", 64<<10), Version: "1"}}
		session, err := client.Connect(l.Context(), l.dial(l.url, nil), opts)
		if err == nil {
			_ = session.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "at most 65536 bytes") {
			l.Errorf("a handshake of more than 64 KiB: %v", err)
		}
	})
}

// A large answer to a question counts as long as the call that has asked runs.
func TestMaxBytesOfAnswers(t *testing.T) {
	racetest.Skip(t)
	for name, e := range endpoints {
		if e.era == client.Modern {
			continue // answers are part of calls
		}
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			s := server.New(mcp.Implementation{Name: "asking", Version: "1"}, &server.Options{Logger: quiet()})
			server.AddTool(s, server.Tool{Name: "ask"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				if _, err := server.Elicit[padded](r, "padding", "How much?"); err != nil {
					return "", err
				}
				asked <- struct{}{}
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
			server.AddTool(s, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Request, in padded) (string, error) {
				return fmt.Sprint(len(in.Padding)), nil
			})
			endpoint := e.serve(s, transport.Limits{HeldBytes: 1 << 20}, quiet())
			web := httptest.NewServer(endpoint)
			t.Cleanup(func() {
				_ = endpoint.Close()
				web.Close()
			})
			l := &limited{T: t, url: web.URL, dial: e.dial, era: e.era}
			other := l.connect("")
			answering, err := client.Connect(t.Context(), e.dial(web.URL, nil), &client.Options{
				Era: e.era,
				Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"padding":"` + strings.Repeat("x", 600<<10) + `"}`)}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer answering.Close()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := answering.CallTool(ctx, "ask", struct{}{}, nil)
				ended <- err
			}()
			select {
			case <-asked:
			case err := <-ended:
				t.Fatalf("the call ended with %v", err)
			}
			l.wantBusy(other, 600<<10)
			cancel()
			<-ended
			l.wantRoom(other, 600<<10)
		})
	}
}
