//go:build unix

package process_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/server/process"
)

// norace prevents guard processes built with -race from waiting a second at exit.
const norace = "GORACE=atexit_sleep_ms=0"

// shell returns a command that runs script with sh.
func shell(script string, out *process.Output) *process.Command {
	return &process.Command{Path: "sh", Args: []string{"-c", script}, Stdout: out, Stderr: out, Grace: 200 * time.Millisecond, Env: []string{norace}}
}

func TestRun(t *testing.T) {
	for script, want := range map[string]struct {
		code int
		out  string
	}{
		"echo hello":                             {0, "hello\n"},
		"echo out; echo err >&2":                 {0, "out\nerr\n"},
		"exit 7":                                 {7, ""},
		"kill -KILL $$":                          {137, ""},
		"pwd":                                    {0, "/\n"},
		"read line || echo nothing":              {0, "nothing\n"},
		"echo $MINE$SECRET":                      {0, "yes\n"},
		"no-such-program 2>/dev/null || echo $?": {0, "127\n"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Setenv("SECRET", "hunter2")
			var out process.Output
			c := shell(script, &out)
			c.Dir, c.Env = "/", append(c.Env, "MINE=yes")
			exit, err := guard.Run(t.Context(), c)
			if err != nil || exit != (process.Exit{Code: want.code}) || out.String() != want.out {
				t.Errorf("%+v %v, output %q", exit, err, out.String())
			}
		})
	}
}

func TestInheritEnv(t *testing.T) {
	t.Setenv("SECRET", "hunter2")
	var out process.Output
	c := shell("echo $SECRET", &out)
	c.InheritEnv = true
	if _, err := guard.Run(t.Context(), c); err != nil || out.String() != "hunter2\n" {
		t.Errorf("%v, output %q", err, out.String())
	}
}

