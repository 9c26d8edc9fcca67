package ws_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// authorize sets the header with the principal.
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

// A server may answer a handshake with any response.
func TestDialRefuses(t *testing.T) {
	const accepted = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n"
	for name, c := range map[string]struct {
		head       string
		status     int
		says       string
		notReached bool
	}{
		"another subprotocol": {accepted + "Sec-WebSocket-Protocol: mcp2\r\n\r\n", 101, "another subprotocol than mcp", false},
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

// A handshake without an answer ends with its context or after a timeout.
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

// Header is called for each handshake. An invalid header fails it.
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

// Redirects are not followed, since they could leak a token.
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

// A violation by the server ends the connection. Pending calls fail with the reason.
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

// unbound is a server that must not be bound.
func unbound(t *testing.T) transport.Binder {
	return binder(func(transport.Link) jsonrpc.Handler {
		t.Error("the server was reached")
		return handler(refuse)
	})
}

// A client that may not connect is refused before the WebSocket opens.
func TestHandshakeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		old, new string // what is replaced in a good handshake
		status   int
		says     string
	}{
		"another host":             {"Host: localhost", "Host: evil.example", 403, "option Hosts"},
		"another origin":           {"Upgrade: ", "Origin: https://evil.example\r\nUpgrade: ", 403, "option Origins"},
		"origin that is the host":  {"Upgrade: ", "Origin: http://localhost\r\nUpgrade: ", 403, "option Origins"},
		"no origin":                {"Upgrade: ", "Origin: null\r\nUpgrade: ", 403, "option Origins"},
		"two origins":              {"Upgrade: ", "Origin: https://app.example.com\r\nOrigin: https://app.example.com\r\nUpgrade: ", 403, "option Origins"},
		"another method":           {"GET", "POST", 405, "expected GET"},
		"preflight":                {"GET", "OPTIONS", 405, "expected GET"},
		"no upgrade":               {"Upgrade: websocket\r\n", "", 426, "WebSocket"},
		"another upgrade":          {"Upgrade: websocket", "Upgrade: h2c", 426, "WebSocket"},
		"no connection header":     {"Connection: Upgrade\r\n", "", 426, "WebSocket"},
		"no subprotocol":           {"Sec-WebSocket-Protocol: mcp\r\n", "", 400, "subprotocol mcp"},
		"another subprotocol":      {"Protocol: mcp", "Protocol: graphql-ws, mcp2", 400, "subprotocol mcp"},
		"subprotocol in capitals":  {"Protocol: mcp", "Protocol: MCP", 400, "subprotocol mcp"},
		"another version":          {"Version: 13", "Version: 8", 400, "version"},
		"no key":                   {"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", 400, "Key"},
		"short key":                {"dGhlIHNhbXBsZSBub25jZQ==", "AAAA", 400, "Key"},
		"a body that never comes":  {"Host: localhost", "Content-Length: 100\r\nHost: evil.example", 403, "option Hosts"},
		"origin before all checks": {handshake, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n", 403, "option Origins"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, ws.Handler(unbound(t), &ws.Options{Origins: []string{"https://app.example.com"}}))
				conn, _ := n.DialContext(t.Context(), "", "")
				defer conn.Close()
				if !strings.Contains(handshake, c.old) {
					t.Fatalf("%q is no part of a handshake", c.old)
				}
				fmt.Fprint(conn, strings.Replace(handshake, c.old, c.new, 1))
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				var body struct{ Error jsonrpc.Error }
				if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
					t.Error(err)
				}
				if resp.StatusCode != c.status || body.Error.Code != jsonrpc.InvalidRequest || !strings.Contains(body.Error.Message, c.says) {
					t.Errorf("refused with %d %q, want %d and %q", resp.StatusCode, body.Error.Message, c.status, c.says)
				}
				for header, want := range map[string]map[int]string{"Allow": {405: "GET"}, "Upgrade": {426: "websocket"}} {
					if got := resp.Header.Get(header); got != want[c.status] {
						t.Errorf("%s is %q, want %q", header, got, want[c.status])
					}
				}
			})
		})
	}
}

