//go:build unix

package process_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/server/process"
)

// norace keeps guards of a test for races from waiting a second when they end.
const norace = "GORACE=atexit_sleep_ms=0"

// shell is a command that a shell runs.
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
				t.Errorf("%+v %v, says %q", exit, err, out.String())
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
		t.Errorf("%v, says %q", err, out.String())
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
		t.Errorf("nobody waits for it: %v", err)
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
		t.Errorf("%+v %v, says %q", exit, err, out.String())
	}
	if _, err := p.Write(nil); err == nil {
		t.Error("it has ended, and is written to")
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
	p.Stop()
}

// Whoever waits no longer ends the command.
func TestRunIsCancelled(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	exit, err := guard.Run(ctx, shell("sleep 60", nil))
	if !errors.Is(err, context.DeadlineExceeded) || !exit.Stopped || exit.Code != 143 {
		t.Errorf("%+v %v", exit, err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A command may end as it likes when it is told to.
func TestStopIsHeard(t *testing.T) {
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
	if said := <-out; said != "bye\n" {
		t.Errorf("it says %q", said)
	}
	if exit := p.Stop(); exit.Code != 3 {
		t.Errorf("again: %+v", exit)
	}
}

type writer func(text string)

func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func TestOutput(t *testing.T) {
	o := process.Output{Most: 10}
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
			t.Errorf("after %q since %d: %q, %d left out", c.write, c.since, text, left)
		}
	}
}
