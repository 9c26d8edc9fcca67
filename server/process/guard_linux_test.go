package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/server/process"
)

// mark sets an environment variable of a command. left returns the command lines of all
// processes that have inherited it.
func mark(t *testing.T, c *process.Command) (left func() []string) {
	variable := fmt.Sprintf("PROCESS_TEST=%s-%d", t.Name(), os.Getpid())
	c.Env = append(c.Env, variable)
	return func() (left []string) {
		names, err := filepath.Glob("/proc/[0-9]*/environ")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			environ, err := os.ReadFile(name) // empty when the process has ended
			if err == nil && slices.Contains(strings.Split(string(environ), "\x00"), variable) {
				line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
				left = append(left, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
			}
		}
		return left
	}
}

// Everything that a command has started ends with it.
func TestNothingIsLeftBehind(t *testing.T) {
	for name, script := range map[string]string{
		"background":         `sleep 61 & sleep 61 &`,
		"session":            `setsid sleep 61 & sleep 0.1`,
		"daemon":             `(setsid sh -c 'sleep 61 & sleep 61 &' &) ; sleep 0.1`,
		"ignores signals":    `(trap '' TERM HUP INT; sleep 61; sleep 61) & setsid nohup sleep 61 >/dev/null 2>&1 & sleep 0.1`,
		"stopped":            `sh -c 'kill -STOP $$' & sleep 0.1`,
		"without a variable": `env -i setsid sh -c 'sleep 61 & sleep 61' & sleep 0.1`,
		"many":               `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do setsid sleep 61 & done`,
	} {
		t.Run(name, func(t *testing.T) {
			c := shell(strings.ReplaceAll(script, "sleep 61", "sleep "+sleepTime()), nil)
			left := mark(t, c)
			waittest.Within(t, "the end of the command", func(ctx context.Context) {
				if _, err := guard.Run(ctx, c); err != nil {
					t.Fatal(err)
				}
			})
			if left := left(); len(left) != 0 {
				t.Errorf("still running: %q", left)
			}
			if n := sleepers(t); n > 0 {
				t.Errorf("%d still sleep", n)
			}
		})
	}
}

// sleepTime is a duration that no other test process on this machine uses.
func sleepTime() string { return fmt.Sprintf("61.%d", os.Getpid()) }

// sleepers counts the processes that sleep for sleepTime.
func sleepers(t *testing.T) (n int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if line, err := os.ReadFile(name); err == nil && string(line) == "sleep\x00"+sleepTime()+"\x00" {
			n++
		}
	}
	return n
}

// A command that ignores SIGTERM is killed after its grace, with its descendants.
func TestCommandIgnoresSignals(t *testing.T) {
	ready := make(chan string, 1)
	c := &process.Command{
		Path: "sh", Args: []string{"-c", `trap '' TERM; setsid sh -c 'trap "" TERM; sleep 61 & wait; sleep 61' & echo ready; wait; sleep 61`},
		Stdout: writer(func(text string) { ready <- text }), Grace: 100 * time.Millisecond, Env: []string{norace},
	}
	left := mark(t, c)
	p, err := guard.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	waittest.Receive(t, "the start of the command", ready)
	start := time.Now()
	waittest.Return(t, "the end of the command", func() {
		if exit := p.Stop(); exit != (process.Exit{Code: 137, Stopped: true}) {
			t.Errorf("%+v", exit)
		}
	})
	if took := time.Since(start); took < c.Grace {
		t.Errorf("duration %v", took)
	}
	if left := left(); len(left) != 0 {
		t.Errorf("still running: %q", left)
	}
}

// More processes than permitted are killed, and standard error says why.
func TestForkStorm(t *testing.T) {
	var out process.Output
	// Each process starts two, at most 2^6 in total: more than permitted, few enough for
	// the machine.
	storm := `s() { if [ $1 -gt 0 ]; then s $(($1-1)) & s $(($1-1)) & fi; sleep 61; }; s 6`
	c := shell(storm, &out)
	c.MaxProcesses = 20
	left := mark(t, c)
	waittest.Within(t, "the end of the command", func(ctx context.Context) {
		if exit, err := guard.Run(ctx, c); err != nil || exit.Code != 137 {
			t.Errorf("%+v %v", exit, err)
		}
	})
	if !strings.Contains(out.String(), "more than 20 processes") {
		t.Errorf("output %q", out.String())
	}
	if left := left(); len(left) != 0 {
		t.Errorf("still running: %d processes", len(left))
	}
}

