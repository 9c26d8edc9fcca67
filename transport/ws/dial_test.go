package ws_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// authorize sets the header that names a client.
func authorize(token string) func(context.Context, http.Header) error {
	return func(_ context.Context, header http.Header) error {
		header.Set("Authorization", token)
		return nil
	}
}

func checkHandshakeError(t *testing.T, err error, status int, says string) {
	t.Helper()
	var refused *ws.HandshakeError
	if !errors.As(err, &refused) || refused.Status != status || refused.Header == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the error is %v, want status %d and %q", err, status, says)
	}
}

func TestDialURLs(t *testing.T) {
	base, err := url.Parse(serve(t, binder(echoing), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, good := range []string{"http://HOST", "ws://HOST", "ws://HOST/", "ws://HOST/mcp?a=b#fragment"} {
		conn, err := ws.Dial(strings.Replace(good, "HOST", base.Host, 1), nil).Dial(t.Context(), handler(refuse))
		if err != nil {
			t.Errorf("%s: %v", good, err)
			continue
		}
		conn.Close()
	}
	for bad, says := range map[string]string{
		"":                         "expected ws, wss, http or https",
		"localhost:80":             "expected ws, wss, http or https",
		"ftp://localhost":          "expected ws, wss, http or https",
		"ws://":                    "a host",
		"ws:///mcp":                "a host",
		"ws://me:secret@HOST/":     "without a user",
		"ws://HOST/%zz?key=secret": "invalid URL escape",
	} {
		_, err := ws.Dial(strings.Replace(bad, "HOST", base.Host, 1), nil).Dial(t.Context(), handler(refuse))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", bad, err, says)
		}
	}
}

// What a server may answer to a handshake, other than what is asked for.
func TestDialRefuses(t *testing.T) {
	const accepted = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n"
	for name, c := range map[string]struct {
		head       string
		status     int
		says       string
		notReached bool
	}{
		"no subprotocol":      {accepted + "\r\n", 101, "subprotocol mcp", false},
		"another subprotocol": {accepted + "Sec-WebSocket-Protocol: mcp2\r\n\r\n", 101, "subprotocol mcp", false},
		"compression": {
			accepted + "Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n\r\n",
			101, "extension", false,
		},
		"wrong key":       {strings.Replace(accepted, "%s", "x%.0s", 1) + "\r\n", 101, "no WebSocket", false},
		"not found":       {"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\nno\r\n\x00!%.0s", 404, `"no\r\n\x00!"`, false},
		"method":          {"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n%.0s", 405, "no WebSocket", false},
		"fine":            {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK%.0s", 200, `"OK"`, false},
		"unauthorized":    {"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n%.0s", 401, "401", true},
		"forbidden":       {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n%.0s", 403, "403", true},
		"too many":        {"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n%.0s", 429, "429", true},
		"bad gateway":     {"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n%.0s", 502, "502", true},
		"redirect":        {"HTTP/1.1 307 Temporary Redirect\r\nLocation: ws://localhost/other\r\nContent-Length: 0\r\n\r\n%.0s", 307, `not followed; it leads to "ws://localhost/other"`, false},
		"endless page":    {"HTTP/1.1 500 Oops\r\n\r\n" + strings.Repeat("x", 100_000) + "%.0s", 500, "xxx\"…", true},
		"no HTTP":         {"SSH-2.0-OpenSSH_9.6\r\n%.0s", 0, "malformed HTTP", true},
		"nothing":         {"%.0s", 0, "EOF", true},
		"half a header":   {"HTTP/1.1 101 Swit%.0s", 0, "EOF", true},
		"endless header":  {"HTTP/1.1 101 Switching Protocols\r\n" + strings.Repeat("X: y\r\n", 100_000) + "%.0s", 0, "too long", true},
		"endless a line":  {"HTTP/1.1 101 Switching Protocols\r\nX: " + strings.Repeat("y", 1_000_000) + "%.0s", 0, "too long", true},
		"endless status":  {strings.Repeat("HTTP/1.1 ", 100_000) + "%.0s", 0, "too long", true},
		"endless informs": {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20_000) + "%.0s", 0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, &rawServer{head: c.head, then: func(net.Conn) {}})
				_, err := ws.Dial("ws://localhost/", &ws.DialOptions{HTTPClient: n.client()}).Dial(t.Context(), handler(refuse))
				if err == nil {
					t.Fatal("the handshake was taken for a good one")
				}
				if c.status > 0 {
					checkHandshakeError(t, err, c.status, c.says)
				} else if !strings.Contains(err.Error(), c.says) {
					t.Errorf("the error is %v, want %q", err, c.says)
				}
				if len(err.Error()) > 1000 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
				if got := errors.Is(err, transport.ErrNotReached); got != c.notReached && c.says != "" {
					t.Errorf("%v is ErrNotReached: %t, want %t", err, got, c.notReached)
				}
			})
		})
	}
}