func TestHandshakeIsAccepted(t *testing.T) {
	for name, c := range map[string]struct{ old, new string }{
		"listed origin":        {"Upgrade: ", "Origin: https://app.example.com\r\nUpgrade: "},
		"listed host":          {"Host: localhost", "Host: mcp.example.com:8443"},
		"several subprotocols": {"Protocol: mcp", "Protocol: graphql-ws, mcp"},
		"several upgrades":     {"Connection: Upgrade", "Connection: keep-alive, Upgrade"},
		"compression offered":  {"Upgrade: ", "Sec-WebSocket-Extensions: permessage-deflate\r\nUpgrade: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, ws.Handler(binder(echoing), &ws.Options{
					Hosts: []string{"mcp.example.com"}, Origins: []string{"https://app.example.com"},
				}))
				conn, _ := n.DialContext(t.Context(), "", "")
				changed := strings.Replace(handshake, c.old, c.new, 1)
				client := newRawClientSaying(t, conn, changed)
				client.Write(frame(fin|text, echoCall))
				client.receive(t, text, echoAnswer)
			})
		})
	}
}

func TestHandlerRefusesOptions(t *testing.T) {
	for name, opts := range map[string]*ws.Options{
		"ws: Options.Hosts: ":   {Hosts: []string{"https://example.com"}},
		"ws: Options.Origins: ": {Origins: []string{"*"}},
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, name) {
					t.Errorf("Handler panicked with %q, want %q", p, name)
				}
			}()
			ws.Handler(unbound(t), opts)
		}()
	}
}

// One session too many is refused, until another has ended.
func TestLimitSessions(t *testing.T) {
	named := func(endpoint http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), r.Header.Get("Authorization"))))
		})
	}
	for name, c := range map[string]struct {
		opts  ws.Options
		names []string // of the clients that connect, one after another
		full  int      // how many of them find room
	}{
		"in all":               {ws.Options{Limits: transport.Limits{Sessions: 3}}, []string{"", "", "a", "", "b"}, 3},
		"of one client":        {ws.Options{Limits: transport.Limits{SessionsPerPrincipal: 2}}, []string{"a", "a", "a"}, 2},
		"of unnamed clients":   {ws.Options{Limits: transport.Limits{SessionsPerPrincipal: 1}}, []string{"", "", ""}, 3},
		"of different clients": {ws.Options{Limits: transport.Limits{SessionsPerPrincipal: 1}}, []string{"a", "b", "c"}, 3},
		"without bounds":       {ws.Options{Limits: transport.Limits{SessionsPerPrincipal: -1, Sessions: -1}}, []string{"a", "a", ""}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				endpoint := ws.Handler(binder(echoing), &c.opts)
				n := newNetwork(t, named(endpoint))
				t.Cleanup(func() { endpoint.Close() })
				dial := func(name string) (transport.Conn, error) {
					return ws.Dial("ws://localhost/", &ws.DialOptions{HTTPClient: n.client(), Header: authorize(name)}).Dial(t.Context(), handler(refuse))
				}
				var open []transport.Conn
				for i, name := range c.names {
					conn, err := dial(name)
					if i < c.full {
						if err != nil {
							t.Fatal(err)
						}
						open = append(open, conn)
						continue
					}
					checkHandshakeError(t, err, http.StatusServiceUnavailable, "busy")
				}
				open[0].Close()
				synctest.Wait()
				conn, err := dial(c.names[0])
				if err != nil {
					t.Fatalf("when one has ended: %v", err)
				}
				for _, conn := range append(open, conn) {
					conn.Close()
				}
			})
		})
	}
}

// The link has the principal of the handshake.
func TestPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := make(chan string, 1)
		endpoint := ws.Handler(binder(func(link transport.Link) jsonrpc.Handler {
			names <- link.Principal
			return handler(echo)
		}), nil)
		n := newNetwork(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx := transport.WithPrincipal(r.Context(), "user of "+r.Header.Get("Authorization"))
			endpoint.ServeHTTP(wrapped{w}, r.WithContext(ctx))
		}))
		n.dial(t, ws.DialOptions{Header: authorize("token")})
		if name := <-names; name != "user of token" {
			t.Errorf("the principal is %q", name)
		}
		endpoint.Close()
	})
}

// wrapped is a response writer of middleware.
type wrapped struct{ w http.ResponseWriter }

func (w wrapped) Header() http.Header         { return w.w.Header() }
func (w wrapped) Write(b []byte) (int, error) { return w.w.Write(b) }
func (w wrapped) WriteHeader(status int)      { w.w.WriteHeader(status) }
func (w wrapped) Unwrap() http.ResponseWriter { return w.w }

const (
	echoCall   = `{"jsonrpc":"2.0","id":1,"method":"echo","params":["é"]}`
	echoAnswer = `{"jsonrpc":"2.0","id":1,"result":["é"]}`
)

func frames(list ...[]byte) []byte {
	var all []byte
	for _, f := range list {
		all = append(all, f...)
	}
	return all
}

