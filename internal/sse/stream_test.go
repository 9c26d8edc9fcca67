package sse_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/sse"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// A sink is a response writer that counts calls.
type sink struct {
	header   http.Header
	written  bytes.Buffer
	keep     bool
	calls    []string
	deadline time.Time
	fail     error
	panic    any
}

func (s *sink) Header() http.Header { return s.header }

func (s *sink) note(call string, details ...any) {
	if s.keep {
		s.calls = append(s.calls, fmt.Sprintf(call, details...))
	}
}

func (s *sink) WriteHeader(status int) { s.note("status %d", status) }

func (s *sink) Write(p []byte) (int, error) {
	if s.panic != nil {
		panic(s.panic)
	}
	if s.fail != nil {
		return 0, s.fail
	}
	if s.keep {
		s.written.Write(p)
		s.note("write %d", len(p))
	}
	return len(p), nil
}

func (s *sink) FlushError() error { s.note("flush"); return nil }

func (s *sink) SetWriteDeadline(deadline time.Time) error {
	if deadline.IsZero() {
		s.note("no deadline")
	} else {
		s.note("deadline")
	}
	s.deadline = deadline
	return nil
}

// An event on an idle stream is written by itself, immediately.
func TestStreamWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &sink{header: http.Header{}, keep: true}
		s := sse.Start(w, time.Minute)
		if err := s.Send(t.Context(), message("1\n2")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := s.SendComment(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := s.Send(t.Context(), sse.Event{ID: "\n"}); !errors.As(err, new(*sse.FieldError)) {
			t.Errorf("a bad id: %v", err)
		}
		if err := s.Send(t.Context(), sse.Event{ID: "3"}); err != nil {
			t.Errorf("after a bad id: %v", err)
		}
		synctest.Wait()
		s.Close()
		if want := time.Now().Add(time.Minute); !w.deadline.Equal(want) {
			t.Errorf("after Close the deadline is %v, want %v", w.deadline, want)
		}
		if s.Send(t.Context(), message("4")) == nil || s.SendComment() == nil || s.SendAll([]byte(":\n\n")) == nil {
			t.Error("a closed stream accepted an event")
		}
		synctest.Wait()
		if want := "data: 1\ndata: 2\n\n:\n\nid: 3\ndata:\n\n"; w.written.String() != want {
			t.Errorf("written was %q, want %q", w.written.String(), want)
		}
		want := http.Header{
			"Content-Type":      {"text/event-stream"},
			"Cache-Control":     {"no-store, no-transform"},
			"X-Accel-Buffering": {"no"},
		}
		if diff := cmp.Diff(want, w.header); diff != "" {
			t.Errorf("headers differ:\n%s", diff)
		}
		calls := []string{
			"deadline", "status 200", "flush", "no deadline",
			"deadline", "write 17", "flush", "no deadline",
			"deadline", "write 3", "flush", "no deadline",
			"deadline", "write 13", "flush", "no deadline",
			"deadline",
		}
		if diff := cmp.Diff(calls, w.calls); diff != "" {
			t.Errorf("calls differ:\n%s", diff)
		}
	})
}

// Events sent during a write are written together.
func TestStreamWritesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated()
		s := sse.Start(w, time.Minute)
		w.calls = nil
		send(t, s, "0")
		synctest.Wait() // the write is blocked
		for i := range 100 {
			send(t, s, fmt.Sprint(i%10))
		}
		if err := s.SendComment(); err != nil { // dropped, since events are being written
			t.Error(err)
		}
		w.let <- nil
		synctest.Wait()
		w.let <- nil
		synctest.Wait()
		s.Close()
		calls := []string{
			"deadline", "write 9", "flush", "no deadline",
			"deadline", "write 900", "flush", "no deadline",
			"deadline",
		}
		if diff := cmp.Diff(calls, w.calls); diff != "" {
			t.Errorf("calls differ:\n%s", diff)
		}
	})
}

