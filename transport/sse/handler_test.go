package sse_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	events "github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// The bytes on the wire follow the specification.
func TestWire(t *testing.T) {
	url, _ := serve(t, transporttest.Server(), &sse.Options{Logger: slog.New(slog.DiscardHandler)})
	c := get(t, url+"/sse?token=1", nil)
	for name, want := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform"} {
		if got := c.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(c.post, url+"/sse?sessionId=") || strings.Contains(c.post, "token") {
		t.Errorf("messages are to be posted to %s", c.post)
	}
	resp := post(t, c.post, message(1, "echo"), nil)
	if body := bodyOf(t, resp); resp.StatusCode != http.StatusAccepted || body != "" {
		t.Errorf("a message is answered with %d and %q", resp.StatusCode, body)
	}
	if e := c.next(); e.Name != "message" || string(e.Data) != `{"jsonrpc":"2.0","id":1,"result":{}}` || e.ID != "" {
		t.Errorf("the event is %+v", e)
	}
	c.send(`{"jsonrpc":"2.0","method":"note","params":[1]}`)
	c.send(message(2, "seen"))
	if e := c.next(); string(e.Data) != `{"jsonrpc":"2.0","id":2,"result":[[1]]}` {
		t.Errorf("the event is %q", e.Data)
	}
	c.send("this is no JSON")
	if e := c.next(); !bytes.Contains(e.Data, []byte("-32700")) {
		t.Errorf("the event is %q", e.Data)
	}
}

// A message is one line of data, whatever line ends the server's handler writes.
func TestMessagesAreOneLine(t *testing.T) {
	url, _ := serve(t, binder{handlerFunc(func(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
		return reply.Write(jsonrpc.Raw("{\n\"a\":\r\n1,\r\"b\":\"\\n\u2028\"}"))
	})}, nil)
	c := get(t, url, nil)
	c.send(message(1, "any"))
	if e, want := c.next(), `{"jsonrpc":"2.0","id":1,"result":{ "a":  1, "b":"\n`+"\u2028"+`"}}`; string(e.Data) != want {
		t.Errorf("the data are %q, want %q", e.Data, want)
	}
}

// The endpoint names itself by the path that the client sees.
func TestMessagesPath(t *testing.T) {
	for name, tt := range map[string]struct {
		messages string
		mount    func(*http.ServeMux, http.Handler)
		stream   string
		want     string
	}{
		"the stream's own":     {"", func(m *http.ServeMux, h http.Handler) { m.Handle("/sse", h) }, "/sse", "/sse"},
		"of a prefix stripped": {"", func(m *http.ServeMux, h http.Handler) { m.Handle("/v1/", http.StripPrefix("/v1", h)) }, "/v1/s%2Fe%C3%A9", "/v1/s%2Fe%C3%A9"},
		"another":              {"/messages", func(m *http.ServeMux, h http.Handler) { m.Handle("/sse", h); m.Handle("/messages", h) }, "/sse", "/messages"},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := sse.Handler(transporttest.Server(), &sse.Options{Messages: tt.messages})
			mux := http.NewServeMux()
			tt.mount(mux, endpoint)
			s := httptest.NewServer(mux)
			defer s.Close()
			defer endpoint.Close()
			c := get(t, s.URL+tt.stream, nil)
			if path, _, _ := strings.Cut(strings.TrimPrefix(c.post, s.URL), "?"); path != tt.want {
				t.Errorf("the path is %s, want %s", path, tt.want)
			}
			c.send(message(1, "echo"))
			c.next()
		})
	}
}

