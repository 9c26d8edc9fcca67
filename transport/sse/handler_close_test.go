package sse_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/sse"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// When the stream ends, so do the calls of its session.
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
	await(t, began, "the call")
	c.Body.Close()
	if err := await(t, ended, "the end of the call"); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("the call ended with %v", err)
	}
}

// Silence is broken by comments, and messages do not wait for them.
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

// A client that takes nothing loses its session; others notice nothing.
func TestSlowReader(t *testing.T) {
	links := make(linkBinder, 2)
	url, _ := serve(t, binderFunc(func(link transport.Link) jsonrpc.Handler {
		links.Bind(link)
		return transporttest.Server().Bind(link)
	}), &sse.Options{WriteTimeout: 100 * time.Millisecond})
	slow := connect(t, strings.TrimPrefix(url, "http://"))
	fmt.Fprint(slow, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	stuck := await(t, links, "the slow one's link")
	conn := dial(t, sse.Dial(url, nil), silent{})
	await(t, links, "the other's link")

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
	await(t, flooded, "the end of the flood")
}

type binderFunc func(transport.Link) jsonrpc.Handler

func (f binderFunc) Bind(link transport.Link) jsonrpc.Handler { return f(link) }

// Close ends sessions and the calls in them, lets out what was said before, and
// nothing begins afterwards.
func TestClose(t *testing.T) {
	began := make(chan jsonrpc.Peer)
	url, endpoint := serve(t, binder{handlerFunc(func(ctx context.Context, from jsonrpc.Peer, _ *jsonrpc.Request, _ *jsonrpc.Reply) error {
		began <- from
		<-ctx.Done()
		return from.Notify(context.Background(), "late", nil)
	})}, nil)
	c := get(t, url, nil)
	c.send(message(1, "any"))
	peer := await(t, began, "the call")
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

// What was said before Close is sent, even if it has waited until then.
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

// Close is bounded though a client takes nothing and a handler does not end.
func TestCloseIsBounded(t *testing.T) {
	links, release, began := make(linkBinder, 1), make(chan struct{}), make(chan struct{})
	url, endpoint := serve(t, binderFunc(func(link transport.Link) jsonrpc.Handler {
		links.Bind(link)
		return handlerFunc(func(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
			close(began)
			<-release
			return nil
		})
	}), &sse.Options{WriteTimeout: time.Hour, Conn: jsonrpc.Options{Grace: 10 * time.Millisecond}})
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
	await(t, began, "the call")
	link := await(t, links, "the link")
	full, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	params := jsonrpc.Raw(`["` + strings.Repeat("x", 1<<20) + `"]`)
	for link.Peer.Notify(full, "note", params) == nil {
	}
	began2 := time.Now()
	if err := endpoint.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(began2); took > 5*time.Second {
		t.Errorf("Close took %v", took)
	}
}

// A session that does not look at its messages takes a few, and then none.
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
		if taken != 5 { // one that blocks, and four that wait
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

// blocking does what no handler may: it blocks the read loop.
type blocking struct{ release <-chan struct{} }

func (b blocking) Notified(jsonrpc.Peer, *jsonrpc.Request) { <-b.release }

// memory is a response that is not sent anywhere.
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