func TestNotStarted(t *testing.T) {
	for path, want := range map[string]error{"no-such-program": exec.ErrNotFound, "/no/such/program": os.ErrNotExist} {
		if _, err := guard.Start(&process.Command{Path: path}); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := guard.Run(ctx, shell("true", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("Run with a canceled context: %v", err)
	}
}

func TestInput(t *testing.T) {
	var out process.Output
	c := shell("read a; read b; echo $b $a; cat", &out)
	c.Input = true
	p, err := guard.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write([]byte("one\ntwo\nand the rest")); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 0 || out.String() != "two one\nand the rest" {
		t.Errorf("%+v %v, output %q", exit, err, out.String())
	}
	if _, err := p.Write(nil); err == nil {
		t.Error("a write succeeded after the end")
	}
}

func TestNoInput(t *testing.T) {
	p, err := guard.Start(shell("true", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Write([]byte("x")); err != process.ErrNoInput {
		t.Error(err)
	}
	if _, err := p.WriteWithin(time.Second, []byte("x")); err != process.ErrNoInput {
		t.Error(err)
	}
	p.Stop()
}

// Canceling the context of Run stops the command.
func TestRunIsCanceled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	waittest.Return(t, "the end of the command", func() {
		exit, err := guard.Run(ctx, shell("sleep 60", nil))
		if !errors.Is(err, context.DeadlineExceeded) || !exit.Stopped || exit.Code != 143 {
			t.Errorf("%+v %v", exit, err)
		}
	})
}

// A command may handle SIGTERM.
func TestStopIsHandled(t *testing.T) {
	out := make(chan string, 10)
	c := &process.Command{Path: "sh", Args: []string{"-c", `trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done`},
		Stdout: writer(func(text string) { out <- text })}
	p, err := guard.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	<-out
	if exit := p.Stop(); exit != (process.Exit{Code: 3, Stopped: true}) {
		t.Errorf("%+v", exit)
	}
	if text := <-out; text != "bye\n" {
		t.Errorf("output %q", text)
	}
	if exit := p.Stop(); exit.Code != 3 {
		t.Errorf("again: %+v", exit)
	}
}

// The whole output is read, however slow the writer is.
func TestSlowReader(t *testing.T) {
	read := 0
	c := &process.Command{Path: "sh", Args: []string{"-c", "head -c 200000 /dev/zero"}, Env: []string{norace}, Stdout: writer(func(text string) {
		<-time.After(50 * time.Millisecond)
		read += len(text)
	})}
	if exit, err := guard.Run(t.Context(), c); err != nil || exit != (process.Exit{}) || read != 200000 {
		t.Errorf("%+v %v, %d bytes", exit, err, read)
	}
}

// Without a guard process, a process that escapes may hold the output open. The exit reports
// that, also when the command fails.
func TestOutputIsTruncated(t *testing.T) {
	// The command ends after the process has escaped, which begins without the output if closing is 3>&-.
	escape := func(closing string) string {
		return `{ { env -i setsid sh -c "echo escaped; exec sleep 20 >/dev/null" ` + closing + ` & } | read escaped; } 3>&1`
	}
	holds, releases := escape(""), escape("3>&-")
	for script, want := range map[string]process.Exit{
		"echo out; " + holds:              {Truncated: true},
		"echo out; " + holds + "; exit 3": {Code: 3, Truncated: true},
		"echo out; " + releases:           {},
	} {
		var out process.Output
		c := shell(script, nil)
		c.Stdout, c.Stderr = &out, nil
		if exit, err := new(process.Guard).Run(t.Context(), c); err != nil || exit != want || out.String() != "out\n" {
			t.Errorf("%s: %+v %v, output %q", script, exit, err, out.String())
		}
	}
	if _, err := new(process.Guard).Output(t.Context(), shell(holds, nil), 0); err != process.ErrTruncated {
		t.Error(err)
	}
}

// The grace is respected without a guard process, too.
func TestGraceWithoutGuard(t *testing.T) {
	ready := make(chan string, 1)
	c := shell("trap '' TERM; echo ready; while :; do sleep 0.01; done", nil)
	c.Stdout, c.Stderr = writer(func(text string) { ready <- text }), nil
	p, err := new(process.Guard).Start(c)
	if err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, "the start of the command", ready)
	start := time.Now()
	waittest.Return(t, "the end of the command", func() {
		if exit := p.Stop(); exit.Code != 137 {
			t.Errorf("%+v", exit)
		}
	})
	if took := time.Since(start); took < c.Grace {
		t.Errorf("duration %v", took)
	}
}

// Wait returns the exit if both the command and the context have ended.
func TestWaitAfterEnd(t *testing.T) {
	p, err := guard.Start(shell("exit 3", nil))
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if exit, err := p.Wait(ctx); err != nil || exit.Code != 3 {
			t.Fatalf("%+v %v", exit, err)
		}
	}
}

// A path with a slash is relative to Dir.
func TestRelativePath(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/hello"), []byte("#!/bin/sh\necho hello"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*process.Guard{guard, {}} {
		for path, want := range map[string]error{"bin/hello": nil, "./bin/hello": nil, "../" + filepath.Base(dir) + "/bin/hello": nil, "hello": exec.ErrNotFound, "./hello": os.ErrNotExist} {
			out, err := g.Output(t.Context(), &process.Command{Path: path, Dir: dir, Env: []string{norace}}, 0)
			if !errors.Is(err, want) || want == nil && (err != nil || out.String() != "hello\n") {
				t.Errorf("%s: %v %q", path, err, out.String())
			}
		}
	}
}

// A write to a command that does not read times out; later writes succeed.
func TestWriteWithin(t *testing.T) {
	var out process.Output
	c := shell("read go; wc -c", &out)
	c.Input = true
	p, err := guard.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 1<<20)
	written, err := p.WriteWithin(50*time.Millisecond, []byte("stay"+text))
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf("%d of %d bytes", written, 4+len(text))) || written == 0 || written > len(text) {
		t.Errorf("%d bytes, %v", written, err)
	}
	if _, err := p.Write([]byte("\n")); err != nil {
		t.Error(err)
	}
	if _, err := p.WriteWithin(time.Minute, []byte("five!")); err != nil {
		t.Error(err)
	}
	if err := p.CloseInput(); err != nil {
		t.Error(err)
	}
	if <-p.Done(); strings.TrimSpace(out.String()) != "5" {
		t.Errorf("output %q", out.String())
	}
}