// A client that knows only the event of lauren-mcp reads the id of the session, and sends it in a header to the
// directory of the stream. It takes an event that is not JSON as the id.
func TestSessionInHeader(t *testing.T) {
	for name, announced := range map[string]bool{"announced": true, "in a URI": false} {
		t.Run(name, func(t *testing.T) {
			endpoint := sse.Handler(transporttest.Server(), &sse.Options{SessionHeader: announced})
			mux := http.NewServeMux()
			mux.Handle("/mcp/", endpoint)
			s := httptest.NewServer(mux)
			defer s.Close()
			defer endpoint.Close()
			stream := request(t, http.MethodGet, s.URL+"/mcp/sse", "", nil)
			c := &raw{TB: t, Response: stream, events: events.NewReader(stream.Body, 1<<20)}
			first := c.next()
			var said struct {
				ID string `json:"session_id"`
			}
			if err := json.Unmarshal(first.Data, &said); (err == nil) != announced {
				t.Fatalf("the endpoint is %s", first.Data)
			}
			id := cmp.Or(said.ID, string(first.Data))
			for sent, status := range map[string]int{
				id: http.StatusAccepted, "": http.StatusNotFound, id + "x": http.StatusNotFound, "/elsewhere?sessionId=x": http.StatusNotFound,
			} {
				resp := post(t, s.URL+"/mcp/", message(1, "echo"), func(r *http.Request) { r.Header.Set("Mcp-Session-Id", sent) })
				if resp.StatusCode != status {
					t.Errorf("in the session %q the status is %d, want %d", sent, resp.StatusCode, status)
				}
			}
			if e, want := c.next(), `{"jsonrpc":"2.0","id":1,"result":{}}`; string(e.Data) != want {
				t.Errorf("the data are %s, want %s", e.Data, want)
			}
		})
	}
}

// No path makes the endpoint name another host.
func TestMessagesPathWithSlashes(t *testing.T) {
	url, _ := serve(t, transporttest.Server(), nil)
	c := get(t, url, func(r *http.Request) { r.URL.Opaque = url + "//evil.example/sse" })
	if !strings.HasPrefix(c.post, url+"/evil.example/sse?") {
		t.Errorf("messages are to be posted to %s", c.post)
	}
}

func TestHandlerRefusesOptions(t *testing.T) {
	for field, opts := range map[string]*sse.Options{
		"Hosts":    {Hosts: []string{"*"}},
		"Origins":  {Origins: []string{"example.com"}},
		"Messages": {Messages: "messages"},
	} {
		refusedOptions(t, field, opts)
	}
	refusedOptions(t, "Messages", &sse.Options{Messages: "/messages", SessionHeader: true})
	for _, path := range []string{"//evil.example/", "https://evil.example/messages", "/messages?x=1", "/messages#x", "/a b", "/a\n", "?", "/%zz"} {
		refusedOptions(t, "Messages", &sse.Options{Messages: path})
	}
}

func refusedOptions(t *testing.T, field string, opts *sse.Options) {
	t.Helper()
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "sse: Options."+field+": ") {
			t.Errorf("%+v: the panic is %q", opts, p)
		}
	}()
	sse.Handler(transporttest.Server(), opts)
}

// A session of another client is unknown.
func TestSessionsOfOthers(t *testing.T) {
	endpoint := sse.Handler(transporttest.Server(), nil)
	s := httptest.NewServer(authenticated(endpoint))
	defer s.Close()
	defer endpoint.Close()

	alice := get(t, s.URL, as("alice"))
	nobody := get(t, s.URL, nil)
	ended := get(t, s.URL, as("alice"))
	endedURL := ended.post
	ended.Body.Close()
	awaitStatus(t, http.StatusNotFound, func() *http.Response { return post(t, endedURL, message(1, "echo"), as("alice")) })

	unknown, _, _ := strings.Cut(alice.post, "?")
	var bodies []string
	for name, attempt := range map[string]struct{ url, user string }{
		"no id":                {unknown, "alice"},
		"empty id":             {unknown + "?sessionId=", "alice"},
		"unknown id":           {unknown + "?sessionId=ABCDEFGHIJKLMNOPQRSTUVWXYZ", "alice"},
		"ended":                {endedURL, "alice"},
		"another's":            {alice.post, "mallory"},
		"another's, nameless":  {alice.post, ""},
		"a nameless one's":     {nobody.post, "mallory"},
		"malformed query":      {unknown + "?sessionId=%zz;a=b", "alice"},
		"id in another letter": {strings.ToLower(alice.post), "alice"},
	} {
		resp := post(t, attempt.url, message(1, "echo"), as(attempt.user))
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: the status is %d", name, resp.StatusCode)
		}
		resp.Header.Del("Date")
		bodies = append(bodies, fmt.Sprint(resp.Header, bodyOf(t, resp)))
	}
	for _, body := range bodies {
		if body != bodies[0] {
			t.Errorf("refusals differ:\n%s\n%s", bodies[0], body)
		}
	}
	if resp := post(t, alice.post, message(7, "echo"), as("alice")); resp.StatusCode != http.StatusAccepted {
		t.Errorf("her own: the status is %d", resp.StatusCode)
	}
	if e := alice.next(); !bytes.Contains(e.Data, []byte(`"id":7`)) {
		t.Errorf("her own: the event is %s", e.Data)
	}
}

