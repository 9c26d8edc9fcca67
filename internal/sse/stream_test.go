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
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/sse"
)

// A sink takes what a stream writes and counts what it does.
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

// Each event that comes to a stream at rest is written by itself, at once.
func TestStreamWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &sink{header: http.Header{}, keep: true}
		s := sse.Start(w, time.Minute)
		if err := s.Send(t.Context(), message("1\n2")); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := s.Beat(); err != nil {
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
		if s.Send(t.Context(), message("4")) == nil || s.Beat() == nil || s.SendAll([]byte(":\n\n")) == nil {
			t.Error("a stream takes events after Close")
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

// What comes while something is being written is written together.
func TestStreamWritesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newGated()
		s := sse.Start(w, time.Minute)
		w.calls = nil
		send(t, s, "0")
		synctest.Wait() // the writer is stuck in it
		for i := range 100 {
			send(t, s, fmt.Sprint(i%10))
		}
		if err := s.Beat(); err != nil { // there are signs of life enough
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

// What is queued is written before the response ends, by whoever closes the stream. It
// does not let others go on and on, and waits for the writer.
func TestStreamCloseWritesTheRest(t *testing.T) {
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
			t.Error("a stream takes events while it is being closed")
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

// Of a client that takes nothing, so much is kept, and no more: then who sends waits, as
// long as he likes to.
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
				synctest.Wait() // the writer is stuck in it
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
					t.Errorf("after %d events, Send says %v, want %v", sent, result, tt.want)
				}
				close(w.let)
				s.Close()
			})
		})
	}
}

var errBroken = errors.New("broken")

// After a write that failed, nobody knows what the client has got.
func TestStreamFailsForGood(t *testing.T) {
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
					"Send": s.Send(t.Context(), message("2")), "Beat": s.Beat(), "SendAll": s.SendAll([]byte(":\n\n")),
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

// A gated sink takes what it is let.
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

// What is sent together is written together, and in pieces if it is much.
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

// A server that cannot send what it has at once cannot have streams.
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
				_ = s.Beat()
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

// An event arrives before anything else happens, and the stream outlives the server's
// own timeouts.
func TestStreamOverHTTP(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			const timeout = 50 * time.Millisecond
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
				<-time.After(2 * timeout) // long enough for any deadline that was left behind
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

// A client that takes nothing holds up its stream for no longer than the timeout,
// or until the stream is aborted.
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
				<-time.After(50 * time.Millisecond) // most likely, a write hangs by then
				s.Abort()
			}
			select {
			case err := <-failed:
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("Send failed with %v, want a deadline", err)
				}
			case <-ctx.Done():
				t.Error("Send hangs")
				conn.Close()
			}
		})
	}
}

// A client that announces a body, sends none and takes nothing is rid of all the same.
func TestStreamWithBodyUnread(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sse.Start(w, 100*time.Millisecond).Close()
	}))
	defer server.Close()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection stays open: %v", err)
	}
}

// The clock on the wall, twice.
func ExampleStart() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := sse.Start(w, 10*time.Second)
		defer s.Close()
		for _, hour := range []string{"one", "two"} {
			if err := s.Send(context.Background(), sse.Event{Name: "hour", Data: []byte(hour)}); err != nil {
				return // the client is gone
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
