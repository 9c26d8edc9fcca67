//go:build unix

package stdio_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/faults"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

func TestCommandKit(t *testing.T) {
	transporttest.Run(t, func(*testing.T, transport.Binder) transport.Dialer { return command("kit", nil) })
}

// command returns a dialer of children of a kind with short timeouts.
func command(kind string, opts *stdio.CommandOptions) transport.Dialer {
	var o stdio.CommandOptions
	if opts != nil {
		o = *opts
	}
	if o.Grace == 0 {
		o.Grace = 200 * time.Millisecond
	}
	// The race detector would have a child sleep for a second before it exits.
	o.Env = append(o.Env, childVariable+"="+kind, "GORACE=atexit_sleep_ms=0")
	return stdio.Command(os.Args[0], nil, &o)
}

func dial(t testing.TB, kind string, opts *stdio.CommandOptions) transport.Conn {
	t.Helper()
	return dialFor(t, silent{}, kind, opts)
}

func dialFor(t testing.TB, h jsonrpc.Handler, kind string, opts *stdio.CommandOptions) transport.Conn {
	t.Helper()
	conn, err := command(kind, opts).Dial(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conn
}

func callEcho(t testing.TB, conn transport.Conn) {
	t.Helper()
	resp, err := conn.Call(t.Context(), "echo", jsonrpc.Raw(`{"n":9007199254740993}`))
	if err != nil || string(resp.Result) != `{"n":9007199254740993}` {
		t.Fatalf("answered with %v (%v)", resp, err)
	}
}

// When a child ends, all pending calls fail immediately with the reason.
func TestChildEnds(t *testing.T) {
	tests := map[string]struct {
		exit  bool   // the error tells of an exit
		words string // part of the error
	}{
		"exits":                {true, `exit status 3: "last words"`},
		"ends":                 {true, "exit status 0"},
		"crashes":              {true, "signal: killed"},
		"half a line":          {true, "exit status 1"},
		"leaves a child":       {true, "exit status 5"},
		"leaves a stray child": {true, "exit status 0"},
		"closes stdout":        {false, "connection closed"},
	}
	for kind, test := range tests {
		t.Run(kind, func(t *testing.T) {
			const n = 8
			heirs := make(orphans, 1)
			conn := dialFor(t, heirs, kind, nil)
			callEcho(t, conn)
			failures := make(chan error, n+1)
			for range n {
				go func() {
					_, err := conn.Call(t.Context(), "hold", nil)
					failures <- err
				}()
			}
			for held := ""; held != strconv.Itoa(n); { // what has not been sent cannot have been executed
				resp, err := conn.Call(t.Context(), "held", nil)
				if err != nil {
					t.Fatal(err)
				}
				held = string(resp.Result)
			}
			_, err := conn.Call(t.Context(), "go", nil)
			failures <- err
			for range n + 1 {
				err := waittest.Receive(t, "the failure of a call", failures)
				var failed *jsonrpc.CallError
				if !errors.As(err, &failed) || failed.Delivery != jsonrpc.MaybeExecuted || !errors.Is(err, jsonrpc.ErrClosed) {
					t.Errorf("the error is %v, want ErrClosed and that it may have been executed", err)
				}
				var exit *stdio.ExitError
				if errors.As(err, &exit) != test.exit || !strings.Contains(err.Error(), test.words) {
					t.Errorf("the error is %v, want %q", err, test.words)
				}
			}
			waittest.Receive(t, "the end of the connection", conn.Done())
			_, err = conn.Call(t.Context(), "echo", nil)
			var failed *jsonrpc.CallError
			if !errors.As(err, &failed) || failed.Delivery != jsonrpc.NotSent || !errors.Is(err, jsonrpc.ErrClosed) {
				t.Errorf("a later call failed with %v, want ErrClosed and not sent", err)
			}
			if kind == "leaves a stray child" {
				strayEnded(t, waittest.Receive(t, "the stray process", heirs))
			}
		})
	}
}

// orphans records the ids of processes that children leave behind.
type orphans chan int

func (orphans) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing is answered here"}
}

