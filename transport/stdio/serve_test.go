//go:build unix

package stdio_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// A stray print in a server, or in a process that it starts, does not break the
// protocol: it goes to standard error.
func TestServeProtectsStdout(t *testing.T) {
	var stderr bytes.Buffer
	var reports []error
	conn := dial(t, "stray", &stdio.CommandOptions{
		RawStderr: &stderr,
		Conn:      jsonrpc.Options{Malformed: func(err error) { reports = append(reports, err) }},
	})
	callEcho(t, conn)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if len(reports) != 0 {
		t.Errorf("on standard output: %v", reports)
	}
	if want := "stray print\nstray child\n"; stderr.String() != want {
		t.Errorf("on standard error: %q, want %q", &stderr, want)
	}
}

// Serve returns when its context ends, although its input is open.
func TestServeEndsWithContext(t *testing.T) {
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), childVariable+"=quits")
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var stderr bytes.Buffer
	server.Stderr = &stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(5*time.Second, func() { server.Process.Kill() })
	defer hung.Stop()
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"quit"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("the server ended with %v, and on standard error: %q", err, &stderr)
	}
}

// At the end of input, calls in progress are finished and answered, and Serve returns.
func TestServeDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		input := `{"jsonrpc":"2.0","id":1,"method":"slow"}` + "\nnot JSON\n" + `{"jsonrpc":"2.0","id":2,"method":"slow"}`
		var out, log bytes.Buffer
		start := time.Now()
		err := stdio.Serve(t.Context(), binder(slow{}), &stdio.ServeOptions{
			In: io.NopCloser(strings.NewReader(input)), Out: &out,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil || time.Since(start) != time.Second {
			t.Errorf("Serve returned %v after %v, want nil after 1s", err, time.Since(start))
		}
		if got := out.String(); strings.Count(got, `"result":"done"`) != 2 || strings.Count(got, `-32700`) != 1 {
			t.Errorf("answered\n%s", got)
		}
		if !strings.Contains(log.String(), "malformed message") {
			t.Errorf("logged %q", &log)
		}
	})
}

// The operator learns that answers are dropped, because calls take longer than the grace after the end of the input.
func TestServeLogsDroppedAnswers(t *testing.T) {
	for drain, want := range map[time.Duration]bool{500 * time.Millisecond: true, 2 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			input := "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"slow"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"slow"}`
			var out, log bytes.Buffer
			err := stdio.Serve(t.Context(), binder(slow{}), &stdio.ServeOptions{
				In: io.NopCloser(strings.NewReader(input)), Out: &out,
				Conn:   jsonrpc.Options{Drain: drain},
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			dropped := strings.Contains(log.String(), "2 calls were not answered within 500ms")
			if err != nil || dropped != want || strings.Count(log.String(), "\n") > 1 || (out.Len() == 0) != want {
				t.Errorf("%v: %v, logged %q, answered %q", drain, err, &log, &out)
			}
		})
	}
}

type slow struct{ silent }

func (slow) Handle(_ context.Context, _ jsonrpc.Peer, _ *jsonrpc.Request, reply *jsonrpc.Reply) error {
	<-time.After(time.Second)
	return reply.Write(jsonrpc.Raw(`"done"`))
}

// Serve returns when something else shuts the server down, although its input is open. Calls in
// progress are answered.
func TestServeEndsWithShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, client := io.Pipe()
		var out bytes.Buffer
		server := &stoppable{stopping: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- stdio.Serve(t.Context(), server, &stdio.ServeOptions{In: in, Out: &out}) }()
		if _, err := io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"slow"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := out.String(); !strings.Contains(got, `"result":"done"`) {
			t.Errorf("answered %q", got)
		}
	})
}

// A stoppable server works on slow calls until it is shut down.
type stoppable struct {
	stopping chan struct{}
	once     sync.Once
}

func (s *stoppable) Bind(transport.Link) jsonrpc.Handler { return slow{} }
func (s *stoppable) Start(context.Context) error         { return nil }
func (s *stoppable) Ready() error                        { return nil }
func (s *stoppable) Stopping() <-chan struct{}           { return s.stopping }
func (s *stoppable) Shutdown(context.Context) error {
	s.once.Do(func() { close(s.stopping) })
	return nil
}

// Given streams end with the context as well.
func TestServeGivenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := io.Pipe()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := stdio.Serve(ctx, binder(silent{}), &stdio.ServeOptions{In: in, Out: io.Discard}); err != nil {
			t.Error(err)
		}
	})
}