// A violation by the client ends its session with the code of the violation.
func TestCloseCodes(t *testing.T) {
	const maxMessage = 1000
	for name, c := range map[string]struct {
		sent   []byte
		code   int
		reason string
	}{
		"binary":                      {frame(fin|blob, echoCall), 1003, "a message must be text"},
		"empty binary":                {frame(fin|blob, ""), 1003, "a message must be text"},
		"bad UTF-8":                   {frame(fin|text, "\"\xff\""), 1007, "text must be UTF-8"},
		"surrogate":                   {frame(fin|text, "\"\xed\xa0\x80\""), 1007, "text must be UTF-8"},
		"overlong":                    {frame(fin|text, "\"\xc0\xaf\""), 1007, "text must be UTF-8"},
		"cut off character":           {frame(fin|text, "\"\xc3"), 1007, "text must be UTF-8"},
		"too big":                     {frame(fin|text, strings.Repeat("x", maxMessage+1)), 1009, ""},
		"too big in pieces":           {frames(frame(text, strings.Repeat("x", maxMessage)), frame(fin|more, "x")), 1009, ""},
		"too big by its claim":        {append(frameHead(fin|text, 1<<40), 0, 0, 0, 0), 1009, ""},
		"too big for a number":        {append(frameHead(fin|text, 1<<63), 0, 0, 0, 0), 1009, "a message may have at most 1000 bytes"},
		"not masked":                  {append([]byte{fin | text, byte(len(echoCall))}, echoCall...), 1002, "bad MASK"},
		"first reserved bit":          {frame(fin|rsv1|text, echoCall), 1002, "RSV1 set"},
		"second reserved bit":         {frame(fin|rsv2|text, echoCall), 1002, "RSV2 set"},
		"third reserved bit":          {frame(fin|rsv3|text, echoCall), 1002, "RSV3 set"},
		"reserved bit of a ping":      {frame(fin|rsv1|ping, ""), 1002, "RSV1 set"},
		"reserved opcode":             {frame(fin|3, ""), 1002, "bad opcode 3"},
		"reserved control opcode":     {frame(fin|11, ""), 1002, "bad opcode 11"},
		"ping in pieces":              {frame(ping, ""), 1002, "FIN not set on control"},
		"close in pieces":             {frame(closes, ""), 1002, "FIN not set on control"},
		"long ping":                   {frame(fin|ping, strings.Repeat("x", 126)), 1002, "len > 125 for control"},
		"continuation of nothing":     {frame(fin|more, "x"), 1002, "continuation after FIN"},
		"message within a message":    {frames(frame(text, "["), frame(fin|text, "]")), 1002, "data before FIN"},
		"close with a forbidden code": {frame(fin|closes, closePayload(1005, "")), 1002, "bad close code 1005"},
		"close with a code too small": {frame(fin|closes, closePayload(999, "")), 1002, "bad close code 999"},
		"close with bad UTF-8":        {frame(fin|closes, closePayload(1000, "\xff")), 1002, "invalid utf8 payload in close frame"},
		"normal close":                {frame(fin|closes, closePayload(1000, "bye")), 1000, ""},
		"close when leaving":          {frame(fin|closes, closePayload(1001, "")), 1001, ""},
		"close without a code":        {frame(fin|closes, ""), 1005, ""},
		"close with a private code":   {frame(fin|closes, closePayload(4999, "")), 4999, ""},
		"two closes":                  {frames(frame(fin|closes, closePayload(1000, "")), frame(fin|closes, closePayload(1001, ""))), 1000, ""},
		"close after a fault":         {frames(frame(fin|blob, ""), frame(fin|closes, closePayload(1000, ""))), 1003, "a message must be text"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newRecorded()
				n := newNetwork(t, ws.Handler(server, &ws.Options{Limits: transport.Limits{MessageBytes: maxMessage}}))
				conn, _ := n.DialContext(t.Context(), "", "")
				client := newRawClient(t, conn)
				client.Write(frame(fin|text, echoCall))
				client.receive(t, text, echoAnswer)

				start := time.Now()
				sending := make(chan struct{})
				go func() {
					defer close(sending)
					client.Write(c.sent)
				}()
				code, reason := client.receiveClose(t)
				if code != c.code || reason != c.reason {
					t.Errorf("closed with %d %q, want %d %q", code, reason, c.code, c.reason)
				}
				if took := time.Since(start); took > 2*time.Second {
					t.Errorf("closing took %v", took)
				}
				if err := <-server.ended; !errors.Is(err, jsonrpc.ErrClosed) {
					t.Errorf("the link ended with %v", err)
				}
				client.Close()
				<-sending
			})
		})
	}
}

