package soak

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// requests are all that one can send with a session's id. %s stands for the session.
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

// Whoever has the id of somebody else's session learns nothing by it: the answer is,
// to the byte, that to an id which never was.
func TestStolenSessions(t *testing.T) {
	for name, opts := range map[string]*streamable.Options{
		"random ids": nil,
		"sealed ids": {SessionKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}},
	} {
		t.Run(name, func(t *testing.T) {
			addr := serveOver(t, streamable.Handler(newTarget().mcp, opts))
			owner := dialRaw(t, addr)
			defer owner.Close()
			own := as("owner")
			header := owner.openAt("/", own)
			event := owner.firstEvent(header)
			for name, request := range requests {
				for _, thief := range []string{"thief", ""} {
					got := answerBytes(t, addr, request.method, sessionHeader(as(thief), sessionID(header))+strings.Replace(request.header, "<event>", event, 1), request.body)
					unknown := answerBytes(t, addr, request.method, sessionHeader(as(thief), otherID(sessionID(header)))+strings.Replace(request.header, "<event>", event, 1), request.body)
					if !strings.HasPrefix(got, "HTTP/1.1 404 ") || got != unknown {
						t.Errorf("%s of %q with a stolen id was answered with\n%s\nwith an unknown one with\n%s", name, thief, got, unknown)
					}
				}
			}
			resp, text := owner.answer("POST", "/", header, legacyCall(7, "echo", nonceJSON("mine still")))
			owner.echoed(resp, text, "mine still")
		})
	}
}

// The id of an event in somebody else's session is as good as none.
func TestStolenEvents(t *testing.T) {
	addr := serveOver(t, streamable.Handler(newTarget().mcp, nil))
	owner, thief := dialRaw(t, addr), dialRaw(t, addr)
	defer owner.Close()
	defer thief.Close()
	event := owner.firstEvent(owner.openAt("/", as("owner")))
	header := thief.openAt("/", as("thief"))
	for _, id := range []string{event, event + "0", strings.TrimRight(event, "0123456789") + "0"} {
		got := answerBytes(t, addr, "GET", header+"Last-Event-ID: "+id+"\r\n", "")
		unknown := answerBytes(t, addr, "GET", header+"Last-Event-ID: "+otherID(id)+"\r\n", "")
		if !strings.HasPrefix(got, "HTTP/1.1 400 ") || got != unknown {
			t.Errorf("%s was answered with\n%s\nan unknown event with\n%s", id, got, unknown)
		}
	}
}

// What is posted to a stream of somebody else's goes nowhere.
func TestStolenStreams(t *testing.T) {
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
		for _, thief := range []string{"thief", ""} {
			got, unknown := post(thief, string(id[1])), post(thief, otherID(string(id[1])))
			if !strings.HasPrefix(got, "HTTP/1.1 404 ") || got != unknown {
				t.Errorf("%s of %q with a stolen id was answered with\n%s\nwith an unknown one with\n%s", name, thief, got, unknown)
			}
		}
	}
}

func as(principal string) string { return principalHeader + ": " + principal + "\r\n" }

func sessionHeader(more, id string) string {
	return fmt.Sprintf("%s%sMcp-Session-Id: %s\r\n", jsonHeader, more, id)
}

// otherID is an id of the same form.
func otherID(id string) string {
	last := byte('A')
	if id[len(id)/2] == last {
		last = 'B'
	}
	return id[:len(id)/2] + string(last) + id[len(id)/2+1:]
}

// answerBytes sends one request and returns the whole answer but for its date.
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

// firstEvent has a session send an event and returns its id.
func (c *raw) firstEvent(header string) string {
	c.Helper()
	_, text := c.answer("POST", "/", header, legacyCall(2, "flood", `{"count":1,"size":10}`))
	id := regexp.MustCompile(`(?m)^id: (\S+)$`).FindSubmatch(text)
	if id == nil {
		c.Fatalf("no event has an id:\n%.500s", text)
	}
	return string(id[1])
}
