package soak

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
	"github.com/dovetail-go/dovetail/transport/ws"
)

// requests are all requests that a client can send with a session ID.
var requests = map[string]struct{ method, header, body string }{
	"a call":              {"POST", "", legacyCall(1, "echo", `{"nonce":"x"}`)},
	"a ping":              {"POST", "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
	"a notification":      {"POST", "", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`},
	"an answer":           {"POST", "", `{"jsonrpc":"2.0","id":1,"result":{}}`},
	"a refusal":           {"POST", "", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`},
	"a batch":             {"POST", "", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`},
	"a stream":            {"GET", "", ""},
	"the rest of one":     {"GET", "Last-Event-ID: <event>\r\n", ""},
	"the end":             {"DELETE", "", ""},
	"the end, as a batch": {"POST", "", `[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`},
}

// sharing is a server whose sessions are in a store.
type sharing struct {
	*server.Server
	store store.Store
}

func (s sharing) Store() store.Store { return s.store }

func newStore(t *testing.T) store.Store {
	t.Helper()
	memory, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { memory.Close() })
	return memory
}

// A client with the session ID of another one gets the same response, byte for byte, as
// with an unknown ID.
func TestForeignSessions(t *testing.T) {
	for name, shared := range map[string]store.Store{
		"own store":    nil,
		"shared store": newStore(t),
	} {
		t.Run(name, func(t *testing.T) {
			addr := serveOver(t, streamable.Handler(sharing{newTarget().mcp, shared}, nil))
			owner := dialRaw(t, addr)
			defer owner.Close()
			own := as("owner")
			header := owner.openAt("/", own)
			event := owner.firstEvent(header)
			for name, request := range requests {
				for _, other := range []string{"other", ""} {
					got := answerBytes(t, addr, request.method, sessionHeader(as(other), sessionID(header))+strings.Replace(request.header, "<event>", event, 1), request.body)
					unknown := answerBytes(t, addr, request.method, sessionHeader(as(other), otherID(sessionID(header)))+strings.Replace(request.header, "<event>", event, 1), request.body)
					if !strings.HasPrefix(got, "HTTP/1.1 404 ") || got != unknown {
						t.Errorf("%s of %q with another's id was answered with\n%s\nwith an unknown one with\n%s", name, other, got, unknown)
					}
				}
			}
			resp, text := owner.answer("POST", "/", header, legacyCall(7, "echo", nonceJSON("mine still")))
			owner.echoed(resp, text, "mine still")
		})
	}
}

// A client with the event ID of another session gets the same response as with an unknown
// ID.
func TestForeignEvents(t *testing.T) {
	addr := serveOver(t, streamable.Handler(newTarget().mcp, nil))
	owner, other := dialRaw(t, addr), dialRaw(t, addr)
	defer owner.Close()
	defer other.Close()
	event := owner.firstEvent(owner.openAt("/", as("owner")))
	header := other.openAt("/", as("other"))
	for _, id := range []string{event, event + "0", strings.TrimRight(event, "0123456789") + "0"} {
		got := answerBytes(t, addr, "GET", header+"Last-Event-ID: "+id+"\r\n", "")
		unknown := answerBytes(t, addr, "GET", header+"Last-Event-ID: "+otherID(id)+"\r\n", "")
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") || got != unknown {
			t.Errorf("%s was answered with\n%s\nan unknown event with\n%s", id, got, unknown)
		}
	}
}

// A message to the stream of another client gets the same response as one to an unknown
// stream.
func TestForeignStreams(t *testing.T) {
	addr := serveOver(t, sse.Handler(newTarget().mcp, nil))
	owner := dialRaw(t, addr)
	defer owner.Close()
	owner.send("GET", "/", "Accept: text/event-stream\r\n"+as("owner"), "")
	head := make([]byte, 200)
	n, err := io.ReadAtLeast(owner.response().Body, head, 60)
	id := regexp.MustCompile(`sessionId=(\w+)`).FindSubmatch(head[:n])
	if err != nil || id == nil {
		t.Fatalf("%v: %s", err, head[:n])
	}
	for name, request := range requests {
		if request.method != "POST" {
			continue
		}
		post := func(principal, id string) string {
			c := dialRaw(t, addr)
			defer c.Close()
			c.send("POST", "/?sessionId="+id, jsonHeader+as(principal), request.body)
			return c.dump()
		}
		for _, other := range []string{"other", ""} {
			got, unknown := post(other, string(id[1])), post(other, otherID(string(id[1])))
			if !strings.HasPrefix(got, "HTTP/1.1 404 ") || got != unknown {
				t.Errorf("%s of %q with another's id was answered with\n%s\nwith an unknown one with\n%s", name, other, got, unknown)
			}
		}
	}
}

func as(principal string) string { return principalHeader + ": " + principal + "\r\n" }

func sessionHeader(more, id string) string {
	return fmt.Sprintf("%s%sMcp-Session-Id: %s\r\n", jsonHeader, more, id)
}

// otherID returns an unknown ID of the same form.
func otherID(id string) string {
	last := byte('A')
	if id[len(id)/2] == last {
		last = 'B'
	}
	return id[:len(id)/2] + string(last) + id[len(id)/2+1:]
}

// answerBytes sends one request and returns the response without its date.
func answerBytes(t testing.TB, addr, method, header, body string) string {
	t.Helper()
	c := dialRaw(t, addr)
	defer c.Close()
	c.send(method, "/", header, body)
	return c.dump()
}

func (c *raw) dump() string {
	c.Helper()
	resp := c.response()
	if resp.StatusCode == http.StatusOK && resp.ContentLength < 0 {
		return "HTTP/1.1 200 with a stream"
	}
	resp.Header.Del("Date")
	text, err := httputil.DumpResponse(resp, true)
	if err != nil {
		c.Fatal(err)
	}
	return string(text)
}

// firstEvent causes an event in a session and returns its ID.
func (c *raw) firstEvent(header string) string {
	c.Helper()
	_, text := c.answer("POST", "/", header, legacyCall(2, "flood", `{"count":1,"size":10}`))
	id := regexp.MustCompile(`(?m)^id: (\S+)$`).FindSubmatch(text)
	if id == nil {
		c.Fatalf("no event has an id:\n%.500s", text)
	}
	return string(id[1])
}

// principalHeader names the principal of a request.
const principalHeader = "X-Principal"

// authenticated sets the principal of requests.
func authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), r.Header.Get(principalHeader))))
	})
}

// serveOver starts a server for an endpoint and returns its address.
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

// limitedResources are resources whose number is limited: how to open one, which returns
// its response header, and how to close it if closing the connection does not.
var limitedResources = map[string]struct {
	serve func(t *testing.T, most, each int) string
	open  func(c *raw, principal string) *http.Response
	close func(c *raw, resp *http.Response)
}{
	"streamable sessions": {
		serve: func(t *testing.T, most, each int) string {
			return serveOver(t, streamable.Handler(newTarget().mcp, &streamable.Options{Limits: transport.Limits{Sessions: most, SessionsPerPrincipal: each}}))
		},
		open: func(c *raw, principal string) *http.Response {
			c.send("POST", "/", jsonHeader+as(principal), legacyHello)
			resp := c.response()
			if resp.StatusCode == http.StatusOK {
				_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be reused
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
			return serveOver(t, streamable.Handler(newTarget().mcp, &streamable.Options{Limits: transport.Limits{Subscriptions: most}}))
		},
		open: func(c *raw, _ string) *http.Response {
			header, body := modern(1, mcp.MethodSubscriptionsListen, "", `"notifications":{}`)
			c.send("POST", "/", header, body)
			return c.response()
		},
	},
	"sse sessions": {
		serve: func(t *testing.T, most, each int) string {
			return serveOver(t, sse.Handler(newTarget().mcp, &sse.Options{Limits: transport.Limits{Sessions: most, SessionsPerPrincipal: each}}))
		},
		open: func(c *raw, principal string) *http.Response {
			c.send("GET", "/", "Accept: text/event-stream\r\n"+as(principal), "")
			return c.response()
		},
	},
	"ws sessions": {
		serve: func(t *testing.T, most, each int) string {
			return serveOver(t, ws.Handler(newTarget().mcp, &ws.Options{Limits: transport.Limits{Sessions: most, SessionsPerPrincipal: each}}))
		},
		open: func(c *raw, principal string) *http.Response {
			handshake := strings.Replace(wsHandshake, "\r\n\r\n", "\r\n"+as(principal)+"\r\n", 1)
			if _, err := io.WriteString(c, handshake); err != nil {
				c.Fatal(err)
			}
			return c.response()
		},
	},
}

// A client beyond the limit is asked to retry later, and is admitted when another one has
// left. Existing clients stay.
func TestLimits(t *testing.T) {
	const most, each = 20, 5
	for name, resource := range limitedResources {
		t.Run(name, func(t *testing.T) {
			addr := resource.serve(t, most, each)
			enter := func(principal string) (*raw, *http.Response) {
				c := dialRaw(t, addr)
				t.Cleanup(func() { c.Close() })
				resp := resource.open(c, principal)
				resp.Request = &http.Request{Header: http.Header{principalHeader: {principal}}}
				return c, resp
			}
			wantRefused := func(principal string) {
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
				principal := "busy"
				if i >= each {
					principal = fmt.Sprint("another ", i/each)
				}
				c, resp := enter(principal)
				if !admitted(resp) {
					t.Fatalf("number %d of %d was answered with %s", i+1, most, resp.Status)
				}
				if i == 0 {
					first, firstResp = c, resp
				}
				if i == each && name != "streamable subscriptions" {
					wantRefused("busy")
				}
			}
			for range 3 {
				wantRefused("")
				wantRefused("other")
			}

			if resource.close != nil {
				resource.close(first, firstResp)
			} else {
				first.Close()
			}
			deadline := time.Now().Add(timeout)
			for { // until the server notices that the first client has left
				c, resp := enter("busy")
				if admitted(resp) {
					break
				}
				if c.Close(); time.Now().After(deadline) {
					t.Fatal("no client is admitted after one has left")
				}
			}
			wantRefused("")
		})
	}
}
