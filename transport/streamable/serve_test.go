package streamable_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// startServe serves s until stop is called, which returns the error of Serve.
func startServe(t *testing.T, s transport.Server, opts streamable.ServeOptions) (address string, stop func() error) {
	t.Helper()
	return start(t, opts, func(ctx context.Context, opts *streamable.ServeOptions) error {
		return streamable.Serve(ctx, "127.0.0.1:0", s, opts)
	})
}

// start runs serve until stop is called, which returns the error of serve.
func start(t *testing.T, opts streamable.ServeOptions, serve func(context.Context, *streamable.ServeOptions) error) (address string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan error, 1)
	opts.OnListen = func(at net.Addr) { listening <- at.String() }
	go func() { ended <- serve(ctx, &opts) }()
	select {
	case address = <-listening:
	case err := <-ended:
		t.Fatal(err)
	}
	return address, func() error {
		cancel()
		return <-ended
	}
}

func getText(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// A call that runs when the context ends is answered. The server's dependencies are stopped
// after it.
func TestServeFinishesCalls(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		stopped := false
		entered, finish := make(chan struct{}), make(chan struct{})
		s := server.New(mcp.Implementation{Name: "slow", Version: "1"}, &server.Options{Dependencies: []server.Dependency{
			server.Provide(func(context.Context) (string, func(context.Context) error, error) {
				return "open", func(context.Context) error { stopped = true; return nil }, nil
			}),
		}})
		server.AddTool(s, server.Tool{Name: "wait"}, func(context.Context, *server.Request, struct{}) (string, error) {
			close(entered)
			<-finish
			if stopped {
				return "", errors.New("stopped before the call has finished")
			}
			return "done", nil
		})
		address, stop := startServe(t, s, streamable.ServeOptions{})
		session, err := client.Connect(t.Context(), streamable.Dial("http://"+address+"/mcp", nil), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		answered, ended := make(chan error, 1), make(chan error, 1)
		go func() {
			text, err := client.CallAs[string](t.Context(), session, "wait", struct{}{}, nil)
			if err == nil && text != "done" {
				err = errors.New(text)
			}
			answered <- err
		}()
		waittest.Receive(t, "the entry into the handler", entered)
		go func() { ended <- stop() }()
		select {
		case err := <-ended:
			t.Errorf("Serve has returned %v before the call has finished", err)
		default:
		}
		close(finish)
		if err := waittest.Receive(t, "the answer", answered); err != nil {
			t.Errorf("the call: %v", err)
		}
		if err := waittest.Receive(t, "the end of Serve", ended); err != nil || !stopped {
			t.Errorf("Serve returns %v, stopped is %v", err, stopped)
		}
		session.Close()
	}
}

// A stoppedServer closes a channel when Shutdown returns.
type stoppedServer struct {
	*server.Server
	stopped chan struct{}
}

func (s stoppedServer) Shutdown(ctx context.Context) error {
	defer close(s.stopped)
	return s.Server.Shutdown(ctx)
}

// Calls of a session that have ended are answered, also if the server has stopped before their
// results are sent, as JSON or in a stream.
func TestServeSendsLastResults(t *testing.T) {
	const calls = 32
	for name, streamed := range map[string]bool{"JSON": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			s := stoppedServer{newServer(), make(chan struct{})}
			entered, finish := make(chan struct{}, calls), make(chan struct{})
			server.AddTool(s.Server, server.Tool{Name: "wait"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				if streamed {
					_ = r.Progress(ctx, 1, 2, "")
				}
				entered <- struct{}{}
				<-finish
				return "done", nil
			})
			var opts streamable.ServeOptions
			opts.Conn.Trace = func(_ string, sent bool, frame []byte) {
				if sent && strings.Contains(string(frame), `"done"`) {
					<-s.stopped
				}
			}
			address, stop := startServe(t, s, opts)
			session, err := client.Connect(t.Context(), streamable.Dial("http://"+address+"/mcp", nil), &client.Options{Era: client.Legacy})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			answered, ended := make(chan error, calls), make(chan error, 1)
			for range calls {
				go func() {
					_, err := session.CallTool(t.Context(), "wait", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) {}})
					answered <- err
				}()
			}
			for range calls {
				waittest.Receive(t, "the entry into the handler", entered)
			}
			go func() { ended <- stop() }()
			close(finish)
			for range calls {
				if err := waittest.Receive(t, "the answer", answered); err != nil {
					t.Errorf("a call: %v", err)
				}
			}
			if err := waittest.Receive(t, "the end of Serve", ended); err != nil {
				t.Errorf("Serve returns %v", err)
			}
		})
	}
}