// Close writes what is queued and waits for the writer.
func TestStreamCloseWritesQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated()
		s := sse.Start(w, time.Minute)
		send(t, s, "1")
		synctest.Wait()
		send(t, s, "2")
		closed := false
		go func() {
			s.Close()
			closed = true
		}()
		synctest.Wait()
		if err := s.Send(t.Context(), message("3")); err == nil {
			t.Error("a stream accepted an event during Close")
		}
		for range 2 {
			if closed {
				t.Fatal("Close has not waited")
			}
			w.let <- nil
			synctest.Wait()
		}
		if want := "data: 1\n\ndata: 2\n\n"; !closed || w.written.String() != want {
			t.Errorf("closed: %v; written was %q, want %q", closed, w.written.String(), want)
		}
	})
}

// The queue for a client that does not read is bounded. Then Send waits until its context
// ends.
func TestStreamBackPressure(t *testing.T) {
	const size, most = 1 << 10, 64 << 10
	event := message(strings.Repeat("x", size-len("data: \n\n")))
	for name, tt := range map[string]struct {
		end  func(s *sse.Stream, w *gated, cancel context.CancelFunc)
		want error
	}{
		"taken":     {func(_ *sse.Stream, w *gated, _ context.CancelFunc) { w.let <- nil }, nil},
		"failed":    {func(_ *sse.Stream, w *gated, _ context.CancelFunc) { w.let <- errBroken }, errBroken},
		"cancelled": {func(_ *sse.Stream, _ *gated, cancel context.CancelFunc) { cancel() }, context.Canceled},
		"closed":    {func(s *sse.Stream, _ *gated, _ context.CancelFunc) { go s.Close() }, errors.New("sse: the stream is closed")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := newGated()
				s := sse.Start(w, time.Minute)
				if err := s.Send(ctx, event); err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the write is blocked
				sent, result := 0, errors.New("Send waits")
				go func() {
					for range most/size + 1 {
						if result = s.Send(ctx, event); result != nil {
							return
						}
						sent++
					}
				}()
				synctest.Wait()
				if sent != most/size {
					t.Fatalf("%d events of 1 KiB were queued, want %d", sent, most/size)
				}
				tt.end(s, w, cancel)
				synctest.Wait()
				if fmt.Sprint(result) != fmt.Sprint(tt.want) || result == nil && sent != most/size+1 {
					t.Errorf("after %d events, Send returned %v, want %v", sent, result, tt.want)
				}
				close(w.let)
				s.Close()
			})
		})
	}
}

var errBroken = errors.New("broken")

// After a failed write, all calls fail.
func TestStreamErrorIsPermanent(t *testing.T) {
	for name, fail := range map[string]func(w *sink){
		"error": func(w *sink) { w.fail = errBroken },
		"panic": func(w *sink) { w.panic = errBroken },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &sink{header: http.Header{}, keep: true}
				s := sse.Start(w, time.Minute)
				fail(w)
				send(t, s, "1")
				synctest.Wait()
				w.fail, w.panic = nil, nil
				for what, err := range map[string]error{
					"Send": s.Send(t.Context(), message("2")), "Beat": s.SendComment(), "SendAll": s.SendAll([]byte(":\n\n")),
				} {
					if err == nil || !strings.Contains(err.Error(), "broken") {
						t.Errorf("%s after a failure: %v", what, err)
					}
				}
				s.Close()
				if w.written.Len() > 0 {
					t.Errorf("after a failure %q was written", w.written.String())
				}
			})
		})
	}
}

func send(tb testing.TB, s *sse.Stream, data string) {
	tb.Helper()
	if err := s.Send(context.Background(), message(data)); err != nil {
		tb.Fatal(err)
	}
}

// A gated sink blocks writes until the test allows them.
type gated struct {
	sink
	let chan error
}

func newGated() *gated { return &gated{sink{header: http.Header{}, keep: true}, make(chan error)} }

func (s *gated) Write(p []byte) (int, error) {
	if err := <-s.let; err != nil {
		return 0, err
	}
	return s.sink.Write(p)
}

