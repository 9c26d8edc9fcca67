package sse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	events "github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/sse"
)

func TestDialRefusesURLs(t *testing.T) {
	for _, url := range []string{"", "localhost:80", "ftp://localhost", "http://", "http:///x", "http://user:secret@local host/", "//localhost", "http://[::1", "ws://localhost/"} {
		_, err := sse.Dial(url, nil).Dial(t.Context(), silent{})
		if err == nil || !strings.HasPrefix(err.Error(), "sse: the server's URL") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Messages are posted relative to the stream and only within its origin.
func TestEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"/messages":           "/messages",
		"/messages?id=1&x=%2": "/messages?id=1&x=%2",
		"messages":            "/v1/messages",
		"?id=1":               "/v1/sse?id=1",
		"../messages":         "/messages",
		"./a/../b":            "/v1/b",
		"  /messages\t":       "/messages",
		"/messages#fragment":  "/messages",
		"{server}/messages":   "/messages",
		"{upper}/messages":    "/messages",
		"{user}/messages":     "/messages",
		"//{host}/messages":   "/messages",

		` "/messages?id=1" `:                        "/messages?id=1",
		`{"url":"/messages?id=1"}`:                  "/messages?id=1",
		`{"session":"1","uri":"{server}/messages"}`: "/messages",
		`{"endpoint":"\/messages"}`:                 "/messages",
		`{"url":"http://evil.example/"}`:            "the stream's own origin",
		`"//evil.example/messages"`:                 "the stream's own origin",
		`""`:                                        "expected a URI",

		"":                                     "expected a URI",
		"http://[":                             "expected a URI",
		"/a\x7fb":                              "expected a URI",
		"https://{host}/messages":              "the stream's own origin",
		"http://evil.example/messages":         "the stream's own origin",
		"//evil.example/messages":              "the stream's own origin",
		"http://{host}.evil.example/":          "expected a URI", // its port is no number
		"http://127.0.0.1.evil.example/":       "the stream's own origin",
		"http://{host}@evil.example/":          "the stream's own origin",
		"http://127.0.0.1:1/messages":          "the stream's own origin",
		"http:messages":                        "the stream's own origin",
		"javascript:alert(1)":                  "the stream's own origin",
		"/" + strings.Repeat("x", 8<<10):       "expected at most 8192",
		"\\\\evil.example\\messages":           "", // a path that looks odd, and nothing more
		"/\\evil.example/messages":             "",
		"/messages?redirect=//evil.example/%0": "",
	} {
		t.Run(endpoint[:min(len(endpoint), 40)], func(t *testing.T) {
			s := newScript(t)
			host := s.Listener.Addr().String()
			s.endpoint = strings.NewReplacer("{server}", s.URL, "{upper}", "HTTP://"+strings.ToUpper(host), "{user}", "http://somebody@"+host, "{host}", host).Replace(endpoint)
			posted := make(chan *http.Request, 1)
			s.post = func(_ http.ResponseWriter, r *http.Request) { posted <- r }
			conn, err := sse.Dial(s.URL+"/v1/sse", nil).Dial(t.Context(), silent{})
			if err != nil {
				if _, ok := errors.AsType[*sse.EndpointError](err); !ok || want == "" || !strings.Contains(err.Error(), want) {
					t.Errorf("Dial: %v, want %q", err, want)
				}
				return
			}
			defer closed(t, conn)
			if err := conn.Notify(t.Context(), "note", nil); err != nil {
				t.Fatal(err)
			}
			r := waittest.Receive(t, "a message", posted)
			if r.Host != host || want != "" && r.RequestURI != want {
				t.Errorf("posted to %s on %s, want %s", r.RequestURI, r.Host, want)
			}
			if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "" {
				t.Errorf("the header is %v", r.Header)
			}
		})
	}
}