// awaitStatus repeats a request until it has a status.
func awaitStatus(t *testing.T, status int, request func() *http.Response) {
	t.Helper()
	deadline := time.Now().Add(testTimeout)
	for {
		resp := request()
		if resp.StatusCode == status {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the status is %d, want %d", resp.StatusCode, status)
		}
	}
}

func TestSessionIDsAreRandom(t *testing.T) {
	url, _ := serve(t, transporttest.Server(), nil)
	seen := map[string]bool{}
	for range 100 {
		c := get(t, url, nil)
		_, id, _ := strings.Cut(c.post, "sessionId=")
		if len(id) < 26 || seen[id] { // 5 bits a character
			t.Errorf("the id %q has been there, or is short", id)
		}
		seen[id] = true
		c.Body.Close()
	}
}

// The link has the principal that opened the stream.
func TestPrincipal(t *testing.T) {
	links := make(linkBinder, 1)
	endpoint := sse.Handler(links, nil)
	s := httptest.NewServer(authenticated(endpoint))
	defer s.Close()
	defer endpoint.Close()
	c := get(t, s.URL, as("alice"))
	link := waittest.Receive(t, "a link", links)
	if link.Principal != "alice" || link.Shared || link.Peer == nil {
		t.Errorf("the link is %+v", link)
	}
	c.Body.Close()
	waittest.Receive(t, "the end of the link's input", link.Input.Done())
}

type linkBinder chan transport.Link

func (b linkBinder) Bind(link transport.Link) jsonrpc.Handler {
	b <- link
	return silent{}
}

// A refused body does not affect the session.
func TestBodies(t *testing.T) {
	url, _ := serve(t, transporttest.Server(), &sse.Options{Limits: transport.Limits{MessageBytes: 100}})
	c := get(t, url, nil)
	fits := `{"jsonrpc":"2.0","id":1,"method":"echo","params":{}`
	fits += strings.Repeat(" ", 99-len(fits)) + "}"
	for name, tt := range map[string]struct {
		body   string
		change func(*http.Request)
		status int
	}{
		"fits":              {fits, nil, http.StatusAccepted},
		"too long":          {fits + " ", nil, http.StatusRequestEntityTooLarge},
		"too long, chunked": {fits + " ", func(r *http.Request) { r.ContentLength = -1 }, http.StatusRequestEntityTooLarge},
		"claims too much":   {fits, func(r *http.Request) { r.ContentLength = 1 << 40; r.Body = io.NopCloser(strings.NewReader(fits)) }, http.StatusRequestEntityTooLarge},
		"another type":      {fits, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		"encoded":           {fits, func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, http.StatusUnsupportedMediaType},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "claims too much" {
				sendLength(t, c.post, tt.status)
				return
			}
			if resp := post(t, c.post, tt.body, tt.change); resp.StatusCode != tt.status {
				t.Errorf("the status is %d, want %d", resp.StatusCode, tt.status)
			}
			if tt.status == http.StatusAccepted {
				c.next()
			}
		})
	}
	c.send(message(2, "echo"))
	if e := c.next(); !bytes.Contains(e.Data, []byte(`"id":2`)) {
		t.Errorf("the event is %s", e.Data)
	}
}

// sendLength sends a Content-Length without a body.
func sendLength(t *testing.T, url string, status int) {
	t.Helper()
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn := connect(t, host)
	fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000000000000\r\n\r\n", path, host)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if !strings.Contains(line, fmt.Sprint(status)) {
		t.Errorf("the answer begins %q (%v)", line, err)
	}
}

func connect(t testing.TB, address string) net.Conn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	return conn
}

