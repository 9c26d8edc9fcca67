package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// systemRoles returns the roles that exist only on this system.
func systemRoles() map[string]func() error {
	return map[string]func() error{"spawning server": serveSpawning, "patient server": servePatient, "retaining server": serveRetaining, "starved client": runStarvedClient, "blackhole": runBlackhole}
}

// servePatient is the main function of a target over HTTP that waits for clients for as long as
// it does by default, since abuse makes all of them slow.
func servePatient() error {
	t := newTarget()
	t.writeTimeout = transport.Limits{}.WithDefaults().WriteTimeout
	return serveTarget(t)
}

// serveSpawning is the main function of a target over HTTP with the tool spawn.
func serveSpawning() error {
	t := newTarget()
	addSpawn(t)
	return serveTarget(t)
}

// maxFiles is the limit of open files of a server. A Go program needs about ten.
const maxFiles = 64

// addSpawn adds a tool that starts a server as a child process, calls it and ends it.
func addSpawn(t *target) {
	server.AddTool(t.mcp, server.Tool{Name: "spawn"}, func(ctx context.Context, _ *server.Request, in echoIn) (string, error) {
		session, err := client.Connect(ctx, dialerOf("stdio", "stdio server"), nil)
		switch {
		case errors.Is(err, syscall.EMFILE):
			return "too many files", nil
		case err != nil:
			return "", err
		}
		defer session.Close()
		return echoed(ctx, session, "echo", in.Nonce)
	})
}