// A server of lauren-mcp announces the id of the session instead of a URI.
func TestEndpointIsSession(t *testing.T) {
	for endpoint, want := range map[string]struct{ path, session, err string }{
		`{"session_id":"aZ09-_"}`:                      {path: "/v1/", session: "aZ09-_"},
		` { "sessionId" : "x" } `:                      {path: "/v1/", session: "x"},
		`{"session_id":"x","url":"/messages"}`:         {path: "/messages"},
		`{"session_id":null,"sessionId":"x"}`:          {path: "/v1/", session: "x"},
		`{"session_id":"a\nb"}`:                        {err: "visible ASCII"},
		`{"session_id":"a b"}`:                         {err: "visible ASCII"},
		`{"session_id":"é"}`:                           {err: "visible ASCII"},
		`{"session_id":"` + strings.Repeat("x", 8<<10): {err: "expected at most 8192"},
	} {
		t.Run(endpoint[:min(len(endpoint), 40)], func(t *testing.T) {
			s := newScript(t)
			s.endpoint = endpoint
			posted := make(chan *http.Request, 1)
			s.post = func(_ http.ResponseWriter, r *http.Request) { posted <- r }
			conn, err := sse.Dial(s.URL+"/v1/sse?x=1", nil).Dial(t.Context(), silent{})
			if err != nil {
				if _, ok := errors.AsType[*sse.EndpointError](err); !ok || want.err == "" || !strings.Contains(err.Error(), want.err) {
					t.Errorf("Dial: %v, want %q", err, want.err)
				}
				return
			}
			defer closed(t, conn)
			if err := conn.Notify(t.Context(), "note", nil); err != nil {
				t.Fatal(err)
			}
			r := waittest.Receive(t, "a message", posted)
			if r.RequestURI != want.path || r.Header.Get("Mcp-Session-Id") != want.session {
				t.Errorf("posted to %s in the session %q, want %v", r.RequestURI, r.Header.Get("Mcp-Session-Id"), want)
			}
		})
	}
}

// Dial distinguishes a response that is not such a stream from a server that is not
// reached.
func TestDialFails(t *testing.T) {
	stream := func(text string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, text)
		}
	}
	status := func(code int) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("X-Other", "x")
			w.WriteHeader(code)
			fmt.Fprint(w, strings.Repeat("not here\n", 1000))
		}
	}
	for name, tt := range map[string]struct {
		stream     func(w http.ResponseWriter, r *http.Request)
		want       string
		notReached bool
	}{
		"no events":            {stream(""), "EOF", false},
		"endpoint cut off":     {stream("event: endpoint\ndata: /x\n"), "EOF", false},
		"another event first":  {stream("data: {}\n\nevent: endpoint\ndata: /x\n\n"), `expected the event "endpoint" first, got ""`, false},
		"endpoint in disguise": {stream("event: Endpoint\ndata: /x\n\n"), `got "Endpoint"`, false},
		"another content type": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "event: endpoint\ndata: /x\n\n") }, "expected Content-Type text/event-stream", false},
		"404":                  {status(404), "status 404 Not Found: \"not here\\n", false},
		"405":                  {status(405), "status 405", false},
		"204":                  {status(204), "status 204", false},
		"401":                  {status(401), "status 401", true},
		"403":                  {status(403), "status 403", true},
		"429":                  {status(429), "status 429", true},
		"500":                  {status(500), "status 500", true},
		"503":                  {status(503), "status 503", true},
		"no answer":            {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", true},
		"too long an endpoint": {stream("event: endpoint\ndata: /" + strings.Repeat("x", 1000) + "\n\n"), "longer than 500 bytes", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.stream = tt.stream
			_, err := sse.Dial(s.URL, &sse.DialOptions{MaxMessage: 500}).Dial(t.Context(), silent{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "sse: ") {
				t.Errorf("Dial: %v, want %q", err, tt.want)
			}
			if isNotReached(err) != tt.notReached {
				t.Errorf("%v: not reached is %t", err, isNotReached(err))
			}
			if refused, ok := errors.AsType[*httptransport.StatusError](err); ok {
				if refused.Method != http.MethodGet || len(refused.Body) > 256 || len(refused.Header) != 2 || refused.Header.Get("Retry-After") != "7" {
					t.Errorf("the error is %+v", refused)
				}
			}
		})
	}
}

