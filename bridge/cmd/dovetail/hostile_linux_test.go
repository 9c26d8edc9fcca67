package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/internal/test/testsuites"
)

// Limits of a command with a hostile server, in bytes.
const (
	mostMemory = 256 << 20
	mostOutput = 32 << 20
	mostErrors = 256 << 10
)

// A hostileRun is a command line with what it must do with each server.
type hostileRun struct {
	line     string // TARGET is the server, and CHILD a command that starts it
	stdin    string
	odd      exitStatus
	deep     exitStatus
	endless  exitStatus
	written  []string // the files that may be there at the end
	protocol bool     // standard output has messages for a program
}

// status returns the exit status that a run has with a server.
func (r *hostileRun) status(server string) exitStatus {
	return map[string]exitStatus{"odd": r.odd, "deep": r.deep, "endless": r.endless}[server]
}

// hostileRequests opens a session and asks for a list.
const hostileRequests = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}` +
	"\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n"

// hostileTranscript has the answers that a server once gave to these requests.
const hostileTranscript = `{"format":"dovetail-transcript","version":1}
{"ms":0,"from":"client","message":{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}}
{"ms":1,"from":"server","message":{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}}
{"ms":2,"from":"client","message":{"jsonrpc":"2.0","id":2,"method":"tools/list"}}
{"ms":3,"from":"server","message":{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"plain","inputSchema":{"type":"object"}},{},{"inputSchema":{"properties":{}}}]}}}
{"ms":4,"from":"client","message":{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"plain"}}}
{"ms":5,"from":"server","message":{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"plain"}]}}}
`

var hostileRuns = []hostileRun{
	{line: "info -text TARGET"},
	{line: "tools TARGET", deep: failed, endless: failed},
	{line: "tools -text TARGET", deep: failed, endless: failed},
	{line: "templates -text TARGET"},
	{line: "prompts TARGET"},
	{line: "skills TARGET", odd: failed, deep: failed, endless: failed},
	{line: "events TARGET", odd: failed, deep: failed, endless: failed},
	{line: "call TARGET plain", endless: failed},
	{line: "call -text TARGET plain", endless: failed},
	{line: "read TARGET file:///plain", endless: failed},
	{line: "prompt TARGET plain", endless: failed},
	{line: "complete TARGET prompt plain x y", endless: failed},
	{line: "watch -timeout 1s TARGET file:///plain"},
	{line: "ping TARGET"},
	{line: "session TARGET", stdin: "prompts\ncall plain\nread file:///plain\n"},
	{line: "resources -record work.log TARGET", written: []string{"work.log"}},
	{line: "record work.log TARGET", stdin: hostileRequests, written: []string{"work.log"}, protocol: true},
	{line: "replay old.log TARGET", odd: checkFailed, deep: unreachable, endless: unreachable},
	{line: "relay TARGET", stdin: hostileRequests, protocol: true},
	{line: "doctor TARGET", odd: checkFailed, deep: checkFailed, endless: checkFailed},
	{line: "gen -o client.go TARGET", deep: failed, endless: failed, written: []string{"client.go"}},
	{line: "pack -name io.example/calc -url https://x.example/mcp -description x -version 1.0.0 TARGET", deep: failed, endless: failed, written: []string{"dist", "dist/server.json", "dist/server-card.json"}},
	{line: "-config mcp.json prompts"},
	{line: "pins list", odd: checkFailed, deep: unreachable, endless: unreachable},
	{line: "pins accept -all", deep: unreachable, endless: unreachable, written: []string{"mcp.lock", "mcp.lock.d"}},
	{line: "serve -lock mcp.lock", stdin: hostileRequests, written: []string{"mcp.lock"}, protocol: true},
	{line: "dev CHILD", stdin: hostileRequests, protocol: true},
}

// Whatever a server lists and answers, each command stays small, prints visible text only, writes no other file, and
// says what is wrong.
func TestHostileServersAgainstEachCommand(t *testing.T) {
	racetest.Skip(t)
	self := child(t)[1]
	var used time.Duration
	for name, server := range hostileServers {
		url := server.listen(t)
		for i, r := range hostileRuns {
			if name == "deep" && r.deep == succeeded && !r.protocol {
				continue // it does not read the list, or reads it as another server's
			}
			t.Run(name+"/"+r.line, func(t *testing.T) {
				target := ""
				if i%2 == 1 {
					target = url
				}
				used += r.run(t, name, self, target)
			})
		}
	}
	t.Logf("the commands used %v of processors", used)
}

// run runs the command. The server is at url, or a child if url is "".
func (r *hostileRun) run(t *testing.T, name, self, url string) time.Duration {
	root := t.TempDir()
	work := filepath.Join(root, "a", "b", "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"evil": map[string]any{
		"command": self, "env": map[string]string{hostileLists: name, "GORACE": "atexit_sleep_ms=0"},
	}}})
	if err == nil {
		err = os.WriteFile(filepath.Join(work, "mcp.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "old.log"), []byte(hostileTranscript), 0o600); err != nil {
		t.Fatal(err)
	}
	peak := filepath.Join(t.TempDir(), "peak")
	serving := []string{"--", "env", hostileLists + "=" + name, self}
	var line, last []string
	for word := range strings.FieldsSeq(r.line) {
		switch {
		case word == "CHILD" || word == "TARGET" && url == "":
			last = serving
		case word == "TARGET":
			line = append(line, url)
		default:
			line = append(line, word)
		}
	}
	line = append(line, last...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, self, line...)
	command.Dir = work
	command.Env = append(os.Environ(), asProgram+"=1", asServer+"=", peakFile+"="+peak, "HOME="+root, "XDG_CONFIG_HOME="+root, "TMPDIR="+t.TempDir())
	var out, said bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(r.stdin), &out, &said
	err = command.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	} else if ok && exit.ExitCode() < 0 {
		t.Errorf("%v", err)
	}
	status := exitStatus(command.ProcessState.ExitCode())
	usage := command.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	size := 0
	if text, err := os.ReadFile(peak); err != nil {
		t.Error(err)
	} else if size, err = strconv.Atoi(string(text)); err != nil {
		t.Error(err)
	}
	t.Logf("status %d, %d MB, %d and %d bytes, CPU %v: %.300s", status, size>>10, out.Len(), said.Len(), cpu.Round(time.Millisecond), said.Bytes())
	if size<<10 > mostMemory {
		t.Errorf("the peak memory is %d MiB", size>>10)
	}
	if out.Len() > mostOutput || said.Len() > mostErrors {
		t.Errorf("%d and %d bytes are printed", out.Len(), said.Len())
	}
	if !r.protocol {
		wantPlain(t, "standard output", out.String())
	}
	wantPlain(t, "standard error", said.String())
	if strings.Contains("\n"+said.String(), "\ndovetail: FAKE") {
		t.Errorf("the server has written a line that looks as if dovetail had: %.2000q", said.String())
	}
	if want := r.status(name); status != want {
		t.Errorf("the exit status is %d, want %d", status, want)
	}
	if status != succeeded && status != checkFailed && !strings.Contains("\n"+said.String(), "\ndovetail: ") {
		t.Errorf("standard error does not say why the status is %d: %.2000q", status, said.String())
	}
	r.checkFiles(t, root, work)
	return cpu
}

// wantPlain checks that a text has no characters that a terminal acts on.
func wantPlain(t *testing.T, what, text string) {
	t.Helper()
	if strings.ContainsAny(text, "\x1b\x07\u009b\u202e\u200b\r") {
		testsuites.WantPlainLines(t, text[:min(len(text), 2000)])
		t.Errorf("%s has characters that a terminal acts on", what)
	}
}

// checkFiles looks for files that the command should not have written.
func (r *hostileRun) checkFiles(t *testing.T, root, work string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, within := strings.CutPrefix(path, work+string(filepath.Separator))
		name, _, _ = strings.Cut(name, string(filepath.Separator))
		if err != nil || d.IsDir() && !within || within && (name == "mcp.json" || name == "old.log" || slices.Contains(r.written, name)) {
			return err
		}
		t.Errorf("%s was written", path)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat("/tmp/escaped"); err == nil {
		t.Error("/tmp/escaped was written")
	}
}
