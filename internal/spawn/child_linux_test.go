package spawn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// When a child has ended, its id may be given to somebody else, who is not to be signalled.
func TestAnotherHasGotTheID(t *testing.T) {
	ended := make(chan error, 1)
	cmd := exec.Command("true")
	child, err := Launch(cmd, syscall.SIGKILL, func(err error) { ended <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	other, in, out := namesake(t, cmd.Process.Pid)
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

// namesake starts a process with an id that is free, which leads a group and echoes lines.
func namesake(t *testing.T, pid int) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader) {
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

// What a child leaves behind in its group ends with it.
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

// Who launches a command learns that its output is not all.
func TestOutputIsHeld(t *testing.T) {
	ended := make(chan error, 1)
	cmd := exec.Command("sh", "-c", "setsid sleep 1 & sleep 0.1")
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