// A redirect is followed if only the path changes.
func TestRedirects(t *testing.T) {
	elsewhere := newScript(t)
	elsewhere.stream = func(http.ResponseWriter, *http.Request) { t.Error("a request went elsewhere") }
	elsewhere.post = elsewhere.stream
	for name, tt := range map[string]struct {
		to     string
		status int
		reason string // "" is followed
	}{
		"307":               {"/moved", 307, ""},
		"another origin":    {elsewhere.URL + "/moved", 307, "it leads to another origin"},
		"a POST made a GET": {"/moved", 303, "it turns a POST into a GET"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.endpoint = "/first"
			var redirecting atomic.Bool // the stream as well
			s.stream = func(w http.ResponseWriter, r *http.Request) {
				if redirecting.Load() && r.URL.Path != "/moved" {
					http.Redirect(w, r, tt.to, tt.status)
					return
				}
				s.serveStream(w, r)
			}
			s.post = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/moved" {
					s.echo(w, r)
					return
				}
				http.Redirect(w, r, tt.to, tt.status)
			}
			conn := dial(t, sse.Dial(s.URL, nil), silent{})
			resp, err := conn.Call(t.Context(), "echo", raw1)
			if tt.reason == "" {
				if err != nil || string(resp.Result) != "[1]" {
					t.Errorf("a call: %v", err)
				}
				return
			}
			failed(t, err, rejected, nil)
			if refused, ok := errors.AsType[*httptransport.RedirectError](err); !ok || refused.Reason != tt.reason {
				t.Errorf("a call: %v, want %q", err, tt.reason)
			}
			closed(t, conn)

			redirecting.Store(true)
			again, err := sse.Dial(s.URL, nil).Dial(t.Context(), silent{})
			if tt.status == 303 { // fine for a GET
				if err != nil {
					t.Errorf("Dial: %v", err)
				} else {
					closed(t, again)
				}
				return
			}
			if refused, ok := errors.AsType[*httptransport.RedirectError](err); !ok || refused.Reason != tt.reason {
				t.Errorf("Dial: %v, want %q", err, tt.reason)
			}
		})
	}
}

func (discard) WriteHeader(int) {}

// The program's Header function applies to each request.
func TestHeader(t *testing.T) {
	type key struct{}
	s := newScript(t)
	var mu sync.Mutex
	var seen []string
	note := func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprint(r.Method, r.Header["Authorization"], r.Header["Content-Type"], r.Header["Accept"]))
	}
	s.stream = func(w http.ResponseWriter, r *http.Request) { note(r); s.serveStream(w, r) }
	s.post = func(w http.ResponseWriter, r *http.Request) { note(r); s.echo(w, r) }
	broken := errors.New("no token")
	dialer := sse.Dial(s.URL, &sse.DialOptions{Header: func(ctx context.Context, header http.Header) error {
		token, _ := ctx.Value(key{}).(string)
		if token == "" {
			return broken
		}
		header.Set("Authorization", token)
		header.Set("Content-Type", "text/plain")
		return nil
	}})
	if _, err := dialer.Dial(t.Context(), silent{}); !errors.Is(err, broken) {
		t.Errorf("Dial without a token: %v", err)
	}
	conn, err := dialer.Dial(context.WithValue(t.Context(), key{}, "one"), silent{})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, conn)
	if _, err := conn.Call(context.WithValue(t.Context(), key{}, "two"), "echo", raw1); err != nil {
		t.Error(err)
	}
	_, err = conn.Call(t.Context(), "echo", raw1)
	failed(t, err, notSent, broken)
	mu.Lock()
	defer mu.Unlock()
	if got, want := fmt.Sprint(seen), "[GET[one] [text/plain] [text/event-stream] POST[two] [application/json] []]"; got != want {
		t.Errorf("seen were %s, want %s", got, want)
	}
}

// A dialer without connections, also after a failed Dial, holds no connection to its
// server.
func TestCloseLeavesNoConnection(t *testing.T) {
	s := newIdleScript()
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	s.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		if open[conn] = true; state == http.StateClosed {
			delete(open, conn)
		}
	}
	s.Start()
	defer s.Close()
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
	dialer := sse.Dial(s.URL, nil)
	first, second := dial(t, dialer, silent{}), dial(t, dialer, silent{})
	for _, conn := range []transport.Conn{first, second} {
		if err := conn.Notify(t.Context(), "any", nil); err != nil {
			t.Error(err)
		}
	}
	closed(t, first)
	if err := second.Notify(t.Context(), "any", nil); err != nil {
		t.Errorf("the other connection: %v", err)
	}
	closed(t, second)
	none := func() {
		t.Helper()
		for deadline := time.Now().Add(testTimeout); count() > 0; runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatalf("%d connections are left", count())
			}
		}
	}
	none()
	s.stream = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
	if _, err := dialer.Dial(t.Context(), silent{}); err == nil {
		t.Error("a stream was opened")
	}
	none()
}

