package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// executionLog is the variable that makes this binary a server and names the
// file where it writes down what it executes.
const executionLog = "DOVETAIL_TEST_EXECUTIONS"

type entry struct {
	Nonce string `json:"nonce"`
}

// serveNotary serves a tool that writes a nonce down at once, and then answers
// only if the nonce does not begin with "held".
func serveNotary(log string) int {
	s := server.New(mcp.Implementation{Name: "notary", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "note"}, func(ctx context.Context, r *server.Request, in entry) (int, error) {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		if _, err := f.WriteString(in.Nonce + "\n"); err != nil {
			return 0, err
		}
		if strings.HasPrefix(in.Nonce, "held") {
			if err := r.Progress(ctx, 1, 0, ""); err != nil {
				return 0, err
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return os.Getpid(), nil
	})
	if err := stdio.Serve(context.Background(), s, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func kill(t *testing.T, pid int) {
	t.Helper()
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// A server's process that is killed takes its calls with it, once: the session
// starts another and repeats nothing that may have been executed.
func TestProcessKilled(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(t.TempDir(), "executions")
		dialer := stdio.Command(self, nil, &stdio.CommandOptions{Env: []string{executionLog + "=" + log}})
		session := connect(t, dialer, client.Options{Era: era})
		ctx := t.Context()

		first, err := client.CallAs[int](ctx, session, "note", entry{"first"})
		if err != nil {
			t.Fatal(err)
		}
		const calls = 8
		begun, outcomes := make(chan struct{}, calls), make(chan error, calls)
		for i := range calls {
			go func() {
				opts := &client.CallOptions{Progress: func(*mcp.ProgressParams) { begun <- struct{}{} }}
				_, err := session.CallTool(ctx, "note", entry{"held-" + strconv.Itoa(i)}, opts)
				outcomes <- err
			}()
		}
		for range calls {
			<-begun
		}
		kill(t, first)
		for range calls {
			call := failed(t, <-outcomes, jsonrpc.MaybeExecuted)
			var exit *stdio.ExitError
			if !errors.Is(call, jsonrpc.ErrClosed) || !errors.As(call, &exit) {
				t.Errorf("a call in flight failed with %v, want the end of the process", call)
			}
		}

		second, err := client.CallAs[int](ctx, session, "note", entry{"last"})
		if err != nil {
			t.Fatalf("after the server was killed: %v", err)
		}
		if second == first {
			t.Error("the killed process answers")
		}
		executed := make(map[string]int)
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for nonce := range strings.FieldsSeq(string(data)) {
			executed[nonce]++
		}
		if len(executed) != calls+2 {
			t.Errorf("%d calls were executed, want %d: %v", len(executed), calls+2, executed)
		}
		for nonce, times := range executed {
			if times != 1 {
				t.Errorf("%s was executed %d times", nonce, times)
			}
		}
	})
}
