package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// launched runs the program in a process of its own.
func launched(t *testing.T, flags ...string) (p *program, kill func()) {
	t.Helper()
	p = &program{folder: t.TempDir()}
	return p, p.launch(t, append(p.flags(t), flags...))
}

// launch runs the program in a process of its own until it is killed.
func (p *program) launch(t *testing.T, line []string) (kill func()) {
	t.Helper()
	command := exec.Command(os.Args[0], line...)
	command.Env = append(os.Environ(), asProgram+"=1")
	said, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	p.pid = command.Process.Pid
	p.introduced(t, lines)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, lines)
	}()
	kill = func() {
		_ = command.Process.Kill() // it may have ended
		<-read
		_ = command.Wait() // it was killed
	}
	t.Cleanup(kill)
	return kill
}

// TestKilled: when the program is killed, a call without an approval is not executed. A call that had begun is not
// executed again. The journal tells the two apart.
func TestKilled(t *testing.T) {
	for _, test := range []struct {
		name    string
		decided decision
		want    []string // after the next start
		lines   int
	}{
		{"asked", never, []string{"asked", "withdrawn"}, 0},
		{"executing", accept, []string{"asked", "approved", "executing", "failed"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			journal := filepath.Join(t.TempDir(), "journal")
			p, kill := launched(t, "-journal", journal)
			asked := p.decide(t, test.decided)
			answered := make(chan error)
			rest := p.frontends(t)[1]
			go func() {
				_, err := rest.call(t.Context(), "put_and_stay", `{"path":`+encoded(t, p.path("file"))+`,"text":"x"}`)
				answered <- err
			}()
			isAsked(t, asked)
			for ticks := time.Tick(5 * time.Millisecond); len(p.lines(t, "file")) < test.lines; {
				<-ticks
			}
			kill()
			if err := <-answered; err == nil {
				t.Error("there is an answer")
			}
			start(t, "-journal", journal)
			if got := journalEvents(t, journal); !slices.Equal(got, test.want) {
				t.Errorf("the journal has %q, want %q", got, test.want)
			}
			if got := p.lines(t, "file"); len(got) != test.lines {
				t.Errorf("it is done %d times", len(got))
			}
		})
	}
}