// bounds checks how much virtual time passes while do runs.
func bounds(t *testing.T, want time.Duration, do func()) {
	t.Helper()
	began := time.Now()
	do()
	if took := time.Since(began); took != want {
		t.Errorf("it took %v, want %v", took, want)
	}
}

// Every wait for the server has a limit.
func TestTimeouts(t *testing.T) {
	silentServer := roundTripper(func(r *http.Request) (*http.Response, error) {
		return streamOf(r, io.MultiReader(strings.NewReader(": nothing to say\n\n"), untilDone{r.Context()})), nil
	})
	deaf := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return streamOf(r, io.MultiReader(strings.NewReader("event: endpoint\ndata: /\n\n"), untilDone{r.Context()})), nil
		}
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	in := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	options := func(rt roundTripper) *sse.DialOptions {
		return &sse.DialOptions{HTTPClient: &http.Client{Transport: rt}}
	}

	in("Dial", func(t *testing.T) {
		bounds(t, 30*time.Second, func() {
			if _, err := sse.Dial("http://localhost", options(silentServer)).Dial(t.Context(), silent{}); err == nil || !strings.Contains(err.Error(), "within 30s") {
				t.Errorf("Dial: %v", err)
			}
		})
	})
	in("Dial with a deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		bounds(t, time.Second, func() {
			if _, err := sse.Dial("http://localhost", options(silentServer)).Dial(ctx, silent{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Dial: %v", err)
			}
		})
	})
	in("a stream outlives the context of Dial", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		conn, err := sse.Dial("http://localhost", options(deaf)).Dial(ctx, silent{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		<-time.After(time.Hour)
		select {
		case <-conn.Done():
			t.Error("the connection has ended")
		default:
		}
		closed(t, conn)
	})
	in("Call", func(t *testing.T) {
		conn := dial(t, sse.Dial("http://localhost", options(deaf)), silent{})
		bounds(t, 60*time.Second, func() {
			_, err := conn.Call(context.Background(), "any", nil)
			failed(t, err, maybeExecuted, context.DeadlineExceeded)
		})
		closed(t, conn)
	})
	for name, wait := range map[string]time.Duration{"Call with a deadline": 5 * time.Second, "Call with a later deadline than the default": 2 * time.Minute} {
		in(name, func(t *testing.T) {
			conn := dial(t, sse.Dial("http://localhost", options(deaf)), silent{})
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			bounds(t, wait+250*time.Millisecond, func() {
				_, err := conn.Call(ctx, "any", nil)
				failed(t, err, maybeExecuted, context.DeadlineExceeded)
			})
			closed(t, conn)
		})
	}
}

// A script is a server of 2024-11-05 that a test controls.
type script struct {
	*httptest.Server
	stream   func(w http.ResponseWriter, r *http.Request) // nil: "endpoint" and then what say is given
	post     func(w http.ResponseWriter, r *http.Request) // nil: 202, and an echo of the params
	endpoint string
	say      chan string // written to the stream as it is; closing it ends the stream
}

func newScript(t testing.TB) *script {
	s := newIdleScript()
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// newIdleScript returns a script that is not started.
func newIdleScript() *script {
	s := &script{endpoint: "/messages", say: make(chan string, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && s.post != nil:
			s.post(w, r)
		case r.Method == http.MethodPost:
			s.echo(w, r)
		case s.stream != nil:
			s.stream(w, r)
		default:
			s.serveStream(w, r)
		}
	}))
	return s
}

func (s *script) serveStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", s.endpoint)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case text, ok := <-s.say:
			if !ok {
				return
			}
			fmt.Fprint(w, text)
		case <-r.Context().Done():
			return
		}
	}
}

