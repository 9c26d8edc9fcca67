package soak

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long anything may take before it is taken to hang.
const patience = time.Minute

// A process is the test binary in a role.
type process struct {
	testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// start starts a process that ends with the test.
func start(t testing.TB, role string, env ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	// How large new stacks are is not left to the average that the collector has met: what
	// a stream takes would depend on what else runs when it opens.
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0", "GODEBUG=adaptivestackstart=0"), env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{TB: t, cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
	t.Cleanup(p.stop)
	return p
}

// stop ends the input, which ends the process.
func (p *process) stop() {
	_ = p.stdin.Close()
	hung := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer hung.Stop()
	_, _ = io.Copy(io.Discard, p.stdout)
	if err := p.cmd.Wait(); err != nil {
		p.Errorf("%s: %v", p.cmd.Args[0], err)
	}
}

// line reads a line of the process's output.
func (p *process) line() string {
	p.Helper()
	text, err := p.stdout.ReadString('\n')
	if err != nil {
		p.Fatalf("the process has ended: %v", err)
	}
	return strings.TrimSpace(text)
}

// memory reads a size in bytes from the kernel's account of the process, 0 where
// there is none.
func (p *process) memory(of string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == of {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kb << 10
		}
	}
	return 0
}

// rss is what the process takes of memory.
func (p *process) rss() int64 { return p.memory("VmRSS") }

// costs runs something and returns by how much the process has grown meanwhile, at
// its biggest.
func (p *process) costs(run func()) int64 {
	before := p.rss()
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0) // resets the peak
	run()
	return p.memory("VmHWM") - before
}

// atMost checks what something has cost.
func atMost(t testing.TB, what string, cost, limit int64) {
	t.Helper()
	t.Logf("%s: %.1f MiB, at most %.1f MiB are allowed", what, mib(cost), mib(limit))
	if cost > limit && !raced {
		t.Errorf("%s: %.1f MiB, want at most %.1f MiB", what, mib(cost), mib(limit))
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// A targetProcess is a target over HTTP in a process of its own.
type targetProcess struct {
	*process
	addr string
}

func startTarget(t testing.TB) *targetProcess {
	t.Helper()
	p := start(t, "http server")
	return &targetProcess{p, p.line()}
}

func (p *targetProcess) url(path string) string { return "http://" + p.addr + path }

func (p *targetProcess) state() state {
	p.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get(p.url("/state"))
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	var s state
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		p.Fatal(err)
	}
	return s
}

// await asks for the state until it is as it should be.
func (p *targetProcess) await(what string, reached func(state) bool) state {
	p.Helper()
	deadline := time.Now().Add(patience)
	for {
		s := p.state()
		if reached(s) {
			return s
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s: not after %v; the state is %+v", what, patience, s)
		}
		<-time.After(20 * time.Millisecond) // another process gives no signal
	}
}

// returns checks that everything that was taken has been given back. The runtime
// keeps about 512 bytes of each of the goroutines that there were at the same time.
func (p *targetProcess) returns(to state, goroutines int) {
	p.Helper()
	slack := int64(5<<20 + 512*goroutines)
	s := p.await("the process gives back what it has taken", func(s state) bool {
		return s.Goroutines <= to.Goroutines+2 && s.Descriptors <= to.Descriptors+2 && s.Heap <= to.Heap+slack
	})
	p.Logf("before %+v, after %+v", to, s)
}

// serves checks that the target still does its work.
func (p *targetProcess) serves() {
	p.Helper()
	c := dialRaw(p, p.addr)
	defer c.Close()
	c.callsEcho("still there?")
}