func TestDialReachesNobody(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	gone := srv.URL
	srv.Close()
	encrypted := httptest.NewUnstartedServer(ws.Handler(unbound(t), nil))
	encrypted.Config.ErrorLog = log.New(io.Discard, "", 0)
	encrypted.StartTLS()
	defer encrypted.Close()
	for name, target := range map[string]string{
		"nobody listens":           gone,
		"no such name":             "ws://nobody.invalid/",
		"unknown certificate":      encrypted.URL,
		"encrypted where plain is": strings.Replace(serve(t, unbound(t), nil), "http:", "https:", 1),
	} {
		_, err := ws.Dial(target, nil).Dial(t.Context(), handler(refuse))
		if !errors.Is(err, transport.ErrNotReached) {
			t.Errorf("%s: %v, want ErrNotReached", name, err)
		}
	}
}

// A handshake that gets no answer ends, with the context or in time.
func TestDialIsBounded(t *testing.T) {
	stuck := silentServer(nil).(*rawServer)
	stuck.head = "HTTP/1.1 101 Switching Protocols\r\nX: %s\r\n"
	lost := errors.New("lost interest")
	for name, c := range map[string]struct {
		bound   func(context.Context) (context.Context, context.CancelFunc)
		timeout time.Duration
		after   time.Duration
		is      error
	}{
		"by itself": {nil, 0, 30 * time.Second, transport.ErrNotReached},
		"by client": {nil, time.Second, time.Second, transport.ErrNotReached},
		"by deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, 2*time.Second, lost)
		}, 0, 2 * time.Second, lost},
		"by cancelling": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			timer := time.AfterFunc(3*time.Second, func() { cancel(lost) })
			return ctx, func() { timer.Stop(); cancel(nil) }
		}, 0, 3 * time.Second, lost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if c.bound != nil {
					ctx, cancel = c.bound(ctx)
				}
				defer cancel()
				client := newNetwork(t, stuck).client()
				client.Timeout = c.timeout
				start := time.Now()
				_, err := ws.Dial("ws://localhost/", &ws.DialOptions{HTTPClient: client}).Dial(ctx, handler(refuse))
				if !errors.Is(err, c.is) {
					t.Errorf("the error is %v, want %v", err, c.is)
				}
				if took := time.Since(start); took != c.after {
					t.Errorf("it took %v, want %v", took, c.after)
				}
			})
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(lost)
	if _, err := ws.Dial("ws://localhost/", nil).Dial(ctx, handler(refuse)); !errors.Is(err, lost) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// The header of each handshake is made anew; what it cannot hold fails.
func TestDialHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tokens []string
		endpoint := ws.Handler(binder(echoing), nil)
		n := newNetwork(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tokens = append(tokens, r.Header.Get("Authorization")+" "+r.Header.Get("Cookie"))
			endpoint.ServeHTTP(w, r)
		}))
		client := n.client()
		client.Jar, _ = cookiejar.New(nil)
		client.Jar.SetCookies(&url.URL{Scheme: "http", Host: "localhost"}, []*http.Cookie{{Name: "c", Value: "1"}})
		calls := 0
		dialer := ws.Dial("ws://localhost/", &ws.DialOptions{HTTPClient: client, Header: func(_ context.Context, header http.Header) error {
			calls++
			header.Set("Authorization", fmt.Sprint(calls))
			return nil
		}})
		for range 2 {
			conn, err := dialer.Dial(t.Context(), handler(refuse))
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		if got := strings.Join(tokens, ", "); got != "1 c=1, 2 c=1" {
			t.Errorf("the headers were %q", got)
		}

		noToken := errors.New("no token")
		for _, c := range []struct {
			header func(context.Context, http.Header) error
			is     error
		}{
			{func(context.Context, http.Header) error { return noToken }, noToken},
			{func(_ context.Context, header http.Header) error {
				header.Set("Sec-WebSocket-Protocol", "x")
				return nil
			}, nil},
			{func(_ context.Context, header http.Header) error {
				header.Set("Sec-WebSocket-Extensions", "x")
				return nil
			}, nil},
		} {
			_, err := ws.Dial("ws://localhost/", &ws.DialOptions{HTTPClient: client, Header: c.header}).Dial(t.Context(), handler(refuse))
			if err == nil || c.is != nil && !errors.Is(err, c.is) || errors.Is(err, transport.ErrNotReached) {
				t.Errorf("a header that cannot be: %v", err)
			}
		}
		endpoint.Close()
	})
}