func (s *script) echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if msg, err := jsonrpc.Decode(body); err == nil {
		if req, ok := msg.(*jsonrpc.Request); ok && !req.IsNotification() {
			s.say <- fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", req.ID, req.Params)
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// unused returns an address without a listener.
func unused(t testing.TB) string {
	l := listen(t, "127.0.0.1:0")
	defer l.Close()
	return l.Addr().String()
}

// roundTripper is a server in memory.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// streamOf is a response that is an event stream.
func streamOf(r *http.Request, body io.Reader) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: struct {
			io.Reader
			io.Closer
		}{body, io.NopCloser(nil)},
	}
}

// untilDone blocks until the request's context ends.
type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// waiting is a reader that returns nothing until an event has happened.
type waiting <-chan struct{}

func (w waiting) Read([]byte) (int, error) {
	<-w
	return 0, io.EOF
}

// Events named "message" or without a name are messages. Their data may have several
// lines.
func TestEvents(t *testing.T) {
	s := newScript(t)
	notes := make(notificationRecorder, 10)
	malformed := make(chan error, 10)
	dial(t, sse.Dial(s.URL, &sse.DialOptions{Conn: jsonrpc.Options{Malformed: func(err error) { malformed <- err }}}), notes)
	for _, text := range []string{
		": comment\n\n",
		"event: ping\ndata: {}\n\n",
		"event: message\ndata:\n\n",
		"id: 1\n\n",
		"retry: 10\n\n",
		"event: Message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"wrong\"}\n\n",
		"data: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n",
		"event: message\r\ndata: {\r\ndata:  \"jsonrpc\":\"2.0\",\r\ndata: \"method\":\"two\"}\r\n\r\n",
		"event:message\rdata:{\"jsonrpc\":\"2.0\",\rdata:\"method\":\"three\"}\r\r",
		"data: this is no message\n\n",
		"id: 9\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"four\"}\n\n",
	} {
		s.say <- text
	}
	for _, want := range []string{"one", "two", "three", "four"} {
		if got := waittest.Receive(t, want, notes); got != want {
			t.Errorf("notified of %q, want %q", got, want)
		}
	}
	if len(malformed) != 1 {
		t.Errorf("%d events were no messages, want one", len(malformed))
	}
}

// A message beyond the limit ends the connection, and calls say why.
func TestMessageTooLong(t *testing.T) {
	s := newScript(t)
	conn := dial(t, sse.Dial(s.URL, &sse.DialOptions{MaxMessage: 1000}), silent{})
	text := strings.Repeat("x", 1000-len(`{"jsonrpc":"2.0","id":1,"result":[""]}`))
	if _, err := conn.Call(t.Context(), "echo", jsonrpc.Raw(`["`+text+`"]`)); err != nil {
		t.Errorf("a message of 1000 bytes: %v", err)
	}
	_, err := conn.Call(t.Context(), "echo", jsonrpc.Raw(`["`+text+`x"]`))
	failed(t, err, maybeExecuted, errClosed)
	if _, ok := errors.AsType[*events.TooLongError](err); !ok {
		t.Errorf("a message too long: %v", err)
	}
	waittest.Receive(t, "the end of the connection", conn.Done())
	_, err = conn.Call(t.Context(), "echo", raw1)
	failed(t, err, notSent, errClosed)
}

// The end of the stream ends the session and fails its calls.
func TestStreamEnds(t *testing.T) {
	s := newScript(t)
	s.post = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		close(s.say)
	}
	conn := dial(t, sse.Dial(s.URL, nil), silent{})
	_, err := conn.Call(t.Context(), "any", nil)
	failed(t, err, maybeExecuted, errClosed)
	if !strings.Contains(err.Error(), "the server has ended the stream") {
		t.Errorf("the error is %v", err)
	}
	waittest.Receive(t, "the end of the connection", conn.Done())
}

// Wherever an exchange is cut, a call returns its answer or an error that says that it may
// have been executed.
func TestStreamCutAtEveryByte(t *testing.T) {
	const opening = "event: endpoint\ndata: /messages\n\n"
	exchange := ": hello\n\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\"result\":\"zwölf\"}\r\n\r\n"
	complete := len(exchange) - len("\n") // CR ends the line that ends the event
	for cut := range len(exchange) + 1 {
		posted := make(chan struct{})
		server := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				close(posted)
				return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody, Request: r}, nil
			}
			return streamOf(r, io.MultiReader(strings.NewReader(opening), waiting(posted), strings.NewReader(exchange[:cut]))), nil
		})
		conn := dial(t, sse.Dial("http://localhost", &sse.DialOptions{HTTPClient: &http.Client{Transport: server}}), silent{})
		resp, err := conn.Call(t.Context(), "any", nil)
		switch {
		case cut >= complete && (err != nil || string(resp.Result) != `"zwölf"`):
			t.Errorf("cut after %d bytes, when it is complete: %v", cut, err)
		case cut < complete:
			failed(t, err, maybeExecuted, errClosed)
		}
		closed(t, conn)
	}
}

