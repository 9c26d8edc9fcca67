package sse_test

import (
	"bufio"
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
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/sse"
)

// The deadlines of a stream are not those of the next request on its connection.
func TestStreamLeavesNoDeadline(t *testing.T) {
	const timeout = 20 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			s := sse.Start(w, timeout)
			defer s.Close()
			_ = s.Send(context.Background(), message("1"))
			return
		}
		select {
		case <-time.After(5 * timeout):
			fmt.Fprint(w, "late")
		case <-r.Context().Done():
			t.Error("the request was cancelled")
		}
	}))
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, path := range []string{"/stream", "/after", "/stream", "/after"} {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || path == "/after" && string(text) != "late" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

// A client of HTTP/1.0, which has no chunks, gets the events all the same.
func TestStreamOverHTTP10(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := sse.Start(w, time.Second)
		defer s.Close()
		_ = s.Send(context.Background(), message("1"))
		_ = s.Beat()
		_ = s.Send(context.Background(), message("2"))
	}))
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	events, err := readAll(sse.NewReader(resp.Body, 100))
	if !errors.Is(err, io.EOF) || !sameEvents(events, []sse.Event{message("1"), message("2")}) {
		t.Errorf("%v and %v", events, err)
	}
}

// Whoever sends while the handler closes the stream and returns gets an error, never
// a panic: over HTTP/2, there is no response left to write to.
func TestStreamSendWhileHandlerReturns(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			var senders sync.WaitGroup
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				s := sse.Start(w, time.Second)
				defer s.Close()
				for range 4 {
					begun := make(chan struct{})
					senders.Go(func() {
						close(begun)
						for s.Send(context.Background(), message("x")) == nil && s.Beat() == nil && s.SendAll([]byte(":\n\n")) == nil {
						}
						for range 100 {
							if s.Send(context.Background(), message("x")) == nil || s.Beat() == nil {
								t.Error("a closed stream takes events")
							}
						}
					})
					<-begun
				}
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			for range 20 {
				resp, err := server.Client().Get(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := readAll(sse.NewReader(resp.Body, 100)); !errors.Is(err, io.EOF) {
					t.Errorf("the stream ended with %v", err)
				}
				resp.Body.Close()
			}
			senders.Wait()
		})
	}
}

// A client that goes away is noticed by sending, soon and for good.
func TestStreamClientGone(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s := sse.Start(w, 10*time.Second)
				defer s.Close()
				<-r.Context().Done()
				for {
					if err := s.Beat(); err != nil {
						failed <- errors.Join(err, s.Send(context.Background(), message("x")))
						return
					}
				}
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			cancel()
			select {
			case err := <-failed:
				if n := strings.Count(err.Error(), "\n"); n != 1 {
					t.Errorf("after a failure the stream takes events again: %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("nobody noticed")
			}
		})
	}
}

// What a reader skips takes no memory, however much there is of it.
func TestReaderMemory(t *testing.T) {
	const size = 32 << 20
	for name, prefix := range map[string]string{"comment": ":", "unknown field": "x", "unknown value": "x: ", "almost a field": "database"} {
		source := io.MultiReader(strings.NewReader(prefix), io.LimitReader(endless{}, size), strings.NewReader("\ndata: 1\n\n"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := sse.NewReader(source, 100)
		e, err := r.Next()
		runtime.ReadMemStats(&after)
		if err != nil || string(e.Data) != "1" {
			t.Errorf("%s: %q, %v", name, e.Data, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes were allocated to skip %d", name, used, size)
		}
	}
}

// A limit of nothing allows events of nothing.
func TestReaderLimitOfNothing(t *testing.T) {
	r := sse.NewReader(strings.NewReader("data\n\ndata:\n\nid: 1\n\ndata: x\n\n"), 0)
	events, err := readAll(r)
	if !errors.As(err, new(*sse.TooLongError)) || len(events) != 2 || r.LastID() != "1" {
		t.Errorf("%v, %v", events, err)
	}
}
