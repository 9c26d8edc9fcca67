package sse_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/transport"
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

// Where messages are posted: relative to the stream, and never elsewhere.
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
			r := await(t, posted, "a message")
			if r.Host != host || want != "" && r.RequestURI != want {
				t.Errorf("posted to %s on %s, want %s", r.RequestURI, r.Host, want)
			}
			if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "" {
				t.Errorf("the header is %v", r.Header)
			}
		})
	}
}

// What is no stream of this transport is told from what is not there at all.
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
		"too long an endpoint": {stream("event: endpoint\ndata: /" + strings.Repeat("x", 1000) + "\n\n"), "at most 500 bytes", false},
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
			if refused, ok := errors.AsType[*sse.StatusError](err); ok {
				if refused.Method != http.MethodGet || len(refused.Body) > 256 || len(refused.Header) != 2 || refused.Header.Get("Retry-After") != "7" {
					t.Errorf("the error is %+v", refused)
				}
			}
		})
	}
}

// A redirect is followed as long as nothing changes but the path.
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
			if refused, ok := errors.AsType[*sse.RedirectError](err); !ok || refused.Reason != tt.reason {
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
			if refused, ok := errors.AsType[*sse.RedirectError](err); !ok || refused.Reason != tt.reason {
				t.Errorf("Dial: %v, want %q", err, tt.reason)
			}
		})
	}
}

func (discard) WriteHeader(int) {}

// The program has a say in the header of each request.
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

// When its last connection has been closed, a dialer holds nothing of its server, and
// neither when it has failed to open one.
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
		for deadline := time.Now().Add(patience); count() > 0; runtime.Gosched() {
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

// All that waits for the server is bounded.
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
	bounds := func(t *testing.T, want time.Duration, do func()) {
		began := time.Now()
		do()
		if took := time.Since(began); took != want {
			t.Errorf("it took %v, want %v", took, want)
		}
	}
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
	in("Call with a deadline", func(t *testing.T) {
		conn := dial(t, sse.Dial("http://localhost", options(deaf)), silent{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		bounds(t, 5*time.Second+250*time.Millisecond, func() {
			_, err := conn.Call(ctx, "any", nil)
			failed(t, err, maybeExecuted, context.DeadlineExceeded)
		})
		closed(t, conn)
	})
}