// A client that still sends receives the close frame.
func TestCloseCodeArrives(t *testing.T) {
	url := serve(t, binder(echoing), &ws.Options{Limits: transport.Limits{MessageBytes: 1000}})
	for range 5 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		client := newRawClient(t, conn)
		sending := make(chan struct{})
		go func() {
			defer close(sending)
			client.Write(frame(fin|text, strings.Repeat("x", 4<<20)))
			client.Write(frame(fin|closes, ""))
			conn.(*net.TCPConn).CloseWrite()
		}()
		if code, _ := client.receiveClose(t); code != websocket.CloseMessageTooBig {
			t.Errorf("closed with %d", code)
		}
		waittest.Receive(t, "the end of sending", sending)
		client.Close()
	}
}

// Unusual but valid frames are accepted.
func TestOddButLegal(t *testing.T) {
	half := strings.Index(echoCall, "é") + 1 // in the middle of the character
	for name, sent := range map[string][]byte{
		"in pieces":            frames(frame(text, echoCall[:half]), frame(fin|more, echoCall[half:])),
		"in empty pieces":      frames(frame(text, ""), frame(more, ""), frame(more, echoCall), frame(fin|more, "")),
		"around pings":         frames(frame(text, echoCall[:half]), frame(fin|pong, "unasked"), frame(more, ""), frame(fin|more, echoCall[half:])),
		"after a blank one":    frames(frame(fin|text, ""), frame(fin|text, " \r\n"), frame(fin|text, echoCall)),
		"with a longer length": append([]byte{fin | text, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, byte(len(echoCall)), 0, 0, 0, 0}, echoCall...),
		"spread over lines":    frame(fin|text, strings.ReplaceAll(echoCall, ",", ",\r\n")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, ws.Handler(binder(echoing), nil))
				conn, _ := n.DialContext(t.Context(), "", "")
				client := newRawClient(t, conn)
				client.Write(sent)
				client.receive(t, text, echoAnswer)
				client.Write(frame(fin|closes, ""))
				client.receiveClose(t)
			})
		})
	}
}

// A malformed message is answered and the session continues.
func TestMalformed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var malformed []error
		n := newNetwork(t, ws.Handler(binder(echoing), &ws.Options{
			Conn: jsonrpc.Options{Malformed: func(err error) { malformed = append(malformed, err) }},
		}))
		conn, _ := n.DialContext(t.Context(), "", "")
		client := newRawClient(t, conn)
		for _, sent := range []string{`{"jsonrpc"`, `hello`, `{}`, echoCall + echoCall} {
			client.Write(frame(fin|text, sent))
			opcode, payload, err := client.next()
			if err != nil || opcode != text || !strings.Contains(payload, `"error":{"code":-32`) {
				t.Errorf("%q was answered with %d %q (%v)", sent, opcode, payload, err)
			}
		}
		client.Write(frame(fin|text, "\xef\xbb\xbf"+echoCall))
		client.receive(t, text, echoAnswer)
		if len(malformed) != 4 {
			t.Errorf("%d of 4 were reported: %v", len(malformed), malformed)
		}
	})
}

// Closing the client's end sends a close frame, and waits for the server's.
func TestClientCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newRecorded()
		n := newNetwork(t, ws.Handler(server, nil))
		conn := n.dial(t, ws.DialOptions{})
		start := time.Now()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("closing took %v", took)
		}
		<-server.ended
		_, err := conn.Call(t.Context(), "echo", nil)
		var end *ws.CloseError
		if errors.As(err, &end) || !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("calling after closing: %v, want ErrClosed without a cause", err)
		}
	})
}