// A fork storm ends even if standard error is broken or not read.
func TestForkStormWithoutReader(t *testing.T) {
	broken, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	broken.Close()
	defer w.Close()
	blocked := make(chan struct{})
	for name, stderr := range map[string]io.Writer{"broken": w, "blocked": writer(func(string) { <-blocked })} {
		c := shell("trap '' PIPE; head -c 200000 /dev/zero >&2 & for i in $(seq 30); do setsid sleep 61 2>/dev/null & done; sleep 61", nil)
		c.Stdout, c.Stderr, c.MaxProcesses = nil, stderr, 20
		left := mark(t, c)
		p, err := guard.Start(c)
		if err != nil {
			t.Fatal(err)
		}
		if name == "blocked" {
			for deadline := time.Now().Add(10 * time.Second); len(left()) > 0; <-time.After(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s: %d processes are left", name, len(left()))
				}
			}
			close(blocked)
		}
		if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 137 {
			t.Errorf("%s: %+v %v", name, exit, err)
		}
		if left := left(); len(left) != 0 {
			t.Errorf("%s: still running: %q", name, left)
		}
	}
}

// Commands can be started after the file of the program has been replaced by an update.
func TestProgramIsReplaced(t *testing.T) {
	data, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	program := exec.Command(path, "-test.run=^TestHelperReplaced$", "-test.v")
	program.Env = append(os.Environ(), "PROCESS_TEST_HELPER=1")
	if out, err := program.CombinedOutput(); err != nil || !strings.Contains(string(out), "hello from the command") {
		t.Errorf("%v, output %s", err, out)
	}
}

func TestHelperReplaced(t *testing.T) {
	if os.Getenv("PROCESS_TEST_HELPER") == "" {
		t.Skip("used by another test")
	}
	if err := os.Remove(os.Args[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Args[0], []byte("#!/bin/sh\necho another program"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := guard.Output(t.Context(), shell("echo hello from the command", nil), 0)
	t.Log(out, err)
}

// Descendants end when the program that has started the guard process is killed.
func TestProgramIsKilled(t *testing.T) {
	program := exec.Command(os.Args[0], "-test.run=^TestHelperProgram$", "-test.v")
	variable := fmt.Sprintf("PROCESS_TEST_HELPER=%d", os.Getpid())
	program.Env = append(os.Environ(), variable)
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer program.Wait()
	buffer := make([]byte, 4096)
	for seen := ""; !strings.Contains(seen, "sleeping"); {
		n, err := out.Read(buffer)
		if err != nil {
			t.Fatalf("%v after %q", err, seen)
		}
		seen += string(buffer[:n])
	}
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		left := 0
		names, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range names {
			environ, err := os.ReadFile(name)
			if err == nil && bytes.Contains(environ, []byte(variable)) {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes are left", left)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func TestHelperProgram(t *testing.T) {
	if os.Getenv("PROCESS_TEST_HELPER") == "" {
		t.Skip("used by another test")
	}
	c := shell(`trap '' TERM; setsid sleep 61 & echo sleeping; wait; sleep 61`, nil)
	c.InheritEnv, c.Stdout = true, os.Stdout
	guard.Run(t.Context(), c)
}

// A guard process ends only its own descendants.
func TestUnrelatedProcessesContinue(t *testing.T) {
	other := exec.Command("sleep", "62")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	first, err := guard.Start(shell("sleep 62", nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Run(t.Context(), shell("sleep 62 & setsid sleep 62 &", nil)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.Done():
		t.Error("another command has ended too")
	default:
	}
	first.Stop()
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the unrelated process: %v", err)
	}
	other.Process.Kill()
}

// The other end of a standard stream sees when a command below a guard process closes it.
func TestWrap(t *testing.T) {
	path, args := guard.Wrap("sh", "-c", "exec >&-; exec sleep 61")
	cmd := exec.Command(path, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := out.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, error %v", n, err)
	}
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 143 {
		t.Error(err)
	}
}

func TestGuardRejectsConfig(t *testing.T) {
	for _, args := range [][]string{{"soon", "1"}, {"1s", "many"}} {
		cmd := exec.Command(os.Args[0], append([]string{"dovetail-process-guard"}, append(args, "true")...)...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 127 || len(out) == 0 {
			t.Errorf("%q: %v %s", args, err, out)
		}
	}
}