// Every route checks Host and Origin.
func TestHostAndOrigin(t *testing.T) {
	endpoint := sse.Handler(transporttest.Server(), &sse.Options{Messages: "/messages", Hosts: []string{"mcp.example.com"}, Origins: []string{"https://app.example.com"}})
	mux := http.NewServeMux()
	mux.Handle("/sse", endpoint)
	mux.Handle("/messages", endpoint)
	s := httptest.NewServer(mux)
	defer s.Close()
	defer endpoint.Close()
	c := get(t, s.URL+"/sse", nil)
	routes := []struct{ method, url string }{
		{http.MethodGet, s.URL + "/sse"},
		{http.MethodGet, s.URL + "/messages"},
		{http.MethodPost, c.post},
		{http.MethodPost, strings.Replace(c.post, "/messages", "/sse", 1)},
	}
	for _, tt := range []struct {
		host, origin string
		admitted     bool
	}{
		{"", "", true},
		{"localhost:1234", "", true},
		{"mcp.example.com", "https://app.example.com", true},
		{"", "http://localhost:3000", true},
		{"evil.example.com", "", false},
		{"127.0.0.1.example.com", "", false},
		{"", "https://evil.example.com", false},
		{"", "null", false},
		{"mcp.example.com", "https://mcp.example.com", false},
	} {
		for _, route := range routes {
			resp := request(t, route.method, route.url, message(1, "echo"), func(r *http.Request) {
				r.Header.Set("Content-Type", "application/json")
				if tt.host != "" {
					r.Host = tt.host
				}
				if tt.origin != "" {
					r.Header.Set("Origin", tt.origin)
				}
			})
			if admitted := resp.StatusCode < 300; admitted != tt.admitted || !admitted && resp.StatusCode != http.StatusForbidden {
				t.Errorf("host %q, origin %q, %s %s: the status is %d", tt.host, tt.origin, route.method, route.url, resp.StatusCode)
			}
			if got := resp.Header.Get("Access-Control-Allow-Origin"); (got != "") != (tt.origin == "https://app.example.com") {
				t.Errorf("origin %q, %s %s: allowed is %q", tt.origin, route.method, route.url, got)
			}
			resp.Body.Close()
		}
	}
	for _, method := range []string{http.MethodDelete, http.MethodPut, http.MethodHead, http.MethodOptions} {
		for _, route := range routes {
			resp := request(t, method, route.url, "", nil)
			if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, POST" {
				t.Errorf("%s %s: %d, Allow: %s", method, route.url, resp.StatusCode, resp.Header.Get("Allow"))
			}
		}
	}
}

// The number of sessions is limited. Ending one admits another.
func TestLimitSessions(t *testing.T) {
	url, _ := serve(t, transporttest.Server(), &sse.Options{Limits: transport.Limits{Sessions: 2}})
	first, second := get(t, url, nil), get(t, url, nil)
	refused := get(t, url, nil)
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: the status is %d", refused.StatusCode)
	}
	first.Body.Close()
	awaitStatus(t, http.StatusOK, func() *http.Response { return get(t, url, nil).Response })
	second.send(message(1, "echo"))
	second.next()
}

func TestLimitSessionsPerPrincipal(t *testing.T) {
	endpoint := sse.Handler(transporttest.Server(), &sse.Options{Limits: transport.Limits{SessionsPerPrincipal: 1}})
	s := httptest.NewServer(authenticated(endpoint))
	defer s.Close()
	defer endpoint.Close()
	first := get(t, s.URL, as("alice"))
	for _, tt := range []struct {
		user   string
		status int
	}{{"alice", 503}, {"bob", 200}, {"bob", 503}, {"", 200}, {"", 200}} {
		if got := get(t, s.URL, as(tt.user)).StatusCode; got != tt.status {
			t.Errorf("%q: the status is %d, want %d", tt.user, got, tt.status)
		}
	}
	first.Body.Close()
	awaitStatus(t, http.StatusOK, func() *http.Response { return get(t, s.URL, as("alice")).Response })
}

func (blocking) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return errors.New("nothing is called here")
}

// The end of the stream ends the calls of its session.
func TestStreamEndsCalls(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	url, _ := serve(t, binder{handlerFunc(func(ctx context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return nil
	})}, nil)
	c := get(t, url, nil)
	c.send(message(1, "any"))
	waittest.Receive(t, "the call", began)
	c.Body.Close()
	if err := waittest.Receive(t, "the end of the call", ended); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("the call ended with %v", err)
	}
}

