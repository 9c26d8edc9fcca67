package server_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// postEvent sends a request about an event over HTTP.
func postEvent(t *testing.T, url, method, accept, members string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	body := `{"jsonrpc":"2.0","id":"a","method":"` + method + `","params":{` + members +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": accept, "Mcp-Method": method, "Mcp-Protocol-Version": "2026-07-28",
	} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// Over HTTP, a stream of events is an event stream; a subscription that is refused is not.
func TestEventsOverHTTP(t *testing.T) {
	s := newServer(nil)
	topic := addIncidents(s)
	endpoint := streamable.Handler(s, nil)
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Shutdown(context.Background())
		endpoint.Close()
		web.Close()
	})
	const both = "application/json, text/event-stream"

	res := postEvent(t, web.URL, "events/stream", both, streamNow)
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		t.Errorf("a stream has the type %s", kind)
	}
	lines := bufio.NewScanner(res.Body)
	data := func() string {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok && text != "" {
				return text
			}
		}
		return ""
	}
	if first := data(); !strings.Contains(first, `"notifications/events/active"`) || !strings.Contains(first, `"io.modelcontextprotocol/subscriptionId":"a"`) {
		t.Errorf("the stream begins with %s", first)
	}
	publish(t, topic, incident{ID: "x"}, &server.PublishOptions{ID: "evt_1"})
	if second := data(); !strings.Contains(second, `"eventId":"evt_1"`) || !strings.Contains(second, `"io.modelcontextprotocol/subscriptionId":"a"`) {
		t.Errorf("the stream continues with %s", second)
	}

	for _, test := range []struct {
		method, accept, members string
		status                  int
		want                    string
	}{
		{"events/stream", both, `"name":"nothing"`, 200, `"code":-32023`},
		{"events/stream", both, `"name":"incident.created","arguments":{"severity":"P9"}`, 200, `"code":-32602`},
		{"events/stream", "application/json", streamNow, 406, `"error"`},
		{"events/poll", both, `"name":"incident.created"`, 200, `"events":[],"cursor":"`},
		{"events/list", both, `"cursor":null`, 200, `"resultType":"complete"`},
		{"events/nothing", both, `"name":"incident.created"`, 404, `"code":-32601`},
	} {
		res := postEvent(t, web.URL, test.method, test.accept, test.members)
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != test.status || !strings.Contains(string(body), test.want) || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s with %s: %s, %s: %s, %v", test.method, test.members, res.Status, res.Header.Get("Content-Type"), body, err)
		}
	}
}