func TestDialRefusesATransportThatIsNone(t *testing.T) {
	client := &http.Client{Transport: http.NewFileTransport(http.Dir("/"))}
	_, err := ws.Dial("ws://localhost/", &ws.DialOptions{HTTPClient: client}).Dial(t.Context(), handler(refuse))
	if err == nil || !strings.Contains(err.Error(), "expected an *http.Transport") {
		t.Error(err)
	}
}

// A redirect may lead anywhere, and a token must not.
func TestDialFollowsNoRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(other.URL, status))
		_, err := ws.Dial(srv.URL, &ws.DialOptions{Header: authorize("secret")}).Dial(t.Context(), handler(refuse))
		checkHandshakeError(t, err, status, "redirects are not followed")
		srv.Close()
	}
}

// serverFrame is a frame as a server sends it.
func serverFrame(first byte, payload string) []byte {
	masked := frame(first, payload)
	head := len(masked) - len(payload) - 4
	masked[1] &^= 0x80
	return append(masked[:head:head], payload...)
}

// What a server may not send ends the connection: calls that wait fail and say why.
func TestServerFaults(t *testing.T) {
	for name, c := range map[string]struct {
		sent []byte
		want ws.CloseError
	}{
		"binary":       {serverFrame(fin|blob, `{}`), ws.CloseError{Code: 1003, Sent: true}},
		"bad UTF-8":    {serverFrame(fin|text, "\xff"), ws.CloseError{Code: 1007, Sent: true}},
		"too big":      {serverFrame(fin|text, strings.Repeat("x", 1001)), ws.CloseError{Code: 1009, Sent: true}},
		"masked":       {frame(fin|text, `{}`), ws.CloseError{Code: 1002, Sent: true}},
		"compressed":   {serverFrame(fin|rsv1|text, `{}`), ws.CloseError{Code: 1002, Sent: true}},
		"normal close": {serverFrame(fin|closes, closePayload(1000, "")), ws.CloseError{Code: 1000}},
		"close":        {serverFrame(fin|closes, closePayload(1011, "out of\norder")), ws.CloseError{Code: 1011}},
		"half a frame": {serverFrame(fin|text, "{}")[:3], ws.CloseError{Code: 1006}},
		"hangs up":     {nil, ws.CloseError{Code: 1006}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, silentServer(answerCall(c.sent, c.want.Code == 1006)))
				conn := n.dial(t, ws.DialOptions{MaxMessage: 1000})
				_, err := conn.Call(t.Context(), "echo", nil)
				var call *jsonrpc.CallError
				var end *ws.CloseError
				if !errors.As(err, &call) || call.Delivery != jsonrpc.MaybeExecuted || !errors.Is(err, jsonrpc.ErrClosed) || !errors.Is(err, net.ErrClosed) {
					t.Errorf("the call failed with %v", err)
				}
				if !errors.As(err, &end) || end.Code != c.want.Code || end.Sent != c.want.Sent {
					t.Errorf("the call failed with %v, want %+v", err, c.want)
				}
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("the error %q repeats what the peer sent", err)
				}
				<-conn.Done()
				_, err = conn.Call(t.Context(), "echo", nil)
				if !errors.As(err, &call) || call.Delivery != jsonrpc.NotSent || !errors.Is(err, jsonrpc.ErrClosed) {
					t.Errorf("a call afterwards failed with %v", err)
				}
			})
		})
	}
}

// A banner of a server is skipped.
func TestServerBanner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := serverFrame(fin|text, `{"jsonrpc":"2.0","id":1,"result":"fine"}`)
		n := newNetwork(t, silentServer(answerCall(frames(serverFrame(fin|text, "welcome!"), serverFrame(fin|text, ""), answer), false)))
		skipped := 0
		conn := n.dial(t, ws.DialOptions{Conn: jsonrpc.Options{Malformed: func(error) { skipped++ }}})
		resp, err := conn.Call(t.Context(), "echo", nil)
		if err != nil || string(resp.Result) != `"fine"` || skipped != 1 {
			t.Errorf("the answer is %v (%v), and %d were skipped", resp, err, skipped)
		}
	})
}
