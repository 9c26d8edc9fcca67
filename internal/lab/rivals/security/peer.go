package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// A Peer is a library under attack.
type Peer struct {
	Name string
	// serve returns handlers of a server with the tools: an open one, and one that knows the users
	// of tokens.
	serve func(tools []tool) (open, protected http.Handler, err error)
	// serveStdio serves the tools on standard input and output.
	serveStdio func(ctx context.Context, tools []tool) error
	// connect connects a client.
	connect func(ctx context.Context, url string, opts *clientOptions) (session, error)
	// connectCommand connects a client to a program.
	connectCommand func(ctx context.Context, path string, env []string) error
	// login has a client connect to a server that demands OAuth. host is the host of the server.
	login func(ctx context.Context, url, host string) error
	// gateway is nil for a library without a gateway, policies, approvals and journals.
	gateway gateway

	process *process
}

// A session is a connected client.
type session interface {
	// call lists the tools and calls one. It returns the text of the result.
	call(ctx context.Context, tool string, arguments map[string]any) (string, error)
	close()
}

type clientOptions struct {
	// asked is called for each form that the user would get. Without it the client supports
	// none.
	asked func(message string)
}

// A gateway has what a library offers between agents and servers. Each method starts something
// at a URL, which ends with ctx.
type gateway interface {
	// pinned offers the tools of an upstream server. The first call accepts what is offered; later
	// calls with the same state offer no other definitions.
	pinned(ctx context.Context, upstream string, state *pinState) (url string, err error)
	// exposed returns the name that pinned gives a tool.
	exposed(tool string) string
	// restricted offers the tools of this program under a policy.
	restricted(ctx context.Context, policy string) (url string, err error)
	// approved offers the tools of this program. A call of run waits for an approver at another URL.
	approved(ctx context.Context) (url, approver, token string, err error)
	// journal makes calls that are approved, records them in a file, and returns a digest of each
	// call: of the tool and the argument.
	journal(ctx context.Context, path string, calls []journaled) (digests []string, err error)
	// verify checks the journal.
	verify(path string) error
	// register serves the route that adds a server by its URL. It needs the token of an operator.
	register(ctx context.Context) (url, operator string, err error)
}

// A journaled call has one argument, which is also the reason of the approval.
type journaled struct{ tool, argument string }

// Tokens of the users of a protected server.
const (
	aliceToken = "alice-0123456789abcdef0123456789"
	bobToken   = "bob-0123456789abcdef0123456789"
)

func allPeers() []*Peer {
	return []*Peer{dovetailPeer(), gosdkPeer(), mcpgoPeer(), carelessPeer()}
}

func peerNamed(name string) *Peer {
	for _, p := range allPeers() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// roleVariable is the role of a process of this program, and peerVariable its peer.
const (
	roleVariable = "DOVETAIL_SECURITY_ROLE"
	peerVariable = "DOVETAIL_SECURITY_PEER"
)

// Roles of processes.
const (
	roleHTTP   = "http"   // serves at a socket
	roleStdio  = "stdio"  // serves on standard input and output
	roleClient = "client" // connects to a process that floods it
	roleFlood  = "flood"  // is that process
)

// runRole does what the environment says. It returns false if that is nothing.
func runRole(ctx context.Context) (bool, error) {
	role := os.Getenv(roleVariable)
	if role == "" {
		return false, nil
	}
	if role == roleFlood {
		flood(os.Stdout)
		return true, nil
	}
	p := peerNamed(os.Getenv(peerVariable))
	if p == nil {
		return true, fmt.Errorf("unknown peer %q", os.Getenv(peerVariable))
	}
	quiet()
	switch role {
	case roleHTTP:
		return true, p.serveHTTP()
	case roleStdio:
		return true, p.serveStdio(ctx, allTools())
	case roleClient:
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		program, err := os.Executable()
		if err != nil {
			return true, err
		}
		if err := p.connectCommand(ctx, program, []string{roleVariable + "=" + roleStdio, peerVariable + "=" + allPeers()[0].Name}); err != nil {
			return true, fmt.Errorf("%w: %w", errHarmless, err)
		}
		failure := p.connectCommand(ctx, program, []string{roleVariable + "=" + roleFlood})
		memory, err := peakMemory(os.Getpid())
		fmt.Println(memory, failure == nil)
		return true, err
	}
	return true, fmt.Errorf("unknown role %q", role)
}

// serveHTTP serves until standard input ends. It prints its address.
func (p *Peer) serveHTTP() error {
	open, protected, err := p.serve(allTools())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", open)
	mux.Handle("/protected", protected)
	mux.HandleFunc("/heap", func(w http.ResponseWriter, _ *http.Request) {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&stats)
		fmt.Fprint(w, stats.HeapAlloc)
	})
	mux.HandleFunc("/peak", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, peak.Load()) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte() // ends with the parent
		os.Exit(0)
	}()
	return (&http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}).Serve(listener)
}

// A process is a server of a peer.
type process struct {
	cmd  *exec.Cmd
	url  string
	done chan struct{} // closed when the process has ended
	end  func()
}

// child returns a process of this program in a role.
func (p *Peer) child(ctx context.Context, role string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, peerVariable+"="+p.Name)
	return cmd, nil
}

// server returns the URL of a server process of the peer. It is started when it is first
// needed, and again when it has crashed.
func (p *Peer) server() (string, error) {
	if p.process != nil {
		select {
		case <-p.process.done:
			p.stop()
		default:
			return p.process.url, nil
		}
	}
	cmd, err := p.child(context.Background(), roleHTTP)
	if err != nil {
		return "", err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	p.process = &process{cmd: cmd, done: make(chan struct{}), end: func() { in.Close() }}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func(done chan struct{}) {
		defer close(done)
		_ = cmd.Wait()
	}(p.process.done)
	if err != nil {
		p.stop()
		return "", errors.Join(errors.New("the server did not start"), err)
	}
	p.process.url = strings.TrimSpace(line)
	return p.process.url, nil
}

// fresh returns the URL of a new server process.
func (p *Peer) fresh() (string, error) {
	p.stop()
	return p.server()
}

// stop ends the server process.
func (p *Peer) stop() {
	if p.process == nil {
		return
	}
	p.process.end()
	select {
	case <-p.process.done:
	case <-time.After(2 * time.Second):
		_ = p.process.cmd.Process.Kill()
		<-p.process.done
	}
	p.process = nil
}