func (h orphans) HandleNotification(_ jsonrpc.Peer, note *jsonrpc.Request) {
	var pid [1]int
	if note.Method == "heir" && json.Unmarshal(note.Params, &pid) == nil {
		h <- pid[0]
	}
}

// strayEnded checks that a process that has left the group of its parent has ended with it.
func strayEnded(t *testing.T, pid int) {
	t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // empty when the process has ended
	if err == nil && len(environ) > 0 {
		t.Errorf("the stray process %d lives on", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Close ends every child and its process group. A child that ends with its input is not waited
// for longer.
func TestCloseEndsTheChild(t *testing.T) {
	const short = 200 * time.Millisecond
	for kind, grace := range map[string]time.Duration{
		"kit":           time.Hour, // end of input
		"exits":         time.Hour,
		"sleeper":       short, // TERM
		"closes stdin":  short,
		"deaf":          short, // KILL
		"stopped":       short,
		"closes stdout": short,
		"keeps a child": time.Hour,
		"keeps daemons": time.Hour,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			mark := fmt.Sprintf("STDIO_TEST_MARK=%d/%s", os.Getpid(), t.Name())
			conn := dial(t, kind, &stdio.CommandOptions{Grace: grace, Env: []string{mark}})
			switch kind {
			case "closes stdin", "keeps a child", "keeps daemons":
				if _, err := conn.Call(t.Context(), "go", nil); err != nil {
					t.Fatal(err)
				}
			case "closes stdout":
				conn.Call(t.Context(), "go", nil) // fails
			}
			failure := make(chan error, 1)
			go func() {
				_, err := conn.Call(t.Context(), "hold", nil)
				failure <- err
			}()
			waittest.Return(t, "Close", func() {
				if err := conn.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			if err := waittest.Receive(t, "the end of the call", failure); !errors.Is(err, jsonrpc.ErrClosed) && kind != "kit" {
				t.Errorf("the call that waited failed with %v, want ErrClosed", err)
			}
			if left := processes(t, mark); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
		})
	}
}

// A child that does not read does not delay Close.
func TestCloseWithFullPipe(t *testing.T) {
	conn := dial(t, "stopped", nil)
	message := jsonrpc.Raw(`["` + strings.Repeat("x", 1<<18) + `"]`)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		err = conn.Notify(ctx, "n", message)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Notify failed with %v, want the deadline", err)
	}
	waittest.Return(t, "Close", func() {
		if err := conn.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// An unanswered call ends with its context.
func TestChildNeverAnswers(t *testing.T) {
	for _, kind := range []string{"deaf", "stopped"} {
		conn := dial(t, kind, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := conn.Call(ctx, "hold", nil)
		cancel()
		var failed *jsonrpc.CallError
		if !errors.As(err, &failed) || failed.Delivery != jsonrpc.MaybeExecuted || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: the error is %v, want the deadline", kind, err)
		}
	}
}

// A child that closes its input is ended. Its earlier answers count.
func TestChildClosesStdin(t *testing.T) {
	conn := dial(t, "closes stdin", nil)
	resp, err := conn.Call(t.Context(), "go", nil)
	if err != nil || string(resp.Result) != `"closed"` {
		t.Fatalf("answered with %v (%v)", resp, err)
	}
	if _, err := conn.Call(t.Context(), "hold", nil); !errors.Is(err, jsonrpc.ErrClosed) {
		t.Errorf("the error is %v, want ErrClosed", err)
	}
	waittest.Receive(t, "the end of the connection", conn.Done())
}

// A child may finish its work and write after its input has ended.
func TestCloseLetsTheChildFinish(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	conn := dial(t, "talks on", &stdio.CommandOptions{Grace: 5 * time.Second, Env: []string{faults.MarkerVariable + "=" + marker}})
	if err := conn.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if _, err := os.Stat(marker); err != nil {
		t.Errorf("the child was cut off: %v", err)
	}
}

// Malformed lines are skipped, counted and not answered.
func TestChildBanner(t *testing.T) {
	var mu sync.Mutex
	var reports []error
	conn := dial(t, "banner", &stdio.CommandOptions{
		MaxLine: 50_000,
		Conn: jsonrpc.Options{Malformed: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, err)
		}},
	})
	callEcho(t, conn)
	callEcho(t, conn)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if len(reports) != 9 {
		t.Errorf("%d lines were reported, want 9: %v", len(reports), reports)
	}
}

// A child gets the variables that programs need, and no secrets.
func TestEnvironment(t *testing.T) {
	const secret = "API_TOKEN=hunter2"
	t.Setenv("API_TOKEN", "hunter2")
	env := func(opts *stdio.CommandOptions) []string {
		t.Helper()
		conn := dial(t, "environment", opts)
		resp, err := conn.Call(t.Context(), "go", nil)
		if err != nil {
			t.Fatal(err)
		}
		var env []string
		if err := json.Unmarshal(resp.Result, &env); err != nil {
			t.Fatal(err)
		}
		return env
	}
	path := "PATH=" + os.Getenv("PATH")
	if got := env(nil); slices.Contains(got, secret) || !slices.Contains(got, path) {
		t.Errorf("by default: %q", got)
	}
	if got := env(&stdio.CommandOptions{Env: []string{"MINE=1", "PATH=/nowhere"}}); slices.Contains(got, secret) ||
		!slices.Contains(got, "MINE=1") || !slices.Contains(got, "PATH=/nowhere") || slices.Contains(got, path) {
		t.Errorf("with own variables: %q", got)
	}
	if got := env(&stdio.CommandOptions{InheritEnv: true}); !slices.Contains(got, secret) {
		t.Errorf("inherited: %q", got)
	}
}

// Without any of the usual variables, a child gets an empty environment.
func TestEnvironmentEmpty(t *testing.T) {
	sh, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR", "GORACE"} {
		t.Setenv(name, "") // restores it
		os.Unsetenv(name)
	}
	t.Setenv("API_TOKEN", "hunter2")
	var lines []string
	conn, err := stdio.Command(sh, nil, &stdio.CommandOptions{Conn: jsonrpc.Options{Trace: func(_ string, _ bool, frame []byte) {
		lines = append(lines, string(frame))
	}}}).Dial(t.Context(), silent{})
	if err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, "the end of the connection", conn.Done())
	if len(lines) > 1 { // one line marks processes of a child
		t.Errorf("the child has %d variables", len(lines))
	}
}

func TestDialFails(t *testing.T) {
	_, err := stdio.Command("/no/such/program", nil, nil).Dial(t.Context(), silent{})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("the error is %v, want that there is no such program", err)
	}
}

// Children die with the client's process.
func TestParentKilled(t *testing.T) {
	address := filepath.Join(t.TempDir(), "alive")
	listener, err := net.Listen("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), childVariable+"=parent", heirVariable+"="+address)
	parent.Stderr = os.Stderr
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer parent.Wait()             // it was killed
	alive, err := listener.Accept() // from the child of that process
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := alive.SetReadDeadline(start.Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := alive.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the child lives on: %v", err)
	}
	t.Logf("the child was gone after %v", time.Since(start))
}

// processes lists running processes that have a variable in their environment.
func processes(t testing.TB, variable string) (left []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		environ, err := os.ReadFile(name) // empty when the process has ended
		if err == nil && slices.Contains(strings.Split(string(environ), "\x00"), variable) {
			left = append(left, name)
		}
	}
	return left
}

// childVariable makes the test binary a child of the kind that it names.
const childVariable = faults.ModeVariable

func TestMain(m *testing.M) {
	if kind := os.Getenv(childVariable); kind != "" {
		os.Exit(child(kind))
	}
	leaktest.Main(m)
}
