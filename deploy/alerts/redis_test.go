//go:build soak

package alerts

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A redis is a process of redis-server and a proxy before it.
type redis struct {
	t       *testing.T
	dir     string
	process *exec.Cmd
	proxy   *proxy
}

func newRedis(t *testing.T) *redis {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &redis{t: t, dir: dir}
	s.start()
	s.proxy = newProxy(t, s.socket())
	t.Cleanup(func() {
		s.stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *redis) socket() string { return filepath.Join(s.dir, "socket") }

func (s *redis) url() string { return "redis://" + s.proxy.listener.Addr().String() }

// start starts the process and waits until it accepts connections.
func (s *redis) start() {
	s.t.Helper()
	s.process = exec.Command("redis-server", "--port", "0", "--unixsocket", s.socket(), "--dir", s.dir, "--save", "", "--appendonly", "yes", "--daemonize", "no")
	output, err := s.process.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		if strings.Contains(lines.Text(), "ready to accept connections") {
			return // what it writes later fits into the pipe
		}
	}
	s.t.Fatalf("redis-server ended before it accepted connections: %v", s.process.Wait())
}

// stop kills the process.
func (s *redis) stop() {
	_ = s.process.Process.Kill() // it may have ended
	_ = s.process.Wait()         // it was killed
}

// wipe deletes all data.
func (s *redis) wipe() {
	s.t.Helper()
	conn, err := net.Dial("unix", s.socket())
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "FLUSHALL\r\n"); err != nil {
		s.t.Fatal(err)
	}
	if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || answer != "+OK\r\n" {
		s.t.Fatalf("FLUSHALL says %q %v", answer, err)
	}
}

// A proxy passes connections on to a socket.
type proxy struct {
	listener net.Listener
	socket   string
	running  sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]struct{} // nil when it has been closed
	delay time.Duration         // of each answer
	cut   string                // ends a connection that sends it, unless it is ""
}

func newProxy(t *testing.T, socket string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, socket: socket, open: make(map[net.Conn]struct{})}
	p.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.pass(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for conn := range p.open {
			_ = conn.Close()
		}
		p.open = nil
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

// delays delays each answer of the store.
func (p *proxy) delays(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// cuts ends each connection that sends a text. "" ends none.
func (p *proxy) cuts(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = text
}

// pass passes one connection on, until one side has ended it.
func (p *proxy) pass(from net.Conn) {
	to, err := net.Dial("unix", p.socket)
	if err != nil {
		_ = from.Close()
		return
	}
	end := sync.OnceFunc(func() {
		_ = from.Close()
		_ = to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, from)
	})
	defer end()
	p.mu.Lock()
	closed := p.open == nil
	if !closed {
		p.open[from] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		return
	}
	var answering sync.WaitGroup
	defer answering.Wait()
	defer end()
	answering.Go(func() {
		defer end()
		p.copy(from, to, func([]byte) bool {
			p.mu.Lock()
			delay := p.delay
			p.mu.Unlock()
			if delay > 0 {
				<-time.After(delay)
			}
			return true
		})
	})
	p.copy(to, from, func(piece []byte) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.cut == "" || !bytes.Contains(piece, []byte(p.cut))
	})
}

// copy copies pieces until passes is false for one.
func (p *proxy) copy(to io.Writer, from io.Reader, passes func(piece []byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !passes(buffer[:n]) {
			return
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}