// Follow reports progress: this command ends once its output was reported.
func TestFollow(t *testing.T) {
	var out, err process.Output
	reported := t.TempDir() + "/reported"
	c := shell("echo out; echo error >&2; until [ -e "+reported+" ]; do sleep 0.01; done; exit 3", nil)
	c.Stdout, c.Stderr = &out, &err
	p, failed := guard.Start(c)
	if failed != nil {
		t.Fatal(failed)
	}
	var all int64
	exit, failed := p.Follow(t.Context(), 10*time.Millisecond, func(written int64, last []byte) {
		if written <= all || len(last) == 0 {
			t.Errorf("%d bytes after %d, and last %q", written, all, last)
		}
		if all = written; all == int64(len("out\nerror\n")) {
			if err := os.WriteFile(reported, nil, 0o600); err != nil {
				t.Error(err)
			}
		}
	}, &out, &err)
	if failed != nil || exit.Code != 3 {
		t.Errorf("%+v %v", exit, failed)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if p, failed = guard.Start(shell("sleep 60", nil)); failed != nil {
		t.Fatal(failed)
	}
	if _, failed := p.Follow(ctx, 10*time.Millisecond, nil); !errors.Is(failed, context.DeadlineExceeded) {
		t.Error(failed)
	}
	p.Stop()
}

// Follow reports the output of a command that ends before the first interval.
func TestFollowReportsEnd(t *testing.T) {
	var out process.Output
	c := shell("echo out", nil)
	c.Stdout = &out
	p, err := guard.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	reported := ""
	if _, err := p.Follow(t.Context(), time.Hour, func(_ int64, last []byte) { reported += string(last) }, &out); err != nil || reported != "out\n" {
		t.Errorf("reported %q, %v", reported, err)
	}
}

func TestVariables(t *testing.T) {
	t.Setenv("MINE", "a=b")
	t.Setenv("EMPTY", "")
	if got := strings.Join(process.Variables("EMPTY", "NO_SUCH", "MINE"), " "); got != "EMPTY= MINE=a=b" {
		t.Errorf("%q", got)
	}
}

type writer func(text string)

func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func TestOutput(t *testing.T) {
	o := process.Output{Max: 10}
	for _, c := range []struct {
		write string
		since int64
		text  string
		left  int64
	}{
		{"", 0, "", 0},
		{"hello", 0, "hello", 0},
		{" world", 5, " world", 0},
		{"", 0, "ello world", 1},
		{"", 11, "", 0},
		{"", 99, "", 0},
		{"", -5, "ello world", 1},
		{strings.Repeat("x", 100) + "end", 11, "xxxxxxxend", 93},
		{"1234567890", 114, "1234567890", 0},
		{"1234567890", 114, "1234567890", 10},
	} {
		o.Write([]byte(c.write))
		text, now, left := o.Since(c.since)
		if string(text) != c.text || left != c.left || now != o.Written() {
			t.Errorf("after %q since %d: %q, %d omitted", c.write, c.since, text, left)
		}
	}
}

func TestOutputText(t *testing.T) {
	o := process.Output{Max: 4}
	o.Write([]byte("a\xffb\n"))
	if got := o.Text(); got != "a\uFFFDb\n" {
		t.Errorf("%q", got)
	}
	o.Write([]byte("end\n"))
	if got := o.Text(); got != "… 4 bytes omitted before this\nend\n" {
		t.Errorf("%q", got)
	}
}

// Interrupt reaches the command and its children, and the command may go on.
func TestInterrupt(t *testing.T) {
	for script, want := range map[string]struct {
		exit process.Exit
		out  string
	}{
		"":                         {process.Exit{Code: 130}, "begun\n"},
		"trap 'echo trapped' INT;": {process.Exit{Code: 130}, "begun\ntrapped\n"},
		"trap 'exit 3' INT;":       {process.Exit{Code: 3}, "begun\n"},
	} {
		begun := make(chan struct{}, 1)
		var out process.Output
		c := shell(script+" sh -c 'echo begun; exec sleep 63'; exit $?", nil)
		c.Stderr = nil
		c.Stdout = writer(func(text string) {
			_, _ = out.Write([]byte(text))
			select {
			case begun <- struct{}{}:
			default:
			}
		})
		p, err := guard.Start(c)
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		p.Interrupt()
		if exit, err := p.Wait(t.Context()); err != nil || exit != want.exit || out.String() != want.out {
			t.Errorf("%s: %+v %v, output %q", script, exit, err, out.String())
		}
		p.Interrupt() // has no effect
	}
}