// The answer to a POST says how far its message got.
func TestPostStatus(t *testing.T) {
	for _, tt := range []struct {
		status     int
		retryAfter string
		delivery   jsonrpc.Delivery
		notReached bool
	}{
		{400, "", rejected, false},
		{401, "", rejected, true},
		{403, "", rejected, true},
		{405, "", rejected, false},
		{413, "", rejected, false},
		{429, "", rejected, true},
		{500, "", maybeExecuted, true},
		{502, "", maybeExecuted, true},
		{503, "", maybeExecuted, true},
		{503, "3", rejected, true},
		{504, "", maybeExecuted, true},
		{201, "", rejected, false},
		{304, "", rejected, false},
	} {
		t.Run(fmt.Sprint(tt.status, tt.retryAfter), func(t *testing.T) {
			s := newScript(t)
			var refuses atomic.Bool
			refuses.Store(true)
			s.post = func(w http.ResponseWriter, r *http.Request) {
				if !refuses.Load() {
					s.echo(w, r)
					return
				}
				if tt.retryAfter != "" {
					w.Header().Set("Retry-After", tt.retryAfter)
				}
				w.WriteHeader(tt.status)
				if tt.status != 304 {
					fmt.Fprint(w, "because")
				}
			}
			conn := dial(t, sse.Dial(s.URL, nil), silent{})
			for range 2 {
				_, err := conn.Call(t.Context(), "any", nil)
				failed(t, err, tt.delivery, nil)
				refused, ok := errors.AsType[*httptransport.StatusError](err)
				if !ok || refused.Status != tt.status || refused.Method != http.MethodPost || isNotReached(err) != tt.notReached {
					t.Errorf("the error is %v, not reached is %t", err, isNotReached(err))
				}
				failed(t, conn.Notify(t.Context(), "any", nil), tt.delivery, nil)
			}
			refuses.Store(false)
			if _, err := conn.Call(t.Context(), "echo", raw1); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	for _, status := range []int{200, 202, 204} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := newScript(t)
			s.post = func(w http.ResponseWriter, r *http.Request) {
				s.echo(discard{w}, r)
				w.WriteHeader(status)
				if status == 200 {
					fmt.Fprint(w, `{"this":"is not looked at"}`)
				}
			}
			conn := dial(t, sse.Dial(s.URL, nil), silent{})
			if resp, err := conn.Call(t.Context(), "echo", raw1); err != nil || string(resp.Result) != "[1]" {
				t.Errorf("a call: %v", err)
			}
		})
	}
}

// discard drops the status.
type discard struct{ http.ResponseWriter }

// A server that does not know the session has not executed the call. The caller may repeat
// it in another session.
func TestSessionGone(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
	}{
		{404, ""}, {410, ""}, {400, "No transport found for sessionId"}, {422, `{"detail":"Invalid session_id"}`},
		{400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No active Session"}}`},
	} {
		s := newScript(t)
		s.post = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, test.body, test.status) }
		conn := dial(t, sse.Dial(s.URL, nil), silent{})
		_, err := conn.Call(t.Context(), "any", nil)
		failed(t, err, notSent, errClosed)
		if !errors.Is(err, transport.ErrSessionLost) || strings.Count(err.Error(), "closed") > 1 {
			t.Errorf("%d %q: the error is %v", test.status, test.body, err)
		}
		waittest.Receive(t, "the end of the connection", conn.Done())
	}
}

