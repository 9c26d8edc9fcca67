package soak

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server"
)

// blackholes are the clients whose network goes down.
var blackholes = []struct {
	name, transport string
	era             client.Era
}{
	{"streamable modern", "streamable", client.Modern},
	{"streamable legacy", "streamable", client.Legacy},
	{"sse", "sse", client.Legacy},
	{"ws", "ws", client.Modern},
}

// When the network goes down during a call, the client notices with its default options: over
// HTTP because two probes of TCP are not answered, over WebSocket because pings are not.
func TestNetworkGoesDown(t *testing.T) {
	if scaled(t, 0, 1) == 0 {
		t.Log("it takes 45 seconds, so it is only part of the full counts")
		return
	}
	cmd := exec.Command(os.Args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := exec.Command("unshare", "-n", "true").Run(); err != nil {
		t.Logf("a network of its own cannot be had here: %v", err)
		return
	}
	p := startCommand(t, cmd, "blackhole")
	for range blackholes {
		name, rest, _ := strings.Cut(p.line(), ": ")
		took, delivery, _ := strings.Cut(rest, " ")
		after, err := time.ParseDuration(took)
		if err != nil || after > timeout || delivery != jsonrpc.MaybeExecuted.String() {
			t.Errorf("%s: %s", name, rest)
		}
		t.Logf("%s: the call fails after %v", name, after)
	}
}

// runBlackhole is the main function of a process with a network of its own. It takes the
// network down while calls run, and prints how they end.
func runBlackhole() error {
	if err := setLoopback(true); err != nil {
		return err
	}
	target := newTarget()
	var holding atomic.Int64
	server.AddTool(target.mcp, server.Tool{Name: "hold"}, func(ctx context.Context, _ *server.Request, _ echoIn) (string, error) {
		holding.Add(1)
		<-ctx.Done()
		return "", ctx.Err()
	})
	mux, closeAll := target.mux()
	web := httptest.NewServer(mux)
	lines := make(chan string, len(blackholes))
	var down atomic.Pointer[time.Time]
	for _, b := range blackholes {
		session, err := client.Connect(context.Background(), dialerOf(b.transport, web.URL), &client.Options{Era: b.era, NoReconnect: true})
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		defer session.Close()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
			defer cancel()
			_, err := echoed(ctx, session, "hold", "")
			failed, ok := errors.AsType[*jsonrpc.CallError](err)
			if !ok || down.Load() == nil {
				lines <- fmt.Sprintf("%s: error %v", b.name, err)
				return
			}
			lines <- fmt.Sprintf("%s: %v %v", b.name, time.Since(*down.Load()).Round(time.Millisecond), failed.Delivery)
		}()
	}
	for holding.Load() < int64(len(blackholes)) {
		<-time.After(10 * time.Millisecond)
	}
	<-time.After(time.Second) // acknowledgements are delayed; TCP does not probe before they arrive
	now := time.Now()
	down.Store(&now)
	if err := setLoopback(false); err != nil {
		return err
	}
	for range blackholes {
		fmt.Println(<-lines)
	}
	if err := setLoopback(true); err != nil {
		return err
	}
	web.CloseClientConnections()
	closeAll()
	web.Close()
	return nil
}

// setLoopback starts or stops the loopback interface of the process's network.
func setLoopback(up bool) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, loopback); err != nil {
		return err
	}
	flags := loopback.Uint16() &^ unix.IFF_UP
	if up {
		flags |= unix.IFF_UP
	}
	loopback.SetUint16(flags)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback)
}
