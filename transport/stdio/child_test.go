//go:build unix

package stdio_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// What a child of the tests finds in its environment.
const (
	aliveVariable  = "STDIO_TEST_ALIVE"  // a socket to hold open as long as it lives
	heirVariable   = "STDIO_TEST_HEIR"   // the socket for the child of a parent
	markerVariable = "STDIO_TEST_MARKER" // a file to write when it ends as it should
)

// child is the whole of a process that the tests start. The well-behaved ones
// serve; the evil ones answer "echo", leave "hold" unanswered, say to "held" how often
// they have done that, and do to "go" what they are named after.
func child(kind string) int {
	if address := os.Getenv(aliveVariable); address != "" {
		alive, err := net.Dial("unix", address)
		if err != nil {
			return complain(err)
		}
		defer alive.Close()
	}
	switch kind {
	case "kit":
		return serve(context.Background(), transporttest.Server())
	case "greeter":
		return serve(context.Background(), greeter{})
	case "stray":
		return serve(context.Background(), binder(strayPrinter{}))
	case "quits":
		ctx, cancel := context.WithCancel(context.Background())
		return serve(ctx, binder(quitter{cancel}))
	case "parent":
		return parent()
	case "sleeper":
		sleep()
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		sleep()
	case "stopped":
		return complain(syscall.Kill(os.Getpid(), syscall.SIGSTOP))
	case "talks on":
		return talkOn()
	}
	return evil(kind)
}

// sleep outlasts every test, and yet leaves no process behind for ever when one
// fails.
func sleep() { <-time.After(time.Minute) }

func complain(err error) int {
	fmt.Fprintln(os.Stderr, "child:", err)
	return 99
}

func serve(ctx context.Context, server transport.Binder) int {
	if err := stdio.Serve(ctx, server, nil); err != nil {
		return complain(err)
	}
	return 0
}

// evil reads requests until it is told to go.
func evil(kind string) int {
	if kind == "banner" {
		fmt.Print("Welcome!\r\n\n\ufeff{\"jsonrpc\":\"2.0\",\"method\":\"bom\"}\n\x1b[32mready\x1b[0m\n[]\nnull\n\xff\xfe\n" +
			strings.Repeat("x", 100_000) + "\n" + `{"jsonrpc":"2.0","id":77,"result":{}}` + "\n")
	}
	in := bufio.NewReader(os.Stdin)
	held := 0
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		msg, err := jsonrpc.Decode(bytes.TrimSpace(line))
		if err != nil {
			return complain(err)
		}
		req, ok := msg.(*jsonrpc.Request)
		switch {
		case !ok:
		case req.Method == "echo":
			if kind == "banner" {
				fmt.Print("about to answer\n")
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, req.Params)
		case req.Method == "hold":
			held++
		case req.Method == "held":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%d}`+"\n", req.ID, held)
		case req.Method == "go":
			if code, ended := goes(kind, req); ended {
				return code
			}
		}
	}
}

// goes does what the kind of child is for.
func goes(kind string, req *jsonrpc.Request) (code int, ended bool) {
	switch kind {
	case "exits":
		fmt.Fprint(os.Stderr, "first words\nlast words\n")
		return 3, true
	case "ends":
		return 0, true
	case "crashes":
		return complain(syscall.Kill(os.Getpid(), syscall.SIGKILL)), true
	case "half a line":
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"half":`, req.ID)
		return 1, true
	case "closes stdout":
		if err := os.Stdout.Close(); err != nil {
			return complain(err), true
		}
		sleep()
	case "closes stdin":
		if err := os.Stdin.Close(); err != nil {
			return complain(err), true
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":"closed"}`+"\n", req.ID)
		sleep()
	case "leaves a child":
		if err := startHeir(false); err != nil {
			return complain(err), true
		}
		return 5, true
	case "leaves a stray child":
		if err := startHeir(true); err != nil {
			return complain(err), true
		}
		return 0, true
	case "keeps a child":
		if err := startHeir(false); err != nil {
			return complain(err), true
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":"kept"}`+"\n", req.ID)
	case "floods stderr":
		noise := bytes.Repeat([]byte("noise noise noise noise noise\n"), 1<<15)
		for written := 0; written < 40<<20; written += len(noise) {
			if _, err := os.Stderr.Write(noise); err != nil {
				return complain(err), true
			}
		}
		fmt.Fprintln(os.Stderr, "flooded")
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":"flooded"}`+"\n", req.ID)
	case "environment":
		env, err := json.Marshal(os.Environ())
		if err != nil {
			return complain(err), true
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, env)
	}
	return 0, false
}

// startHeir starts a process that holds the output open and outlives this one; a
// stray one is not of its group.
func startHeir(stray bool) error {
	heir := exec.Command(os.Args[0])
	heir.Env = append(os.Environ(), childVariable+"=sleeper")
	heir.Stdout, heir.Stderr = os.Stdout, os.Stderr
	heir.SysProcAttr = &syscall.SysProcAttr{Setsid: stray}
	if err := heir.Start(); err != nil {
		return err
	}
	_, err := fmt.Printf(`{"jsonrpc":"2.0","method":"heir","params":[%d]}`+"\n", heir.Process.Pid)
	return err
}

// talkOn answers at length when its input has ended, as a server does that
// finishes its work, and leaves a mark.
func talkOn() int {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return complain(err)
	}
	line := `{"jsonrpc":"2.0","method":"late","params":["` + strings.Repeat("x", 1000) + `"]}` + "\n"
	for range 1000 {
		if _, err := os.Stdout.WriteString(line); err != nil {
			return complain(err)
		}
	}
	if err := os.WriteFile(os.Getenv(markerVariable), []byte("done"), 0o600); err != nil {
		return complain(err)
	}
	return 0
}

// parent dials a child of its own, says so, and waits to be killed.
func parent() int {
	dialer := stdio.Command(os.Args[0], nil, &stdio.CommandOptions{
		Env: []string{childVariable + "=deaf", aliveVariable + "=" + os.Getenv(heirVariable)},
	})
	if _, err := dialer.Dial(context.Background(), silent{}); err != nil {
		return complain(err)
	}
	sleep()
	return 0
}

// binder binds one handler to all links.
func binder(h jsonrpc.Handler) transport.Binder { return handlerBinder{h} }

type handlerBinder struct{ handler jsonrpc.Handler }

func (b handlerBinder) Bind(transport.Link) jsonrpc.Handler { return b.handler }

// silent refuses calls and drops notifications.
type silent struct{}

func (silent) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing is answered here"}
}

func (silent) Notified(jsonrpc.Peer, *jsonrpc.Request) {}

// strayPrinter prints, and has a child print, before it answers.
type strayPrinter struct{ silent }

func (strayPrinter) Handle(ctx context.Context, _ jsonrpc.Peer, req *jsonrpc.Request, reply *jsonrpc.Reply) error {
	fmt.Println("stray print")
	cmd := exec.CommandContext(ctx, "echo", "stray child")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		return err
	}
	return reply.Write(jsonrpc.Raw(req.Params))
}

// quitter ends Serve's context when it is called.
type quitter struct{ cancel context.CancelFunc }

func (quitter) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "it takes notifications"}
}

func (q quitter) Notified(jsonrpc.Peer, *jsonrpc.Request) { q.cancel() }
