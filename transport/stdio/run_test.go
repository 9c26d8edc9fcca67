//go:build unix

package stdio_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// The program of the README exits with status 0 at the end of its input and on a signal. It stops the dependencies of
// its server once.
func TestRunEndsNormally(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"name","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
	overHTTP := func(t *testing.T, url string) {
		session, err := client.Connect(t.Context(), streamable.Dial(url, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if name, err := client.CallAs[string](t.Context(), session, "name", struct{}{}, nil); err != nil || name != "database" {
			t.Errorf("answered with %q, %v", name, err)
		}
	}
	signal := func(s os.Signal) func(*os.Process, io.Closer) error {
		return func(p *os.Process, _ io.Closer) error { return p.Signal(s) }
	}
	closeInput := func(_ *os.Process, in io.Closer) error { return in.Close() }
	for name, test := range map[string]struct {
		kind string
		end  func(p *os.Process, in io.Closer) error
	}{
		"end of input":    {"README", closeInput},
		"SIGTERM":         {"README", signal(syscall.SIGTERM)},
		"interrupt":       {"README", signal(os.Interrupt)},
		"HTTP, SIGTERM":   {"README over HTTP", signal(syscall.SIGTERM)},
		"HTTP, interrupt": {"README over HTTP", signal(os.Interrupt)},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0])
			cmd.Env = append(os.Environ(), childVariable+"="+test.kind)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if test.kind == "README" {
				if _, err := io.WriteString(in, call); err != nil {
					t.Error(err)
				}
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Error(err)
			}
			if test.kind == "README" {
				if !strings.Contains(line, `"text":"database"`) {
					t.Errorf("answered with %s", line)
				}
			} else {
				overHTTP(t, strings.TrimSpace(line))
			}
			if err := test.end(cmd.Process, in); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil || !strings.HasSuffix(stderr.String(), "stopped: 1\n") {
				t.Errorf("the process ends with %v: %s", err, stderr.String())
			}
		})
	}
}
