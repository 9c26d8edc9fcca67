package soak

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// principalHeader authenticates, in these tests.
const principalHeader = "X-Principal"

// authenticated believes what a request says about who makes it.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), r.Header.Get(principalHeader))))
	})
}

// serveOver serves an endpoint and returns its address.
func serveOver(t *testing.T, endpoint interface {
	http.Handler
	io.Closer
}) (addr string) {
	t.Helper()
	s := httptest.NewServer(authenticated(endpoint))
	t.Cleanup(s.Close)
	t.Cleanup(func() { endpoint.Close() })
	return s.Listener.Addr().String()
}

// doors are what there may only be so many of: how to open one, which is to be read
// to the end of the response's header, and to close it again.
var doors = map[string]struct {
	serve func(t *testing.T, most, each int) string
	open  func(c *raw, principal string) *http.Response
	close func(c *raw, resp *http.Response)
}{
	"streamable sessions": {
		serve: func(t *testing.T, most, each int) string {
			return serveOver(t, streamable.Handler(newTarget().mcp, &streamable.Options{MaxSessions: most, MaxPerPrincipal: each}))
		},
		open: func(c *raw, principal string) *http.Response {
			c.send("POST", "/", jsonHeader+as(principal), legacyHello)
			resp := c.response()
			if resp.StatusCode == http.StatusOK {
				_, _ = io.Copy(io.Discard, resp.Body) // the connection is used again
			}
			return resp
		},
		close: func(c *raw, resp *http.Response) {
			principal := resp.Request.Header.Get(principalHeader)
			c.answer("DELETE", "/", sessionHeader(as(principal), resp.Header.Get("Mcp-Session-Id")), "")
		},
	},
	"streamable subscriptions": {
		serve: func(t *testing.T, most, _ int) string {
			return serveOver(t, streamable.Handler(newTarget().mcp, &streamable.Options{MaxListens: most}))
		},
		open: func(c *raw, _ string) *http.Response {
			header, body := modern(1, mcp.MethodSubscriptionsListen, "", `"notifications":{}`)
			c.send("POST", "/", header, body)
			return c.response()
		},
		close: func(c *raw, _ *http.Response) { c.Close() },
	},
	"sse sessions": {
		serve: func(t *testing.T, most, each int) string {
			return serveOver(t, sse.Handler(newTarget().mcp, &sse.Options{MaxSessions: most, MaxPerPrincipal: each}))
		},
		open: func(c *raw, principal string) *http.Response {
			c.send("GET", "/", "Accept: text/event-stream\r\n"+as(principal), "")
			return c.response()
		},
		close: func(c *raw, _ *http.Response) { c.Close() },
	},
	"ws sessions": {
		serve: func(t *testing.T, most, each int) string {
			return serveOver(t, ws.Handler(newTarget().mcp, &ws.Options{MaxSessions: most, MaxPerPrincipal: each}))
		},
		open: func(c *raw, principal string) *http.Response {
			handshake := strings.Replace(wsHandshake, "\r\n\r\n", "\r\n"+as(principal)+"\r\n", 1)
			if _, err := io.WriteString(c, handshake); err != nil {
				c.Fatal(err)
			}
			return c.response()
		},
		close: func(c *raw, _ *http.Response) { c.Close() },
	},
}

// One more than there may be is told to come back later, and let in when another
// has left. Nobody is thrown out for it.
func TestTooMany(t *testing.T) {
	const most, each = 20, 5
	for name, door := range doors {
		t.Run(name, func(t *testing.T) {
			addr := door.serve(t, most, each)
			enter := func(principal string) (*raw, *http.Response) {
				c := dialRaw(t, addr)
				t.Cleanup(func() { c.Close() })
				resp := door.open(c, principal)
				resp.Request = &http.Request{Header: http.Header{principalHeader: {principal}}}
				return c, resp
			}
			turnedAway := func(principal string) {
				t.Helper()
				c, resp := enter(principal)
				text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
				seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
				if resp.StatusCode != http.StatusServiceUnavailable || seconds < 1 || err != nil || !strings.Contains(string(text), `"error"`) {
					t.Errorf("one too many was answered with %s, Retry-After %d, %v\n%.300s", resp.Status, seconds, err, text)
				}
				c.Close()
			}
			admitted := func(resp *http.Response) bool {
				return resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols
			}

			var first *raw
			var firstResp *http.Response
			for i := range most {
				principal := ""
				if i < each {
					principal = "busy"
				}
				c, resp := enter(principal)
				if !admitted(resp) {
					t.Fatalf("number %d of %d was answered with %s", i+1, most, resp.Status)
				}
				if i == 0 {
					first, firstResp = c, resp
				}
				if i == each && name != "streamable subscriptions" {
					turnedAway("busy")
				}
			}
			for range 3 {
				turnedAway("")
				turnedAway("other")
			}

			door.close(first, firstResp)
			deadline := time.Now().Add(patience)
			for { // until the server has noticed that the first has left
				c, resp := enter("busy")
				if admitted(resp) {
					break
				}
				if c.Close(); time.Now().After(deadline) {
					t.Fatal("who has left has left no room")
				}
			}
			turnedAway("")
		})
	}
}