// A server that is closed ends its sessions with 1001, and waits for what runs.
func TestServerCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var worked, called int
		endpoint := ws.Handler(binder(func(link transport.Link) jsonrpc.Handler {
			link.Go(func(ctx context.Context) {
				<-ctx.Done()
				<-time.After(time.Second)
				worked++
			})
			return handler(func(ctx context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
				called++
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}), nil)
		n := newNetwork(t, endpoint)
		conn := n.dial(t, ws.DialOptions{})
		failed := make(chan error, 1)
		go func() {
			_, err := conn.Call(t.Context(), "wait", nil)
			failed <- err
		}()
		synctest.Wait()

		start := time.Now()
		done := make(chan struct{})
		for range 3 {
			go func() {
				endpoint.Close()
				done <- struct{}{}
			}()
		}
		for range 3 {
			<-done
		}
		if took := time.Since(start); took != time.Second || worked != 1 || called != 1 {
			t.Errorf("closing took %v, want the second that the session needed (%d, %d)", took, worked, called)
		}
		var end *ws.CloseError
		var call *jsonrpc.CallError
		err := <-failed
		if !errors.As(err, &call) || call.Delivery != jsonrpc.MaybeExecuted || !errors.Is(err, jsonrpc.ErrClosed) {
			t.Errorf("the call failed with %v", err)
		}
		if !errors.As(err, &end) || end.Code != websocket.CloseGoingAway || end.Sent {
			t.Errorf("the call failed with %v, want the server's code 1001", err)
		}
		<-conn.Done()
		if err := conn.Notify(t.Context(), "note", nil); !errors.As(err, &end) {
			t.Errorf("a notification afterwards failed with %v, want the server's code", err)
		}
		if _, err := ws.Dial("ws://localhost/", &ws.DialOptions{HTTPClient: n.client()}).Dial(t.Context(), handler(refuse)); !strings.Contains(fmt.Sprint(err), "503") {
			t.Errorf("dialling a closed endpoint: %v, want 503", err)
		}
	})
}

// Closing is bounded, whatever the peer and the handlers do.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		endpoint := ws.Handler(binder(func(link transport.Link) jsonrpc.Handler {
			link.Go(func(context.Context) { <-release }) // ignores its context
			return handler(echo)
		}), nil)
		n := newNetwork(t, endpoint)
		conn, _ := n.DialContext(t.Context(), "", "")
		newRawClient(t, conn) // takes nothing, and never closes
		start := time.Now()
		endpoint.Close()
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("closing took %v", took)
		}
		close(release)
	})
}

// An idle connection with a live peer stays open.
func TestKeepAlive(t *testing.T) {
	for name, c := range map[string]struct{ server, client time.Duration }{
		"both ping":              {0, 0},
		"the server pings":       {time.Minute, -1},
		"the client pings":       {-1, time.Minute},
		"neither does":           {-1, -1},
		"at different intervals": {time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, ws.Handler(binder(echoing), &ws.Options{KeepAlive: c.server}))
				conn := n.dial(t, ws.DialOptions{KeepAlive: c.client})
				<-time.After(3 * time.Hour)
				if _, err := conn.Call(t.Context(), "echo", nil); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A client that disappears is detected.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newRecorded()
		n := newNetwork(t, ws.Handler(server, nil))
		conn, _ := n.DialContext(t.Context(), "", "")
		client := newRawClient(t, conn)
		go io.Copy(io.Discard, client.in) // as its system does for a while
		start := time.Now()
		<-server.ended
		if took := time.Since(start); took != 37500*time.Millisecond {
			t.Errorf("it took %v, want two and a half times 15 s", took)
		}
	})
}

// A client that is busy sending one long message at a fair rate lives.
func TestBusyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newRecorded()
		n := newNetwork(t, ws.Handler(server, nil))
		conn, _ := n.DialContext(t.Context(), "", "")
		client := newRawClient(t, conn)
		received := make(chan int)
		go func() {
			pings := 0
			for {
				opcode, _, err := client.next()
				if err != nil || opcode == text {
					received <- pings
					return
				}
				pings++
			}
		}()
		long := frame(fin|text, strings.Replace(echoCall, "é", strings.Repeat("x", 4_000_000), 1))
		for len(long) > 0 {
			piece := min(len(long), 20<<10)
			client.Write(long[:piece])
			long = long[piece:]
			<-time.After(time.Second)
		}
		if pings := <-received; pings < 10 {
			t.Errorf("%d pings came within three minutes", pings)
		}
	})
}

// A server accepts no compression, so a client that offers it and compresses is refused before
// anything is inflated.
func TestCompressedMessageIsRefused(t *testing.T) {
	url := serve(t, binder(echoing), nil)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	client := newRawClientSaying(t, conn, strings.Replace(handshake, "Upgrade: ", "Sec-WebSocket-Extensions: permessage-deflate\r\nUpgrade: ", 1))
	client.Write(frame(fin|rsv1|text, "\x00\x01\x00\xfe\xff{"))
	if code, reason := client.receiveClose(t); code != websocket.CloseProtocolError {
		t.Errorf("closed with %d %s", code, reason)
	}
}