// Comments are sent on a silent stream and do not delay messages.
func TestKeepAlive(t *testing.T) {
	url, _ := serve(t, transporttest.Server(), &sse.Options{KeepAlive: 20 * time.Millisecond})
	conn := connect(t, strings.TrimPrefix(url, "http://"))
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	lines := bufio.NewReader(conn)
	for comments := 0; comments < 3; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("after %d comments: %v", comments, err)
		}
		if line == ":\n" {
			comments++
		}
	}
}

// A client that reads nothing loses its session. Other sessions are not affected.
func TestLimitWriteTimeout(t *testing.T) {
	links := make(linkBinder, 2)
	url, _ := serve(t, binderFunc(func(link transport.Link) jsonrpc.Handler {
		links.Bind(link)
		return transporttest.Server().Bind(link)
	}), &sse.Options{Limits: transport.Limits{WriteTimeout: 100 * time.Millisecond}})
	slow := connect(t, strings.TrimPrefix(url, "http://"))
	fmt.Fprint(slow, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	stuck := waittest.Receive(t, "the slow one's link", links)
	conn := dial(t, sse.Dial(url, nil), silent{})
	waittest.Receive(t, "the other's link", links)

	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		params := jsonrpc.Raw(`["` + strings.Repeat("x", 1<<16) + `"]`)
		for stuck.Peer.Notify(context.Background(), "note", params) == nil {
		}
	}()
	for cut := false; !cut; {
		select {
		case <-stuck.Input.Done():
			cut = true
		case <-t.Context().Done():
			t.Fatal("the slow one is not cut")
		default:
		}
		if _, err := conn.Call(t.Context(), "echo", raw1); err != nil {
			t.Fatal(err)
		}
	}
	waittest.Receive(t, "the end of the flood", flooded)
}

type binderFunc func(transport.Link) jsonrpc.Handler

func (f binderFunc) Bind(link transport.Link) jsonrpc.Handler { return f(link) }