// Serve returns when something else shuts the server down. A call in progress is answered.
func TestServeEndsWithShutdown(t *testing.T) {
	entered, finish := make(chan struct{}), make(chan struct{})
	s := server.New(mcp.Implementation{Name: "slow", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "wait"}, func(context.Context, *server.Request, struct{}) (string, error) {
		close(entered)
		<-finish
		return "done", nil
	})
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- streamable.Serve(t.Context(), "127.0.0.1:0", s, &streamable.ServeOptions{OnListen: func(at net.Addr) { listening <- at.String() }})
	}()
	session, err := client.Connect(t.Context(), streamable.Dial("http://"+waittest.Receive(t, "the listener", listening)+"/mcp", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := session.CallTool(t.Context(), "wait", nil, nil)
		answered <- err
	}()
	waittest.Receive(t, "the entry into the handler", entered)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	waittest.Receive(t, "the shutdown", s.Stopping())
	close(finish)
	for what, result := range map[string]chan error{"the call": answered, "Shutdown": stopped, "Serve": ended} {
		if err := waittest.Receive(t, "the result", result); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := streamable.Serve(t.Context(), "127.0.0.1:0", s, nil); err != nil {
		t.Errorf("Serve of a server that was shut down before: %v", err)
	}
}

// A context that ends at the moment of the start does not skip Drain.
func TestServeDrainsAfterTheStart(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "quick", Version: "1"}, &server.Options{Logger: quiet})
	server.AddTool(s, server.Tool{Name: "quick"}, func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
			Options: streamable.Options{Logger: quiet}, Drain: time.Hour, OnListen: func(at net.Addr) { end(); listening <- at.String() },
		})
	}()
	session, err := client.Connect(t.Context(), streamable.Dial("http://"+waittest.Receive(t, "the listener", listening)+"/mcp", nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for range 3 {
		if text, err := client.CallAs[string](t.Context(), session, "quick", nil, nil); err != nil || text != "done" {
			t.Errorf("a call while the server drains returns %q, %v", text, err)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil { // does not wait for the hour
		t.Error(err)
	}
	if err := waittest.Receive(t, "the end of Serve", ended); err != nil {
		t.Error(err)
	}
}

// The server is ready from its start to the end of the context. It then accepts calls for the time of Drain, and
// finishes calls in progress.
func TestServeDrains(t *testing.T) {
	start, finish := make(chan struct{}), make(chan struct{})
	entered := make(chan struct{})
	s := server.New(mcp.Implementation{Name: "slow", Version: "1"}, &server.Options{Logger: quiet, Dependencies: []server.Dependency{
		server.Provide(func(context.Context) (int, func(context.Context) error, error) { <-start; return 0, nil, nil }),
	}})
	server.AddTool(s, server.Tool{Name: "wait"}, func(context.Context, *server.Request, struct{}) (string, error) {
		close(entered)
		<-finish
		return "done", nil
	})
	server.AddTool(s, server.Tool{Name: "quick"}, func(context.Context, *server.Request, struct{}) (string, error) { return "done", nil })
	refuse := func(endpoint http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Key") == "" {
				http.Error(w, "no key", http.StatusUnauthorized)
				return
			}
			endpoint.ServeHTTP(w, r)
		})
	}
	ctx, end := context.WithCancel(t.Context())
	listening, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- streamable.Serve(ctx, "127.0.0.1:0", s, &streamable.ServeOptions{
			Options: streamable.Options{Logger: quiet}, Wrap: refuse, Drain: time.Hour, OnListen: func(at net.Addr) { listening <- at.String() },
		})
	}()
	address := "http://" + waittest.Receive(t, "the listener", listening)
	if status, body := getText(t, address+"/readyz"); status != http.StatusServiceUnavailable || body != "not ready\n" {
		t.Errorf("before the start: %d %q", status, body)
	}
	close(start)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for { // until Serve has noticed it
		if status, body := getText(t, address+"/readyz"); status == http.StatusOK && body == "ready\n" {
			break
		}
	}
	web := &http.Client{Transport: keyed{}}
	session, err := client.Connect(t.Context(), streamable.Dial(address+"/mcp", &streamable.DialOptions{HTTPClient: web}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := session.CallTool(t.Context(), "wait", nil, nil)
		answered <- err
	}()
	waittest.Receive(t, "the entry into the handler", entered)
	end()
	for range 3 {
		if status, body := getText(t, address+"/readyz"); status != http.StatusServiceUnavailable || body != "not ready\n" {
			t.Errorf("after the end of the context: %d %q", status, body)
		}
		if text, err := client.CallAs[string](t.Context(), session, "quick", struct{}{}, nil); err != nil || text != "done" {
			t.Errorf("a call while the server drains returns %q, %v", text, err)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }() // does not wait for the hour
	waittest.Receive(t, "the shutdown", s.Stopping())
	if status, _ := getText(t, address+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("during the shutdown: %d", status)
	}
	close(finish)
	for what, result := range map[string]chan error{"the call": answered, "Shutdown": stopped, "Serve": ended} {
		if err := waittest.Receive(t, "the result", result); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// keyed adds the key that TestServeDrains requires.
type keyed struct{}

func (keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Key", "k")
	return http.DefaultTransport.RoundTrip(r)
}

func TestServeDrainEnds(t *testing.T) {
	const drain = 50 * time.Millisecond
	address, stop := startServe(t, greeter(), streamable.ServeOptions{Options: streamable.Options{Logger: quiet}, Drain: drain, ReadyPath: "/state"})
	for status := 0; status != http.StatusOK; status, _ = getText(t, "http://"+address+"/state") {
	}
	began := time.Now()
	if err := stop(); err != nil || time.Since(began) < drain {
		t.Errorf("Serve returns %v after %v", err, time.Since(began))
	}
}

// The endpoint is at Path behind Wrap, with and without a slash at its end. Other handles all other paths, or they have
// status 404.
func TestServePaths(t *testing.T) {
	other := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "other "+r.URL.Path) })
	refuse := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no key", http.StatusUnauthorized) })
	}
	closed := errors.New("the other endpoint is closed")
	address, stop := startServe(t, greeter(), streamable.ServeOptions{
		Path: "/tools", Wrap: refuse, Other: other, OnShutdown: func() error { return closed },
	})
	if status, body := getText(t, "http://"+address+"/tools"); status != http.StatusUnauthorized || body != "no key\n" {
		t.Errorf("the endpoint answers %d %q", status, body)
	}
	if status, body := getText(t, "http://"+address+"/health"); status != http.StatusOK || body != "other /health" {
		t.Errorf("another path answers %d %q", status, body)
	}
	if err := stop(); !errors.Is(err, closed) {
		t.Errorf("Serve returns %v", err)
	}
	for path, requested := range map[string]map[string]int{
		"":       {"/mcp": http.StatusUnauthorized, "/mcp/": http.StatusUnauthorized, "/mcp/x": http.StatusNotFound, "/": http.StatusNotFound},
		"/":      {"/": http.StatusUnauthorized, "/x": http.StatusNotFound, "/readyz": http.StatusOK},
		"/a/b/":  {"/a/b": http.StatusUnauthorized, "/a/b/": http.StatusUnauthorized, "/a/b/x": http.StatusNotFound, "/a": http.StatusNotFound},
		"/tools": {"/tools": http.StatusUnauthorized, "/tools/": http.StatusUnauthorized, "/x": http.StatusNotFound},
	} {
		for _, others := range []http.Handler{nil, other} {
			address, stop := startServe(t, greeter(), streamable.ServeOptions{Options: streamable.Options{Logger: quiet}, Path: path, Wrap: refuse, Other: others})
			for url, want := range requested {
				if want == http.StatusNotFound && others != nil {
					want = http.StatusOK
				}
				if status, body := getText(t, "http://"+address+url); status != want {
					t.Errorf("Path %q, Other %t: %s answers %d %q, want %d", path, others != nil, url, status, body, want)
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestServeTLS(t *testing.T) {
	issued := httptest.NewUnstartedServer(nil) // for its certificate
	issued.StartTLS()
	defer issued.Close()
	config := &tls.Config{Certificates: issued.TLS.Certificates}
	address, stop := start(t, streamable.ServeOptions{}, func(ctx context.Context, opts *streamable.ServeOptions) error {
		return streamable.ServeTLS(ctx, "127.0.0.1:0", greeter(), config, opts)
	})
	roots := x509.NewCertPool()
	roots.AddCert(issued.Certificate())
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer web.CloseIdleConnections()
	session, err := client.Connect(t.Context(), streamable.Dial("https://"+address+"/mcp", &streamable.DialOptions{HTTPClient: web}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := client.CallAs[string](t.Context(), session, "greet", struct{}{}, nil); err != nil || text != "hello" {
		t.Errorf("the tool returned %q, %v", text, err)
	}
	session.Close()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Serve fails if the address is in use, and if the server does not start.
func TestServeFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := streamable.Serve(t.Context(), taken.Addr().String(), greeter(), nil); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("at an address in use the error is %v", err)
	}
	cause := errors.New("no database")
	broken := server.New(mcp.Implementation{Name: "broken", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler), Dependencies: []server.Dependency{
		server.Provide(func(context.Context) (int, func(context.Context) error, error) { return 0, nil, cause }),
	}})
	if err := streamable.Serve(t.Context(), "127.0.0.1:0", broken, nil); !errors.Is(err, cause) {
		t.Errorf("the error is %v", err)
	}
	unprotected := &streamable.ServeOptions{
		Wrap:     func(http.Handler) http.Handler { return nil },
		OnListen: func(net.Addr) { t.Error("a server listens without the handler of Wrap") },
	}
	if err := streamable.Serve(t.Context(), "127.0.0.1:0", greeter(), unprotected); err == nil || !strings.Contains(err.Error(), "Wrap has returned no handler") {
		t.Errorf("without a handler of Wrap the error is %v", err)
	}
}

func greeter() *server.Server {
	s := server.New(mcp.Implementation{Name: "greeter", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "greet"}, func(context.Context, *server.Request, struct{}) (string, error) { return "hello", nil })
	return s
}

// A program serves until its context ends. Run does so until the process is interrupted.
func ExampleServe() {
	ctx, stop := context.WithCancel(context.Background())
	err := streamable.Serve(ctx, "127.0.0.1:0", greeter(), &streamable.ServeOptions{OnListen: func(address net.Addr) {
		go func() { // a client in the same program
			defer stop()
			session, err := client.Connect(ctx, streamable.Dial("http://"+address.String()+"/mcp", nil), nil)
			if err != nil {
				log.Print(err)
				return
			}
			defer session.Close()
			greeting, err := client.CallAs[string](ctx, session, "greet", struct{}{}, nil)
			fmt.Println(greeting, err)
		}()
	}})
	fmt.Println(err)
	// Output:
	// hello <nil>
	// <nil>
}

// A server with a store that ends refuses connections, and answers each request of a connection that it has accepted.
func TestServeEndsBetweenRequests(t *testing.T) {
	for name, keepAlive := range map[string]bool{"a connection for each request": false, "connections that are kept": true} {
		t.Run(name, func(t *testing.T) {
			shared, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer shared.Close()
			answered := 0
			for range 2 {
				s := server.New(mcp.Implementation{Name: "pings", Version: "1"}, &server.Options{Logger: quiet, Store: shared})
				// A request that takes longer than Drain to arrive is lost, so it is long for a busy machine.
				address, stop := startServe(t, s, streamable.ServeOptions{Options: streamable.Options{Logger: quiet}, Drain: 150 * time.Millisecond})
				var clients sync.WaitGroup
				var mu sync.Mutex
				for range 8 {
					clients.Go(func() {
						web := &http.Client{Transport: &http.Transport{DisableKeepAlives: !keepAlive}}
						defer web.CloseIdleConnections()
						for {
							status, err := discover(t.Context(), web, "http://"+address+"/mcp")
							if errors.Is(err, syscall.ECONNREFUSED) {
								return
							}
							if err != nil || status != http.StatusOK {
								t.Errorf("got status %d, %v", status, err)
								return
							}
							mu.Lock()
							answered++
							mu.Unlock()
						}
					})
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				clients.Wait()
			}
			if answered == 0 {
				t.Error("no request was made")
			}
		})
	}
}

// discover makes a request of a client without a session.
func discover(ctx context.Context, web *http.Client, url string) (status int, err error) {
	const body = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover",
	} {
		req.Header.Set(name, value)
	}
	res, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