// A message may be refused shortly before the client notices the end of the stream.
func TestSessionEndsAfterRefusal(t *testing.T) {
	var refusing chan struct{}
	rt := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return streamOf(r, io.MultiReader(strings.NewReader("event: endpoint\ndata: /\n\n"), waiting(refusing))), nil
		}
		time.AfterFunc(50*time.Millisecond, func() { close(refusing) })
		return &http.Response{StatusCode: http.StatusBadRequest, Body: http.NoBody, Request: r}, nil
	})
	synctest.Test(t, func(t *testing.T) {
		refusing = make(chan struct{})
		conn := dial(t, sse.Dial("http://localhost", &sse.DialOptions{HTTPClient: &http.Client{Transport: rt}}), silent{})
		_, err := conn.Call(t.Context(), "any", nil)
		failed(t, err, notSent, errClosed)
		closed(t, conn)
	})
}

// Whether a message may have been executed depends on whether it was sent. Errors do not
// contain the URL.
func TestPostMeetsNetworkFailure(t *testing.T) {
	s := newScript(t)
	var refusing, losing atomic.Bool
	s.post = func(w http.ResponseWriter, r *http.Request) {
		if losing.Load() {
			_, _ = io.ReadAll(r.Body)
			panic(http.ErrAbortHandler)
		}
		s.echo(w, r)
	}
	own := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if refusing.Load() {
			address = unused(t)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	conn := dial(t, sse.Dial(s.URL, &sse.DialOptions{HTTPClient: &http.Client{Transport: own}}), silent{})

	refusing.Store(true)
	_, err := conn.Call(t.Context(), "any", nil)
	failed(t, err, notSent, nil)
	if !isNotReached(err) || strings.Contains(err.Error(), "http://") {
		t.Errorf("connection refused: %v", err)
	}
	refusing.Store(false)

	losing.Store(true)
	_, err = conn.Call(t.Context(), "any", nil)
	failed(t, err, maybeExecuted, nil)
	if !isNotReached(err) {
		t.Errorf("connection lost: %v", err)
	}
	losing.Store(false)
	if _, err := conn.Call(t.Context(), "echo", raw1); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// cancelRecorder records calls that were canceled.
type cancelRecorder struct {
	silent
	ids chan jsonrpc.ID
}

func (a cancelRecorder) NotifyCancelled(_ jsonrpc.Peer, id jsonrpc.ID, _ error) { a.ids <- id }

// A call that is canceled while its message is posted may have been received, and is
// canceled at the server too.
func TestCancelWhilePosting(t *testing.T) {
	s := newScript(t)
	posting := make(chan struct{}, 1)
	s.post = func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		posting <- struct{}{}
		<-r.Context().Done()
	}
	handler := cancelRecorder{ids: make(chan jsonrpc.ID, 1)}
	conn := dial(t, sse.Dial(s.URL, nil), handler)
	lost := errors.New("lost interest")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-posting
		cancel(lost)
	}()
	_, err := conn.Call(ctx, "any", nil)
	failed(t, err, maybeExecuted, lost)
	if id := waittest.Receive(t, "the abandoned call", handler.ids); id != jsonrpc.IntID(1) {
		t.Errorf("abandoned was %s", id)
	}
}

// Close during a POST ends everything; the call may have been executed.
func TestCloseWhilePosting(t *testing.T) {
	s := newScript(t)
	posting := make(chan struct{}, 1)
	s.post = func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		posting <- struct{}{}
		<-r.Context().Done()
	}
	conn := dial(t, sse.Dial(s.URL, nil), silent{})
	call := make(chan error, 1)
	go func() {
		_, err := conn.Call(t.Context(), "any", nil)
		call <- err
	}()
	waittest.Receive(t, "the message", posting)
	closed(t, conn)
	failed(t, waittest.Receive(t, "the call", call), maybeExecuted, errClosed)
}

// A call that is canceled before its message is sent was not sent, and the error has the
// cause.
func TestCancelBeforePosting(t *testing.T) {
	s := newScript(t)
	var opened atomic.Bool
	connecting, gone := make(chan struct{}), make(chan struct{})
	defer close(gone)
	tr := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if opened.Swap(true) {
			close(connecting)
			<-gone
			return nil, net.ErrClosed
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	conn := dial(t, sse.Dial(s.URL, &sse.DialOptions{HTTPClient: &http.Client{Transport: tr}}), silent{})
	lost := errors.New("lost interest")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-connecting
		cancel(lost)
	}()
	_, err := conn.Call(ctx, "any", nil)
	failed(t, err, notSent, lost)
}
