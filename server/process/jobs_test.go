//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/server/process"
)

func TestJobs(t *testing.T) {
	jobs := &process.Jobs{Guard: guard, Most: 2}
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
		t.Errorf("it says %q, runs: %t", out, talker.Running())
	}
	if found := jobs.Find("job-1"); found != talker || found.Label != "talker" {
		t.Errorf("job-1 is %+v", found)
	}
	if jobs.Find("job-3") != nil {
		t.Error("one that was not started is found")
	}
	for range 10 { // only the last eight are remembered
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
		t.Errorf("remembered: %s", got)
	}
	jobs.Close()
	if jobs.Find("job-2").Running() {
		t.Error("one runs on")
	}
	if _, err := jobs.Start("late", shell("true", nil)); !errors.Is(err, process.ErrClosed) {
		t.Error(err)
	}
}

func TestGuardOutput(t *testing.T) {
	if out, err := guard.Output(t.Context(), shell("echo out; echo err >&2", nil), 0); err != nil || out != "out\n" {
		t.Errorf("%q %v", out, err)
	}
	var failed *process.FailedError
	out, err := guard.Output(t.Context(), shell("echo out; echo wrong >&2; exit 3", nil), 0)
	if !errors.As(err, &failed) || failed.Exit.Code != 3 || err.Error() != "wrong" || out != "out\n" {
		t.Errorf("%q %v", out, err)
	}
	if _, err := guard.Output(t.Context(), shell("exit 3", nil), 0); err == nil || !strings.Contains(err.Error(), "status 3") {
		t.Error(err)
	}
}

func TestShell(t *testing.T) {
	c := process.Shell("echo $((1+1))")
	c.Env = []string{norace}
	if out, err := guard.Output(t.Context(), c, 0); err != nil || out != "2\n" {
		t.Errorf("%q %v", out, err)
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
