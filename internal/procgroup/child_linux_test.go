package procgroup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
)

// A signal to a child that has ended must not reach another process with the same id.
func TestReusedProcessID(t *testing.T) {
	ended := make(chan error, 1)
	cmd := exec.Command("true")
	child, err := Launch(cmd, syscall.SIGKILL, func(err error) { ended <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	other, in, out := startWithID(t, cmd.Process.Pid)
	child.Terminate()
	child.Kill()
	if _, err := fmt.Fprintln(in, "alive"); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "alive\n" {
		t.Errorf("the other says %q: %v", line, err)
	}
	in.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}

// startWithID starts a process with a given free id, which leads a group and echoes lines.
func startWithID(t *testing.T, pid int) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader) {
	t.Helper()
	for range 1000 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Append(nil, pid-1), 0); err != nil {
			t.Skip(err) // for root only
		}
		cmd := exec.Command("cat")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == pid {
			return cmd, in, out
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	t.Skip("others are faster to get the id")
	return nil, nil, nil
}

// Processes that a child leaves in its group are killed when it ends.
func TestGroupEndsWithItsLeader(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	ended := make(chan error, 1)
	cmd := exec.Command("sh", "-c", "sleep 61 &")
	cmd.Stdout = write
	if _, err := Launch(cmd, syscall.SIGKILL, func(err error) { ended <- err }); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the output is still open: %v", err)
	}
}

// A child has ended as soon as its process has, before its parent waits for it and ends what it has left behind.
func TestHasEnded(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := &Child{cmd: cmd}
	if child.HasEnded() {
		t.Error("a child that waits for input has ended")
	}
	in.Close()
	waittest.Until(t, "the end of the child", child.HasEnded)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if child.killGroup(); !child.HasEnded() {
		t.Error("a child that was waited for has not ended")
	}
}

// The error of an ended command reports that its output is still open.
func TestOutputIsHeld(t *testing.T) {
	ended := make(chan error, 1)
	cmd := exec.Command("sh", "-c", "env -i setsid sleep 1 & sleep 0.1")
	cmd.Stdout, cmd.WaitDelay = io.MultiWriter(), 10*time.Millisecond
	if _, err := Launch(cmd, syscall.SIGKILL, func(err error) { ended <- err }); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, exec.ErrWaitDelay) {
		t.Error(err)
	}
}

func TestNotLaunched(t *testing.T) {
	_, err := Launch(exec.Command("/no/such/program"), syscall.SIGKILL, func(error) { t.Error("it has ended") })
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// Processes that have left the group of a child are killed when it ends, and others are not.
func TestDaemonsEndWithTheirAncestor(t *testing.T) {
	other := exec.Command("sleep", "61")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait() // it was killed
	defer other.Process.Kill()
	for name, script := range map[string]string{
		"session":         "setsid sleep 61 & sleep 0.1",
		"daemon":          "(setsid sh -c 'sleep 61 & sleep 61 &' &) ; sleep 0.1",
		"ignores signals": "(trap '' TERM HUP INT; setsid nohup sleep 61 &) ; sleep 0.1",
		"stopped":         "setsid sh -c 'kill -STOP $$' & sleep 0.1",
		"many":            "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do setsid sh -c 'sleep 61 & sleep 61' & done; sleep 0.1",
		"creates more":    "setsid sh -c 'for i in 1 2 3 4 5 6 7 8; do setsid sh -c \"sleep 0.02; sleep 61\" & sleep 0.01; done' & sleep 0.1",
	} {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		ended := make(chan error, 1)
		cmd := exec.Command("sh", "-c", script)
		cmd.Stdout = write // each process holds it open
		child, err := Launch(cmd, syscall.SIGKILL, func(err error) { ended <- err })
		if err != nil {
			t.Fatal(err)
		}
		write.Close()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := read.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := read.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: the output is still open: %v", name, err)
		}
		if left := marked(child.mark, 0); len(left) != 0 {
			t.Errorf("%s: still running: %v", name, left)
		}
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another process was killed: %v", err)
	}
}

// A child of a child has the marks of both, so that it ends with either.
func TestMarksAddUp(t *testing.T) {
	t.Setenv(MarkVariable, "/OUTER")
	ended := make(chan error, 1)
	var out bytes.Buffer
	cmd := exec.Command("env")
	cmd.Env, cmd.Stdout = []string{}, &out
	child, err := Launch(cmd, syscall.SIGKILL, func(err error) { ended <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if want := MarkVariable + "=/OUTER/" + child.mark + "\n"; out.String() != want {
		t.Errorf("the environment is %q, want %q", &out, want)
	}
}

func TestUnmarked(t *testing.T) {
	environ := []string{"A=1", MarkVariable + "=/x/y", "B=" + MarkVariable}
	if got := Unmarked(environ); len(got) != 2 || got[0] != "A=1" || got[1] != "B="+MarkVariable || len(environ) != 3 {
		t.Errorf("%q of %q", got, environ)
	}
}