// A message that is slower than 16 KiB a second after 10 seconds ends its session, whether the
// client answers pings or not. Many fragments and a single one are alike.
func TestSlowMessage(t *testing.T) {
	long := strings.Replace(echoCall, "é", strings.Repeat("x", 1_000_000), 1)
	for name, c := range map[string]struct {
		drip  func(client *rawClient, i int) []byte
		wants time.Duration
	}{
		"a frame that stalls": {func(_ *rawClient, i int) []byte {
			whole := frame(fin|text, long)
			switch i {
			case 0:
				return whole[:5000]
			case 1:
				return whole[5000:90_000]
			}
			return nil
		}, 11 * time.Second},
		"bytes, one a second": {func(_ *rawClient, i int) []byte {
			whole := frame(fin|text, long)
			if i == 0 {
				return whole[:5000]
			}
			return whole[4999+i:][:1]
		}, 10 * time.Second},
		"fragments and pongs": {func(_ *rawClient, i int) []byte {
			if i == 0 {
				return frame(text, long[:5000])
			}
			return append(frame(more, "x"), frame(fin|pong, "")...)
		}, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newRecorded()
				n := newNetwork(t, ws.Handler(server, nil))
				conn, _ := n.DialContext(t.Context(), "", "")
				client := newRawClient(t, conn)
				go io.Copy(io.Discard, client.in)
				start := time.Now()
				for i := 0; ; i++ {
					if piece := c.drip(client, i); piece != nil {
						client.Write(piece) // it fails when the session has ended
					}
					select {
					case <-server.ended:
						if took := time.Since(start).Round(time.Second); took != c.wants {
							t.Errorf("the session ended after %v, want %v", took, c.wants)
						}
						return
					case <-time.After(time.Second):
					}
				}
			})
		})
	}
}

// A server that disappears is detected. Pending calls fail with the reason.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, silentServer(nil))
		conn := n.dial(t, ws.DialOptions{Conn: jsonrpc.Options{CallTimeout: time.Hour}})
		start := time.Now()
		_, err := conn.Call(t.Context(), "echo", nil)
		var end *ws.CloseError
		if !errors.As(err, &end) || end.Code != 1006 || !strings.Contains(err.Error(), "silent") {
			t.Errorf("the call failed with %v", err)
		}
		if took := time.Since(start); took != 37500*time.Millisecond {
			t.Errorf("it took %v, want two and a half times 15 s", took)
		}
		<-conn.Done()
		if took := time.Since(start); took > 41*time.Second {
			t.Errorf("the connection ended after %v", took)
		}
	})
}

// A client that floods with pings is served, and its pings use bounded memory.
func TestPingFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, ws.Handler(binder(echoing), nil))
		conn, _ := n.DialContext(t.Context(), "", "")
		client := newRawClient(t, conn)
		const floods, pings = 10, 10_000
		var flood []byte
		for range pings {
			flood = append(flood, frame(fin|ping, "flood")...)
		}
		for range floods {
			client.Write(flood) // the server does not read
			client.Write(frame(fin|ping, "last"))
			client.Write(frame(fin|text, echoCall))
			for answered, last := false, false; !answered || !last; {
				opcode, payload, err := client.next()
				if err != nil {
					t.Fatal(err)
				}
				answered = answered || opcode == text
				last = last || opcode == pong && payload == "last"
			}
		}
	})
}

// A client that does not read is disconnected and does not delay others. Its queue is
// bounded.
func TestLimitWriteTimeout(t *testing.T) {
	const size = 10_000
	synctest.Test(t, func(t *testing.T) {
		written, failed := 0, make(chan error, 1)
		server := binder(func(link transport.Link) jsonrpc.Handler {
			return handler(func(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
				if req.Method == "echo" {
					return echo(ctx, from, req, reply)
				}
				for {
					if err := from.Notify(ctx, "flood", jsonrpc.Raw(`["`+strings.Repeat("x", size)+`"]`)); err != nil {
						failed <- err
						return err
					}
					written += size
				}
			})
		})
		n := newNetwork(t, ws.Handler(server, nil))
		pipe, _ := n.DialContext(t.Context(), "", "")
		slow := newRawClient(t, pipe)
		other := n.dial(t, ws.DialOptions{})
		start := time.Now()
		slow.Write(frame(fin|text, `{"jsonrpc":"2.0","id":1,"method":"flood"}`))
		synctest.Wait()
		if written < 256<<10 || written > 800<<10 {
			t.Errorf("%d bytes wait, want about 256 KiB, and as much again that is being written", written)
		}
		if _, err := other.Call(t.Context(), "echo", nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("another client waited for %v", took)
		}
		err := <-failed
		if !errors.Is(err, jsonrpc.ErrClosed) || !strings.Contains(err.Error(), "in time") {
			t.Errorf("writing failed with %v", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("the reader was cut off after %v, want %v", took, 10*time.Second)
		}
	})
}

// counter is a server that counts notifications.
type counter struct{ notes atomic.Int64 }

func (c *counter) Bind(transport.Link) jsonrpc.Handler { return c }

func (c *counter) Handle(ctx context.Context, from jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	return echo(ctx, from, req, reply)
}

func (c *counter) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) { c.notes.Add(1) }