// Close ends sessions and their calls, sends queued messages and refuses new sessions.
func TestClose(t *testing.T) {
	began := make(chan jsonrpc.Peer)
	url, endpoint := serve(t, binder{handlerFunc(func(ctx context.Context, from jsonrpc.Peer, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
		began <- from
		<-ctx.Done()
		return from.Notify(context.Background(), "late", nil)
	})}, nil)
	c := get(t, url, nil)
	c.send(message(1, "any"))
	peer := waittest.Receive(t, "the call", began)
	const said = 100
	for range said {
		if err := peer.Notify(t.Context(), "early", nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := endpoint.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for range said {
		if e := c.next(); !bytes.Contains(e.Data, []byte("early")) {
			t.Errorf("the event is %s", e.Data)
		}
	}
	if e, err := c.events.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %q and %v", e.Data, err)
	}
	if resp := post(t, c.post, message(2, "echo"), nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a message: the status is %d", resp.StatusCode)
	}
	if resp := get(t, url, nil); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a stream: the status is %d", resp.StatusCode)
	}
	if err := endpoint.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

// Messages queued before Close are sent.
func TestCloseSendsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 { // there is some chance in what the sender sees first
			links := make(linkBinder, 1)
			endpoint := sse.Handler(links, nil)
			w := &memory{header: http.Header{}, lines: make(chan string)}
			streamed, ended := make(chan struct{}), make(chan error)
			go func() {
				defer close(streamed)
				endpoint.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/sse", nil))
			}()
			peer := (<-links).Peer
			<-w.lines // the endpoint
			for _, method := range []string{"one", "two"} {
				if err := peer.Notify(t.Context(), method, nil); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			}
			go func() { ended <- endpoint.Close() }()
			synctest.Wait()
			for _, method := range []string{"one", "two"} {
				select {
				case line := <-w.lines:
					if !strings.Contains(line, method) {
						t.Errorf("sent was %q, want %q", line, method)
					}
				case <-streamed:
					t.Fatalf("%q was lost", method)
				}
			}
			<-streamed
			if err := <-ended; err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
}

// Close returns although a client reads nothing and a handler does not end.
func TestCloseIsBounded(t *testing.T) {
	links, release, began := make(linkBinder, 1), make(chan struct{}), make(chan struct{})
	url, endpoint := serve(t, binderFunc(func(link transport.Link) jsonrpc.Handler {
		links.Bind(link)
		return handlerFunc(func(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
			close(began)
			<-release
			return nil
		})
	}), &sse.Options{Limits: transport.Limits{WriteTimeout: time.Hour}, Conn: jsonrpc.Options{Grace: 10 * time.Millisecond}})
	defer close(release)
	slow := connect(t, strings.TrimPrefix(url, "http://"))
	fmt.Fprint(slow, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r := bufio.NewReader(slow)
	var line string
	for !strings.HasPrefix(line, "data: ") {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	post(t, resolved(t, url, strings.TrimSpace(strings.TrimPrefix(line, "data: "))), message(1, "any"), nil)
	waittest.Receive(t, "the call", began)
	link := waittest.Receive(t, "the link", links)
	full, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	params := jsonrpc.Raw(`["` + strings.Repeat("x", 1<<20) + `"]`)
	for link.Peer.Notify(full, "note", params) == nil {
	}
	waittest.Return(t, "Close", func() {
		if err := endpoint.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// A session that does not read its messages accepts a few and then none.
func TestPostWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		endpoint := sse.Handler(binder{blocking{release}}, &sse.Options{Logger: slog.New(slog.DiscardHandler)})
		w := &memory{header: http.Header{}, lines: make(chan string, 10)}
		ctx, leave := context.WithCancel(t.Context())
		streamed := make(chan struct{})
		go func() {
			defer close(streamed)
			endpoint.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/sse", nil))
		}()
		first := <-w.lines
		_, target, _ := strings.Cut(strings.TrimSpace(first), "data: ")
		note := `{"jsonrpc":"2.0","method":"note"}`
		deliver := func() (int, time.Duration) {
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+target, strings.NewReader(note))
			req.Header.Set("Content-Type", "application/json")
			recorder, began := httptest.NewRecorder(), time.Now()
			endpoint.ServeHTTP(recorder, req)
			return recorder.Code, time.Since(began)
		}
		taken := 0
		for {
			synctest.Wait()
			status, took := deliver()
			if status == http.StatusAccepted && taken < 100 {
				taken++
				continue
			}
			if status != http.StatusServiceUnavailable || took != 10*time.Second {
				t.Errorf("one more was answered with %d after %v", status, took)
			}
			break
		}
		if taken != 1 { // the message that blocks; no other message is queued
			t.Errorf("%d messages were taken", taken)
		}
		time.AfterFunc(time.Second, func() { close(release) })
		if status, took := deliver(); status != http.StatusAccepted || took != time.Second {
			t.Errorf("after a while: %d after %v", status, took)
		}
		leave()
		<-streamed
	})
}

// blocking is a handler that blocks the read loop.
type blocking struct{ release <-chan struct{} }

func (b blocking) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) { <-b.release }

// memory is a response writer in memory.
type memory struct {
	header http.Header
	lines  chan string
}

func (m *memory) Header() http.Header { return m.header }

func (m *memory) WriteHeader(int) {}

func (m *memory) Flush() {}

func (m *memory) Write(p []byte) (int, error) {
	m.lines <- string(p)
	return len(p), nil
}

const (
	notSent       = jsonrpc.NotSent
	maybeExecuted = jsonrpc.MaybeExecuted
	rejected      = jsonrpc.Rejected
)

var (
	errClosed = jsonrpc.ErrClosed
	raw1      = jsonrpc.Raw(`[1]`)
)

// failed checks that an error is a CallError with that delivery and reason.
func failed(t testing.TB, err error, delivery jsonrpc.Delivery, reason error) {
	t.Helper()
	failure, ok := errors.AsType[*jsonrpc.CallError](err)
	switch {
	case !ok:
		t.Errorf("the error is %v (%T), want a *jsonrpc.CallError", err, err)
	case failure.Delivery != delivery || reason != nil && !errors.Is(err, reason):
		t.Errorf("the error is %v, want %v and %q", err, reason, delivery)
	}
}

func isNotReached(err error) bool { return errors.Is(err, transport.ErrNotReached) }

func listen(t testing.TB, address string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