// SendAll writes everything together, in pieces if it is long.
func TestStreamSendAll(t *testing.T) {
	w := &sink{header: http.Header{}, keep: true}
	s := sse.Start(w, time.Minute)
	w.calls = nil
	var events []byte
	for range 3 {
		events, _ = sse.Append(events, message(strings.Repeat("x", 50_000)))
		events = sse.AppendComment(events, "")
	}
	if err := s.SendAll(events); err != nil {
		t.Error(err)
	}
	calls := []string{"deadline", "write 65536", "deadline", "write 65536", "deadline", "write 18961", "flush", "no deadline"}
	if diff := cmp.Diff(calls, w.calls); diff != "" {
		t.Errorf("calls differ:\n%s", diff)
	}
	if !bytes.Equal(w.written.Bytes(), events) {
		t.Error("something else was written than given")
	}
}

// A response writer that cannot flush cannot have streams.
func TestStreamNeedsFlush(t *testing.T) {
	s := sse.Start(struct{ http.ResponseWriter }{httptest.NewRecorder()}, time.Minute)
	if err := s.Send(context.Background(), message("1")); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("Send: %v", err)
	}
}

func TestStreamConcurrently(t *testing.T) {
	w := &sink{header: http.Header{}, keep: true}
	s := sse.Start(w, time.Minute)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				_ = s.Send(context.Background(), message("12345\n67890"))
				_ = s.SendComment()
			}
		})
	}
	all.Wait()
	s.Close()
	events, err := readAll(sse.NewReader(&w.written, 100))
	if len(events) != 800 || !errors.Is(err, io.EOF) {
		t.Fatalf("%d events and %v, want 800", len(events), err)
	}
	for _, e := range events {
		if string(e.Data) != "12345\n67890" {
			t.Errorf("read %q", e.Data)
		}
	}
}

// A stream that ends in two ways at the same time ends once.
func TestStreamEndsConcurrently(t *testing.T) {
	for range 100 {
		s := sse.Start(httptest.NewRecorder(), time.Minute)
		racetest.Together(1, func(int) { s.Close() }, func(int) { s.Abort() }, func(int) { s.Abort() })
		if err := s.Send(t.Context(), message("late")); err == nil {
			t.Fatal("the stream accepts an event after its end")
		}
	}
}

// An event arrives immediately, and the server's own timeouts do not end the stream.
func TestStreamOverHTTP(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const timeout = time.Second // the TLS handshake must finish within it
			next := make(chan struct{})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				s := sse.Start(w, timeout)
				defer s.Close()
				for i := range 3 {
					<-next
					if err := s.Send(context.Background(), message(fmt.Sprint(i))); err != nil {
						t.Errorf("Send: %v", err)
					}
				}
			}))
			server.EnableHTTP2 = http2
			server.Config.ReadTimeout = timeout
			server.Config.WriteTimeout = timeout
			server.StartTLS()
			defer server.Close()
			resp, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.Proto != name && resp.Proto != name+".0" {
				t.Fatalf("the protocol is %s", resp.Proto)
			}
			r := sse.NewReader(resp.Body, 100)
			for i := range 3 {
				if i > 0 {
					<-time.After(timeout * 5 / 4) // long enough for any deadline that was left behind
				}
				next <- struct{}{}
				if e, err := r.Next(); err != nil || string(e.Data) != fmt.Sprint(i) {
					t.Fatalf("event %d: %q and %v", i, e.Data, err)
				}
			}
			if _, err := r.Next(); !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v", err)
			}
		})
	}
}

// A client that does not read delays its stream by the timeout, or until Abort.
func TestStreamSlowReader(t *testing.T) {
	for name, tt := range map[string]struct {
		timeout time.Duration
		abort   bool
	}{
		"timeout": {100 * time.Millisecond, false},
		"abort":   {time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			streams, failed := make(chan *sse.Stream, 1), make(chan error, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				s := sse.Start(w, tt.timeout)
				streams <- s
				e := message(strings.Repeat("x", 1<<20))
				for {
					if err := s.Send(context.Background(), e); err != nil {
						failed <- err
						return
					}
				}
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
			if line, err := bufio.NewReader(io.LimitReader(conn, 100)).ReadString('\n'); !strings.Contains(line, "200") {
				t.Fatalf("%q, %v", line, err)
			}
			if s := <-streams; tt.abort {
				<-time.After(50 * time.Millisecond) // a write is probably blocked by now
				s.Abort()
			}
			select {
			case err := <-failed:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Send failed with %v, want a deadline", err)
				}
			case <-ctx.Done():
				t.Error("Send did not return")
				conn.Close()
			}
		})
	}
}