// flooding is a server that sends notifications, numbered, as long as it can.
func flooding(link transport.Link) jsonrpc.Handler {
	link.Go(func(ctx context.Context) {
		for i := 0; ; i++ {
			if link.Peer.Notify(ctx, "flood", jsonrpc.Raw(fmt.Sprintf(`[%d,"%s"]`, i, strings.Repeat("x", 1000)))) != nil {
				return
			}
		}
	})
	return handler(echo)
}

// What was sent before Close arrives.
func TestCloseSendsWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &counter{}
		n := newNetwork(t, ws.Handler(server, nil))
		conn := n.dial(t, ws.DialOptions{})
		const notes = 1000
		for range notes {
			if err := conn.Notify(t.Context(), "note", nil); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
		synctest.Wait()
		if got := server.notes.Load(); got != notes {
			t.Errorf("%d of %d notifications arrived", got, notes)
		}
	})
}

// Answers that are queued when the client closes are sent before the closing is
// confirmed.
func TestCloseAfterCalls(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t, ws.Handler(binder(echoing), nil))
			conn, _ := n.DialContext(t.Context(), "", "")
			client := newRawClient(t, conn)
			const calls = 5
			for i := range calls {
				client.Write(frame(fin|text, strings.Replace(echoCall, `"id":1`, fmt.Sprintf(`"id":%d`, i), 1)))
				synctest.Wait()
			}
			client.Write(frame(fin|closes, closePayload(1000, "")))
			synctest.Wait()
			for i := range calls {
				client.receive(t, text, strings.Replace(echoAnswer, `"id":1`, fmt.Sprintf(`"id":%d`, i), 1))
			}
			client.receive(t, closes, closePayload(1000, ""))
		})
	}
}

// Close works while the server still sends.
func TestCloseWhileTheServerTalks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, ws.Handler(binder(flooding), nil))
		conn := n.dial(t, ws.DialOptions{})
		start := time.Now()
		conn.Close()
		if took := time.Since(start); took > 0 {
			t.Errorf("closing took %v", took)
		}
	})
}

// Close waits a bounded time for the server, whatever it sends.
func TestCloseWaitsForTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		talks time.Duration // how long the server goes on
		took  time.Duration // what Close takes
	}{
		"for a while":    {500 * time.Millisecond, 500 * time.Millisecond},
		"within a bound": {time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t, silentServer(func(conn net.Conn) {
					done := make(chan struct{})
					go func() {
						defer close(done)
						io.Copy(io.Discard, conn)
					}()
					for end := time.Now().Add(c.talks); time.Now().Before(end); <-time.After(50 * time.Millisecond) {
						if _, err := conn.Write(serverFrame(fin|ping, "")); err != nil {
							break
						}
					}
					conn.Write(serverFrame(fin|closes, closePayload(1000, "")))
					<-done
				}))
				conn := n.dial(t, ws.DialOptions{})
				start := time.Now()
				conn.Close()
				if took := time.Since(start).Round(100 * time.Millisecond); took != c.took {
					t.Errorf("closing took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// A slow reader misses nothing, since the writer waits.
func TestPausingReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, ws.Handler(binder(flooding), nil))
		conn, _ := n.DialContext(t.Context(), "", "")
		client := newRawClient(t, conn)
		for i := range 5000 {
			if i%1000 == 0 {
				<-time.After(2 * time.Second)
			}
			_, payload, err := client.next()
			if want := fmt.Sprintf(`[%d,"xxx`, i); err != nil || !strings.Contains(payload, want) {
				t.Fatalf("message %d is %.100q (%v)", i, payload, err)
			}
		}
	})
}

// A client that does not read is disconnected even if it still sends.
func TestTalkingSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		n := newNetwork(t, ws.Handler(binder(func(link transport.Link) jsonrpc.Handler {
			link.Go(func(ctx context.Context) {
				<-ctx.Done()
				close(ended)
			})
			return flooding(link)
		}), nil))
		conn, _ := n.DialContext(t.Context(), "", "")
		client := newRawClient(t, conn)
		start := time.Now()
		for talking := true; talking; {
			select {
			case <-ended:
				talking = false
			case <-time.After(100 * time.Millisecond):
				client.Write(frame(fin|ping, ""))
			}
		}
		if took := time.Since(start); took > 12*time.Second {
			t.Errorf("it was cut off after %v", took)
		}
	})
}