// A server without free file descriptors continues its sessions, does not use the processor,
// and reports why it cannot start a child. When connections end, it accepts new ones.
func TestTooManyOpenFiles(t *testing.T) {
	cmd := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, maxFiles), os.Args[0])
	p := startCommand(t, cmd, "spawning server")
	addr := p.line()
	session, err := client.Connect(t.Context(), streamable.Dial("http://"+addr+"/mcp", nil), &client.Options{Era: client.Modern})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	spawned := func() string {
		t.Helper()
		text, err := echoed(t.Context(), session, "spawn", "spawned")
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := spawned(); got != "spawned" {
		t.Fatalf("the child answers %q", got)
	}

	idle := make([]net.Conn, 2*maxFiles) // the kernel accepts those that the server cannot
	for i := range idle {
		if idle[i], err = net.Dial("tcp", addr); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the server has no free descriptors", func() bool { return spawned() == "too many files" })
	before := p.cpu()
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; {
		if text, err := echoed(t.Context(), session, "echo", "during"); text != "during" || err != nil {
			t.Fatalf("a session that is open gets %q, %v", text, err)
		}
		<-time.After(50 * time.Millisecond)
	}
	if used := p.cpu() - before; used > 250*time.Millisecond && !racetest.Enabled {
		t.Errorf("the server uses the processor for %v in half a second", used)
	}

	for _, conn := range idle {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	fresh := dialRaw(t, addr)
	defer fresh.Close()
	fresh.callsEcho("afterwards")
	await(t, "a child can be started", func() bool { return spawned() == "spawned" })
}

// cpu returns the processor time of the process.
func (p *process) cpu() time.Duration {
	p.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // from the third field on: proc_pid_stat(5)
	var ticks int
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.Atoi(field)
		if err != nil {
			p.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// abuses are requests that need much memory. Each is sent on a connection of its own, several
// at a time. The server may refuse them or end the connection.
var abuses = map[string]func(c *raw, i int){
	"a large array": func(c *raw, i int) {
		header, body := modernCall(i, "echo", `{"nonce":[`+strings.Repeat("0,", 2<<20-1<<10)+`0]}`)
		c.sendLoosely(header, body)
	},
	"deep nesting": func(c *raw, i int) {
		header, body := modernCall(i, "echo", strings.Repeat(`{"nonce":[`, 100_000))
		c.sendLoosely(header, body)
	},
	"a large string": func(c *raw, i int) {
		header, body := modernCall(i, "echo", nonceJSON(strings.Repeat("é", 2<<20-1<<10)))
		c.sendLoosely(header, body)
	},
	"an unfinished body": func(c *raw, i int) {
		header, _ := modernCall(i, "echo", "")
		_, _ = fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", header, 4<<20, strings.Repeat(" ", 1<<20))
	},
	"a session": func(c *raw, _ int) { c.sendLoosely(jsonHeader, legacyHello) },
	"an oversized message": func(c *raw, _ int) {
		_, _ = fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n%sTransfer-Encoding: chunked\r\n\r\n", jsonHeader)
		for range 128 {
			if _, err := fmt.Fprintf(c, "10000\r\n%s\r\n", strings.Repeat("x", 64<<10)); err != nil {
				return
			}
		}
	},
	"a WebSocket with an unfinished message": func(c *raw, _ int) {
		if _, err := io.WriteString(c, wsHandshake); err == nil {
			_, _ = c.Write(append(frameHeader(wsText, 1<<20, true), strings.Repeat("[", 1<<20)...))
		}
	},
}

// sendLoosely sends a request. The server may end the connection before it is complete.
func (c *raw) sendLoosely(header, body string) {
	_, _ = fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body)
}

const (
	// memoryLimit is the GOMEMLIMIT of the server in [TestLittleMemory].
	memoryLimit = 64 << 20
	// abuseLimit is how much memory the server may need at the peak.
	abuseLimit = 256 << 20
	// abusers is how many connections abuse the server at the same time.
	abusers = 4
)

// A server with little memory survives abuse, answers other clients meanwhile, and gives the
// memory back.
func TestLittleMemory(t *testing.T) {
	p := start(t, "patient server", fmt.Sprintf("GOMEMLIMIT=%d", memoryLimit))
	target := &targetProcess{p, p.line()}
	target.serves()
	before := target.state()
	normal := dialRaw(t, target.addr)
	defer normal.Close()
	peak := target.rss() + target.costs(func() {
		for name, abuse := range abuses {
			requests := scaled(t, abusers, 200)
			done := make(chan struct{})
			defer func() { <-done }() // also after a failure
			go func() {
				defer close(done)
				inParallel(requests, abusers, func(i int) {
					c := dialRaw(t, target.addr)
					defer c.hangUp()
					abuse(c, i+1)
					_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)) // some get no answer
					_, _ = io.ReadFull(c, make([]byte, 12))
				})
			}()
			normal.latencies("beside "+name, scaled(t, 20, 200))
			<-done
		}
	})
	atMost(t, "the peak of the server", peak, abuseLimit)
	// Sessions outlive their connections.
	target.await("the memory is free", func(s state) bool { return s.Heap <= before.Heap+32<<20 })
	target.serves()
}

// Children that a client starts without free descriptors fail before anything is sent.
func TestSpawnWithoutDescriptors(t *testing.T) {
	cmd := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0"`, maxFiles), os.Args[0])
	p := startCommand(t, cmd, "starved client")
	if got := p.line(); got != "too many open files" {
		t.Errorf("the error is %s", got)
	}
	if got := p.line(); got != echoText {
		t.Errorf("afterwards the client gets %s", got)
	}
}

// runStarvedClient is the main function of a client that uses up its descriptors.
func runStarvedClient() error {
	var files []*os.File
	for {
		file, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		files = append(files, file)
	}
	said := make(map[string]bool)
	var mu sync.Mutex
	inParallel(4, 4, func(int) {
		_, err := visit(dialerOf("stdio", "stdio server"), &client.Options{})
		mu.Lock()
		defer mu.Unlock()
		var failed *jsonrpc.CallError
		if !errors.Is(err, syscall.EMFILE) || errors.As(err, &failed) && failed.Delivery != jsonrpc.NotSent {
			said[fmt.Sprintf("error %q", err)] = true
			return
		}
		said[syscall.EMFILE.Error()] = true
	})
	for text := range said {
		fmt.Println(text)
	}
	for _, file := range files {
		if err := file.Close(); err != nil {
			return err
		}
	}
	text, err := visit(dialerOf("stdio", "stdio server"), &client.Options{})
	fmt.Println(text)
	return err
}
