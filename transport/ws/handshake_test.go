package ws_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// unbound is a server that must not be reached.
func unbound(t *testing.T) transport.Binder {
	return binder(func(transport.Link) jsonrpc.Handler {
		t.Error("the server was reached")
		return handler(refuse)
	})
}

// Whoever may not connect is told so before there is a WebSocket.
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
				conn, _ := n.connect(t.Context(), "", "")
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
				conn, _ := n.connect(t.Context(), "", "")
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
func TestMaxSessions(t *testing.T) {
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
		"in all":               {ws.Options{MaxSessions: 3}, []string{"", "", "a", "", "b"}, 3},
		"of one client":        {ws.Options{MaxPerPrincipal: 2}, []string{"a", "a", "a"}, 2},
		"of unnamed clients":   {ws.Options{MaxPerPrincipal: 1}, []string{"", "", ""}, 3},
		"of different clients": {ws.Options{MaxPerPrincipal: 1}, []string{"a", "b", "c"}, 3},
		"without bounds":       {ws.Options{MaxPerPrincipal: -1, MaxSessions: -1}, []string{"a", "a", ""}, 3},
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

// The link knows who was authenticated when the socket was opened.
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

// wrapped is a response as middleware passes it on.
type wrapped struct{ w http.ResponseWriter }

func (w wrapped) Header() http.Header         { return w.w.Header() }
func (w wrapped) Write(b []byte) (int, error) { return w.w.Write(b) }
func (w wrapped) WriteHeader(status int)      { w.w.WriteHeader(status) }
func (w wrapped) Unwrap() http.ResponseWriter { return w.w }