const handshake = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n\r\n"

// The first bits of a frame: RFC 6455, section 5.2.
const (
	fin  = 0x80
	rsv1 = 0x40
	rsv2 = 0x20
	rsv3 = 0x10

	more   = 0
	text   = websocket.TextMessage
	blob   = websocket.BinaryMessage
	closes = websocket.CloseMessage
	ping   = websocket.PingMessage
	pong   = websocket.PongMessage
)

// frame is a frame as a client sends it. The mask is zero, which is one.
func frame(first byte, payload string) []byte {
	buf := append(frameHead(first, uint64(len(payload))), 0, 0, 0, 0)
	return append(buf, payload...)
}

// frameHead is the head of a masked frame, without the mask.
func frameHead(first byte, size uint64) []byte {
	const mask = 0x80
	switch {
	case size <= 125:
		return []byte{first, mask | byte(size)}
	case size <= 0xffff:
		return binary.BigEndian.AppendUint16([]byte{first, mask | 126}, uint16(size))
	}
	return binary.BigEndian.AppendUint64([]byte{first, mask | 127}, size)
}

// closePayload is what a close frame holds.
func closePayload(code uint16, reason string) string {
	return string(binary.BigEndian.AppendUint16(nil, code)) + reason
}

// rawClient is a client that can send any bytes.
type rawClient struct {
	net.Conn
	in *bufio.Reader
}

// newRawClient opens a WebSocket on a connection.
func newRawClient(t *testing.T, conn net.Conn) *rawClient {
	t.Helper()
	return newRawClientSaying(t, conn, handshake)
}

// newRawClientSaying opens a WebSocket with a handshake of the caller.
func newRawClientSaying(t *testing.T, conn net.Conn, handshake string) *rawClient {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	c := &rawClient{conn, bufio.NewReader(conn)}
	fmt.Fprint(conn, handshake)
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Protocol") != "mcp" {
		t.Fatalf("the handshake was answered with %v", resp)
	}
	if extensions := resp.Header.Values("Sec-WebSocket-Extensions"); extensions != nil {
		t.Errorf("extensions were agreed on: %q", extensions)
	}
	return c
}

// next reads one frame.
func (c *rawClient) next() (opcode int, payload string, err error) {
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, "", err
	}
	if head[0]&fin == 0 || head[0]&(rsv1|rsv2|rsv3) != 0 || head[1]&0x80 != 0 {
		return 0, "", fmt.Errorf("a server must not send a frame that begins with %x", head)
	}
	size := uint64(head[1])
	if extended := map[uint64]int{126: 2, 127: 8}[size]; extended > 0 {
		var length [8]byte
		if _, err := io.ReadFull(c.in, length[8-extended:]); err != nil {
			return 0, "", err
		}
		size = binary.BigEndian.Uint64(length[:])
	}
	body := make([]byte, size)
	_, err = io.ReadFull(c.in, body)
	return int(head[0] & 0x0f), string(body), err
}

// receive reads one frame and compares it.
func (c *rawClient) receive(t *testing.T, opcode int, payload string) {
	t.Helper()
	gotOpcode, gotPayload, err := c.next()
	if err != nil || gotOpcode != opcode || gotPayload != payload {
		t.Errorf("the server sent frame %d with %.200q (%v), want %d with %q", gotOpcode, gotPayload, err, opcode, payload)
	}
}

// receiveClose reads frames up to the end of the connection, which must bring
// exactly one close frame, as the last; it returns what that holds.
func (c *rawClient) receiveClose(t *testing.T) (code int, reason string) {
	t.Helper()
	var opcodes []int
	for {
		opcode, payload, err := c.next()
		if err != nil {
			if err != io.EOF {
				t.Errorf("the connection ended with %v", err)
			}
			break
		}
		opcodes = append(opcodes, opcode)
		if opcode == closes {
			code, reason = websocket.CloseNoStatusReceived, ""
			if len(payload) >= 2 {
				code, reason = int(binary.BigEndian.Uint16([]byte(payload))), payload[2:]
			}
		}
	}
	if first := slices.Index(opcodes, closes); first < 0 || first != len(opcodes)-1 {
		t.Errorf("the server sent the frames %v, want one close frame at the end", opcodes)
	}
	return code, reason
}
