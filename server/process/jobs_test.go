//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/server/process"
)

func TestJobs(t *testing.T) {
	jobs := &process.Jobs{Guard: guard, Max: 2}
	defer jobs.Close()
	talker, err := jobs.Start("talker", shell("while read line; do echo got $line; done", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Start("sleeper", shell("sleep 61", nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Start("one too many", shell("true", nil)); !errors.Is(err, process.ErrTooManyJobs) {
		t.Error(err)
	}
	if _, err := talker.Write([]byte("hello\n")); err != nil {
		t.Error(err)
	}
	talker.CloseInput()
	<-talker.Done()
	if out := talker.Output.String(); out != "got hello\n" || talker.Running() {
		t.Errorf("output %q, running: %t", out, talker.Running())
	}
	if found, err := jobs.Find("job-1"); found != talker || err != nil {
		t.Errorf("job-1 is %+v, %v", found, err)
	}
	states := jobs.States()
	if s := states[0]; s.ID != "job-1" || s.Label != "talker" || s.Running || *s.ExitCode != 0 || s.Written != 10 || s.Began.IsZero() {
		t.Errorf("state %+v", s)
	}
	if s := states[1]; len(states) != 2 || !s.Running || s.ExitCode != nil {
		t.Errorf("state of the sleeper %+v", s)
	}
	if job, err := jobs.Find("job-3"); err == nil || !strings.Contains(err.Error(), "job-3") {
		t.Errorf("a job that was not started: %v", job)
	}
	for range 10 { // the last eight ended jobs are kept
		job, err := jobs.Start("short", shell("true", nil))
		if err != nil {
			t.Fatal(err)
		}
		<-job.Done()
	}
	var ids []string
	for _, job := range jobs.All() {
		ids = append(ids, job.ID)
	}
	if got := strings.Join(ids, " "); got != "job-2 job-5 job-6 job-7 job-8 job-9 job-10 job-11 job-12" {
		t.Errorf("kept: %s", got)
	}
	jobs.Close()
	if job, err := jobs.Find("job-2"); err != nil || job.Running() {
		t.Errorf("a job still runs: %v", err)
	}
	if _, err := jobs.Start("late", shell("true", nil)); !errors.Is(err, process.ErrClosed) {
		t.Error(err)
	}
}

func TestGuardOutput(t *testing.T) {
	if out, err := guard.Output(t.Context(), shell("echo out; echo err >&2", nil), 0); err != nil || out.String() != "out\n" {
		t.Errorf("%q %v", out.String(), err)
	}
	out, err := guard.Output(t.Context(), shell("echo one; echo two", nil), 4)
	if end, _, left := out.Since(0); err != nil || string(end) != "two\n" || left != 4 {
		t.Errorf("%q, %d omitted, %v", end, left, err)
	}
	var failed *process.FailedError
	out, err = guard.Output(t.Context(), shell("echo out; echo wrong >&2; exit 3", nil), 0)
	if !errors.As(err, &failed) || failed.Exit.Code != 3 || err.Error() != "wrong" || out.String() != "out\n" {
		t.Errorf("%q %v", out.String(), err)
	}
	if _, err := guard.Output(t.Context(), shell("exit 3", nil), 0); err == nil || !strings.Contains(err.Error(), "status 3") {
		t.Error(err)
	}
}

func TestShell(t *testing.T) {
	c := process.Shell("echo $((1+1))")
	c.Env = []string{norace}
	if out, err := guard.Output(t.Context(), c, 0); err != nil || out.String() != "2\n" {
		t.Errorf("%q %v", out.String(), err)
	}
}

func TestAwaitPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	p, err := guard.Start(shell("sleep 61", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitPort(t.Context(), address); err != nil {
		t.Error(err)
	}
	listener.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, fmt.Errorf("too late"))
	defer cancel()
	if err := p.AwaitPort(ctx, address); err == nil || err.Error() != "too late" {
		t.Error(err)
	}
	p.Stop()
	if err := p.AwaitPort(t.Context(), address); err == nil || !strings.Contains(err.Error(), "exit status 143") {
		t.Error(err)
	}
}

// A server is found on either loopback address.
func TestLoopback(t *testing.T) {
	for network, host := range map[string]string{"tcp4": "127.0.0.1", "tcp6": "::1"} {
		listener, err := net.Listen(network, net.JoinHostPort(host, "0"))
		if err != nil {
			t.Log(err) // there may be no IPv6
			continue
		}
		port := listener.Addr().(*net.TCPAddr).Port
		if address, err := process.AwaitLoopback(t.Context(), port); err != nil || address != listener.Addr().String() {
			t.Errorf("%s: %s %v", listener.Addr(), address, err)
		}
		listener.Close()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("too late"))
		if address, err := process.AwaitLoopback(ctx, port); err == nil || err.Error() != "too late" {
			t.Errorf("no server: %s %v", address, err)
		}
		cancel()
	}
}

// A server is started unless another one uses its address.
func TestStartServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if p, err := guard.StartServer(t.Context(), shell("sleep 61", nil), address); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("%v %v", p, err)
	}
	listener.Close()
	if p, err := guard.StartServer(t.Context(), shell("echo no >&2; exit 3", nil), address); err == nil || !strings.Contains(err.Error(), "exit status 3; its output is \"no\\n\"") {
		t.Errorf("%v %v", p, err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, fmt.Errorf("too late"))
	defer cancel()
	if p, err := guard.StartServer(ctx, shell("sleep 61", nil), address); err == nil || !strings.Contains(err.Error(), "too late") {
		t.Errorf("%v %v", p, err)
	}
	if _, err := guard.StartServer(t.Context(), &process.Command{Path: "no-such-program"}, address); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
	c := &process.Command{Path: os.Args[0], Args: []string{"-test.run=^TestHelperServer$"}, Env: []string{norace, "PROCESS_TEST_SERVER=" + address}}
	p, err := guard.StartServer(t.Context(), c, address)
	if err != nil {
		t.Fatal(err)
	}
	if !process.Listens(address) || !p.Running() {
		t.Error("no server listens")
	}
	p.Stop()
	if process.Listens(address) {
		t.Error("the server still listens")
	}
}

func TestHelperServer(t *testing.T) {
	address := os.Getenv("PROCESS_TEST_SERVER")
	if address == "" {
		t.Skip("it is for another test")
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	for {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
		}
	}
}
