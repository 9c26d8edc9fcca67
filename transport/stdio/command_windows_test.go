package stdio_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/transporttest"
)

// childVariable makes a process of this program a child of the tests.
const childVariable = "STDIO_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childVariable) {
	case "":
		leaktest.Main(m)
	case "server":
		if err := stdio.Serve(context.Background(), transporttest.Server(), nil); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(99)
		}
	case "exits after a line":
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Fprintln(os.Stderr, "last words")
		os.Exit(3)
	case "ignores its input":
		<-time.After(time.Minute)
	}
	os.Exit(0)
}

// silent refuses calls and drops notifications.
type silent struct{}

func (silent) Handle(context.Context, jsonrpc.Peer, *jsonrpc.Request, *jsonrpc.Reply) error {
	return &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "nothing is answered here"}
}

func (silent) HandleNotification(jsonrpc.Peer, *jsonrpc.Request) {}

func command(kind string) transport.Dialer {
	return stdio.Command(os.Args[0], nil, &stdio.CommandOptions{
		Grace: 200 * time.Millisecond, Env: []string{childVariable + "=" + kind},
	})
}

func TestCommandKit(t *testing.T) {
	transporttest.Run(t, func(*testing.T, transport.Binder) transport.Dialer { return command("server") })
}

func TestChildExits(t *testing.T) {
	conn, err := command("exits after a line").Dial(t.Context(), silent{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Call(t.Context(), "go", nil)
	var exit *stdio.ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), `exit status 3: "last words"`) {
		t.Errorf("the call failed with %v, want the exit status and the last line", err)
	}
}

func TestCloseKillsTheChild(t *testing.T) {
	conn, err := command("ignores its input").Dial(t.Context(), silent{})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-conn.Done():
	default:
		t.Error("Close returned before the child had ended")
	}
}

func TestDialFails(t *testing.T) {
	if _, err := stdio.Command(`C:\no such program.exe`, nil, nil).Dial(t.Context(), silent{}); err == nil {
		t.Error("a program that does not exist was started")
	}
}