// The clock on the wall, twice.
func ExampleStart() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := sse.Start(w, 10*time.Second)
		defer s.Close()
		for _, hour := range []string{"one", "two"} {
			if err := s.Send(context.Background(), sse.Event{Name: "hour", Data: []byte(hour)}); err != nil {
				return // the client has disconnected
			}
		}
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Header().Get("Content-Type"))
	fmt.Print(strings.TrimSpace(w.Body.String()))
	// Output:
	// text/event-stream
	// event: hour
	// data: one
	//
	// event: hour
	// data: two
}

// Abort may be called at any time, also when the handler has returned.
func TestAbortAfterCloseDoesNothing(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			streams := make(chan *sse.Stream, 1)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				s := sse.Start(w, time.Second)
				streams <- s
				s.Close()
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			resp, err := server.Client().Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			io.ReadAll(resp.Body)
			resp.Body.Close()
			(<-streams).Abort()
		})
	}
}

func TestAbortDoesNotAffectNextRequest(t *testing.T) {
	streams := make(chan *sse.Stream, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			s := sse.Start(w, time.Second)
			streams <- s
			s.Close()
			return
		}
		(<-streams).Abort()
		fmt.Fprint(w, "ok")
	}))
	defer server.Close()
	conn, _ := net.Dial("tcp", server.Listener.Addr().String())
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, path := range []string{"/stream", "/after"} {
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		io.ReadAll(resp.Body)
	}
}

// The deadlines of a stream do not apply to the next request on its connection.
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

// A client of HTTP/1.0, which has no chunks, gets the events too.
func TestStreamOverHTTP10(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := sse.Start(w, time.Second)
		defer s.Close()
		_ = s.Send(context.Background(), message("1"))
		_ = s.SendComment()
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

// Send during Close returns an error and does not panic.
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
						for s.Send(context.Background(), message("x")) == nil && s.SendComment() == nil && s.SendAll([]byte(":\n\n")) == nil {
						}
						for range 100 {
							if s.Send(context.Background(), message("x")) == nil || s.SendComment() == nil {
								t.Error("a closed stream accepted an event")
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

// A disconnected client fails later sends.
func TestStreamClientGone(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			failed := make(chan error, 1)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s := sse.Start(w, 10*time.Second)
				defer s.Close()
				<-r.Context().Done()
				for {
					if err := s.SendComment(); err != nil {
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
					t.Errorf("the stream accepted an event after a failure: %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the failure was not reported")
			}
		})
	}
}

// Skipped lines take no memory, whatever their length.
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
func TestReaderLimitZero(t *testing.T) {
	r := sse.NewReader(strings.NewReader("data\n\ndata:\n\nid: 1\n\ndata: x\n\n"), 0)
	events, err := readAll(r)
	if !errors.As(err, new(*sse.TooLongError)) || len(events) != 2 || r.LastID() != "1" {
		t.Errorf("%v, %v", events, err)
	}
}

// A slowWriter sends the header of a response late. It has no deadlines of writing.
type slowWriter struct{ http.ResponseWriter }

func (w slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (slowWriter) SetWriteDeadline(time.Time) error { return nil }

func (w slowWriter) FlushError() error {
	<-time.After(20 * time.Millisecond)
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// net/http would end the context of this request, and of all later ones of the connection, if a deadline of reading
// expired.
func TestSlowStartDoesNotCancelTheConnection(t *testing.T) {
	cancelled := make(chan bool, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		s := sse.Start(slowWriter{w}, time.Millisecond)
		defer s.Close()
		select {
		case <-r.Context().Done():
			cancelled <- true
		case <-time.After(20 * time.Millisecond):
			cancelled <- false
		}
	}))
	defer web.Close()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		var body io.Reader
		if method == http.MethodPost {
			body = strings.NewReader("{}")
		}
		request, err := http.NewRequestWithContext(t.Context(), method, web.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := web.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		response.Body.Close()
		if <-cancelled {
			t.Errorf("%s: the context of the request has ended", method)
		}
	}
}
