package soak

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// roleVariable holds the role of a process of the test binary.
const roleVariable = "SOAK_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(roleVariable); role {
	case "":
		leaktest.Main(m)
	case "http server":
		err = serveHTTP()
	case "small calls":
		err = makeSmallCalls()
	case "default server":
		err = serveDefaults()
	case "stdio server":
		err = serveStdio()
	case "bridge":
		err = serveBridge()
	case "recorder":
		err = serveRecorder()
	case "client":
		err = runClient()
	case "gateway":
		err = serveGateway()
	case "cut server":
		err = serveCut()
	case "stdio flood":
		err = floodStdio()
	default:
		run, ok := systemRoles()[role]
		if !ok {
			err = fmt.Errorf("there is no role %q", role)
			break
		}
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	os.Exit(leaktest.Check(os.Stderr))
}

// timeout is how long an operation may take.
const timeout = time.Minute

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
	return startCommand(t, exec.Command(os.Args[0]), role, env...)
}

// startCommand is start with a command that runs the test binary.
func startCommand(t testing.TB, cmd *exec.Cmd, role string, env ...string) *process {
	t.Helper()
	// Without adaptive stacks, the memory of a stream does not depend on what else runs.
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

// stop closes the standard input, which ends the process.
func (p *process) stop() {
	_ = p.stdin.Close()
	hung := time.AfterFunc(timeout, func() { _ = p.cmd.Process.Kill() })
	defer hung.Stop()
	_, _ = io.Copy(io.Discard, p.stdout)
	if err := p.cmd.Wait(); err != nil {
		p.Errorf("%s: %v", p.cmd.Args[0], err)
	}
}

// line reads a line of the standard output.
func (p *process) line() string {
	p.Helper()
	text, err := p.stdout.ReadString('\n')
	if err != nil {
		p.Fatalf("the process has ended: %v", err)
	}
	return strings.TrimSpace(text)
}

// memory returns a size of /proc/PID/status in bytes, 0 if there is none.
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

// rss returns the resident memory of the process.
func (p *process) rss() int64 { return p.memory("VmRSS") }

// costs calls a function and returns by how much the peak memory of the process has
// grown.
func (p *process) costs(run func()) int64 {
	before := p.rss()
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0) // resets the peak
	run()
	return p.memory("VmHWM") - before
}

// atMost checks a size against a limit.
func atMost(t testing.TB, what string, cost, limit int64) {
	t.Helper()
	t.Logf("%s: %.1f MiB, at most %.1f MiB are allowed", what, mib(cost), mib(limit))
	if cost > limit && !racetest.Enabled {
		t.Errorf("%s: %.1f MiB, want at most %.1f MiB", what, mib(cost), mib(limit))
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// A targetProcess is a target over HTTP in its own process.
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
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: timeout}
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

// await polls the state until it is as expected.
func (p *targetProcess) await(what string, reached func(state) bool) state {
	p.Helper()
	deadline := time.Now().Add(timeout)
	for {
		s := p.state()
		if reached(s) {
			return s
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s: not after %v; the state is %+v", what, timeout, s)
		}
		<-time.After(20 * time.Millisecond) // another process cannot be waited for
	}
}

// returns checks that the process has released its resources. The runtime keeps about 512
// bytes for each goroutine of the peak.
func (p *targetProcess) returns(to state, goroutines int) {
	p.Helper()
	slack := int64(5<<20 + 512*goroutines)
	s := p.await("the process gives back what it has taken", func(s state) bool {
		return s.Goroutines <= to.Goroutines+2 && s.Descriptors <= to.Descriptors+2 && s.Heap <= to.Heap+slack
	})
	if s.Blocked {
		p.Error("goroutines of the process are blocked forever; it prints them when it ends")
	}
	p.Logf("before %+v, after %+v", to, s)
}

// serves checks that the target answers a call.
func (p *targetProcess) serves() {
	p.Helper()
	c := dialRaw(p, p.addr)
	defer c.Close()
	c.callsEcho("still there?")
}

// A supervised process is restarted whenever it ends, until the test ends.
type supervised struct {
	testing.TB
	role    string
	env     []string
	mu      sync.Mutex
	process *os.Process
	stdin   io.Closer
	over    bool
	ended   chan struct{}
}

// supervise starts a supervised process in a role.
func supervise(t testing.TB, role string, env ...string) *supervised {
	t.Helper()
	s := &supervised{TB: t, role: role, env: env, ended: make(chan struct{})}
	first, err := s.start()
	if err != nil {
		t.Fatal(err)
	}
	go s.keep(first)
	t.Cleanup(s.stop)
	return s
}

func (s *supervised) start() (*exec.Cmd, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, nil
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), roleVariable+"="+s.role, "GORACE=atexit_sleep_ms=0"), s.env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.process, s.stdin = cmd.Process, stdin
	return cmd, nil
}

func (s *supervised) keep(cmd *exec.Cmd) {
	defer close(s.ended)
	for cmd != nil {
		err := cmd.Wait()
		if exit, ok := err.(*exec.ExitError); !ok || exit.Exited() { // it was not killed
			s.mu.Lock()
			if over := s.over; err != nil || !over {
				s.Errorf("%s has ended: %v", s.role, err)
			}
			s.mu.Unlock()
		}
		if cmd, err = s.start(); err != nil {
			s.Error(err)
		}
	}
}

// pid returns the ID of the running process.
func (s *supervised) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Pid
}

// kill kills the running process and returns its ID.
func (s *supervised) kill() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.Kill(); err != nil {
		s.Errorf("%s: %v", s.role, err)
	}
	return s.process.Pid
}

// stop closes the standard input of the process, which ends it.
func (s *supervised) stop() {
	s.mu.Lock()
	s.over = true
	_ = s.stdin.Close()
	s.mu.Unlock()
	<-s.ended
}

// freeAddress returns an address whose port is not in the range of outgoing connections,
// so that it stays free.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("there is no free port")
	return ""
}
