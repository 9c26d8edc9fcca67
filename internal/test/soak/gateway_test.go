package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// crashPoints are the points at which a gateway is killed. After the next start, the call was
// executed as often as executed says, and the journal has these events.
var crashPoints = []struct {
	name     string
	executed int
	events   string
}{
	{"before the request is recorded", 0, ""},
	{"after the request is recorded", 0, "asked withdrawn"},
	{"the question is shown", 0, "asked withdrawn"},
	{"the decision is received", 0, "asked withdrawn"},
	{"before the approval is recorded", 0, "asked withdrawn"},
	{"after the approval is recorded", 0, "asked approved withdrawn"},
	{"before the execution is recorded", 0, "asked approved withdrawn"},
	{"after the execution is recorded", 0, "asked approved executing failed"},
	{"before the effect", 0, "asked approved executing failed"},
	{"after the effect", 1, "asked approved executing failed"},
	{"before the result is recorded", 1, "asked approved executing failed"},
	{"after the result is recorded", 1, "asked approved executing executed"},
	{"before the answer is written", 1, "asked approved executing executed"},
}

// Environment variables of a gateway that is killed.
const (
	folderVariable = "SOAK_FOLDER" // of the journal and the log of executions
	pointVariable  = "SOAK_POINT"  // where it is killed, "" for nowhere
)

// TestKilledGateway: a gateway is killed at each point between the request and the answer,
// and started again. No call is executed twice, without an approval, or before its approval is
// on the disk, and the journal says what has happened.
func TestKilledGateway(t *testing.T) {
	folder := t.TempDir()
	wanted := make(map[string]int) // index of the point, by argument
	for round := range scaled(t, 1, 50) {
		for i, point := range crashPoints {
			path := fmt.Sprintf("%d/%d", round, i)
			wanted[path] = i
			_, err := callGateway(t, folder, point.name, path)
			if failed, ok := errors.AsType[*jsonrpc.CallError](err); !ok || failed.Delivery != jsonrpc.MaybeExecuted {
				t.Errorf("%s: the caller gets %v, want that it may have been executed", point.name, err)
			}
		}
	}
	if result, err := callGateway(t, folder, "", "honest"); err != nil || result.IsError {
		t.Errorf("after all kills: %+v, %v", result, err)
	}

	journal := filepath.Join(folder, "journal")
	summary, err := approval.Verify(journal)
	if err != nil || summary.Torn != 0 || len(summary.Open) != 0 {
		t.Errorf("Verify: %+v, %v", summary, err)
	}
	recorded := eventsByPath(t, entriesOf(t, readFile(t, journal)))
	executed := executions(t, folder)
	for path, i := range wanted {
		point := crashPoints[i]
		if got := strings.Join(recorded[path], " "); got != point.events {
			t.Errorf("%s: the journal has %q, want %q", point.name, got, point.events)
		}
		if got := executed[path]; got != point.executed {
			t.Errorf("%s: %d executions, want %d", point.name, got, point.executed)
		}
		delete(executed, path)
	}
	if len(executed) != 1 || executed["honest"] != 1 {
		t.Errorf("further executions: %v", executed)
	}
	t.Logf("%d kills", len(wanted))
}

// callGateway starts a gateway that is killed at a point, and calls a tool through it.
func callGateway(t *testing.T, folder, point, path string) (*mcp.CallToolResult, error) {
	t.Helper()
	session, err := client.Connect(t.Context(), stdio.Command(os.Args[0], nil, &stdio.CommandOptions{
		Env:    []string{roleVariable + "=gateway", folderVariable + "=" + folder, pointVariable + "=" + point, "GORACE=atexit_sleep_ms=0"},
		Stderr: os.Stderr,
	}), &client.Options{NoReconnect: true, NoTasks: true}) // the gateway keeps tasks in memory
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return session.CallTool(ctx, "write", writeIn{Path: path}, nil)
}

// serveGateway is the main function of the gateway.
func serveGateway() error {
	folder, point := os.Getenv(folderVariable), os.Getenv(pointVariable)
	quiet := slog.New(slog.DiscardHandler)
	path := filepath.Join(folder, "journal")
	file, err := approval.OpenJournal(path, quiet)
	if err != nil {
		return err
	}
	at := func(name string) {
		if name != point {
			return
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil && self.Kill() == nil {
			<-make(chan struct{}) // the process ends here
		}
	}
	options := &approval.Options{Logger: quiet, RecordArguments: true, Journal: &crashingJournal{file, at}}
	approver := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		at("the question is shown")
		defer at("the decision is received")
		return approval.Answer{Approved: true, By: "anna"}, nil
	})
	s := server.New(mcp.Implementation{Name: "gateway", Version: "1"}, &server.Options{
		Logger: quiet, Guards: []mcp.Guard{approval.Guard(askForTools(), approver, options)},
		Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				result, err := next(ctx, call)
				if call.Method() == mcp.MethodToolsCall {
					at("before the answer is written")
				}
				return result, err
			}
		}},
	})
	server.AddTool(s, server.Tool{Name: "write"}, func(_ context.Context, _ *server.Request, in writeIn) (string, error) {
		at("before the effect")
		if err := logExecution(folder, path, in.Path); err != nil {
			return "", err
		}
		at("after the effect")
		return "done", nil
	})
	return errors.Join(stdio.Serve(context.Background(), s, nil), file.Close())
}

// A crashingJournal ends the process before or after an entry.
type crashingJournal struct {
	approval.Journal
	at func(point string)
}

func (j *crashingJournal) Append(e approval.Entry) error {
	what := map[string]string{
		"asked": "the request", "approved": "the approval",
		"executing": "the execution", "executed": "the result",
	}[e.Event]
	j.at("before " + what + " is recorded")
	err := j.Journal.Append(e)
	if err == nil {
		j.at("after " + what + " is recorded")
	}
	return err
}

// logExecution writes the argument of an execution and the length of the journal at this time.
func logExecution(folder, journal, path string) error {
	info, err := os.Stat(journal)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(folder, "executions"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s %d\n", path, info.Size())
	return errors.Join(err, file.Close())
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// entriesOf returns the entries of a journal.
func entriesOf(t *testing.T, journal []byte) (list []approval.Entry) {
	t.Helper()
	for line := range bytes.Lines(journal) {
		var e approval.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, e)
	}
	return list
}

// askForTools returns a policy with the effect ask for tools, and allow for everything else.
func askForTools() *policy.Compiled {
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{
		{Effect: policy.Ask, Match: policy.Match{Kinds: []mcp.Kind{mcp.KindTool}}}, {Effect: policy.Allow},
	}})
	if err != nil {
		panic(err)
	}
	return compiled
}

type writeIn struct {
	Path string `json:"path"`
}

// executions returns how often each argument was executed. At each execution, the journal must
// have had its approval.
func executions(t *testing.T, folder string) map[string]int {
	t.Helper()
	log, journal := readFile(t, filepath.Join(folder, "executions")), readFile(t, filepath.Join(folder, "journal"))
	times := make(map[string]int)
	for line := range strings.Lines(string(log)) {
		path, length, _ := strings.Cut(strings.TrimSpace(line), " ")
		times[path]++
		size, err := strconv.Atoi(length)
		if err != nil || size > len(journal) {
			t.Fatalf("%q: %v", line, err)
		}
		if got := eventsByPath(t, entriesOf(t, journal[:size]))[path]; !slices.Equal(got, []string{"asked", "approved", "executing"}) {
			t.Errorf("%s was executed after %q", path, got)
		}
	}
	return times
}

// eventsByPath returns the events of each request, by its argument.
func eventsByPath(t *testing.T, list []approval.Entry) map[string][]string {
	t.Helper()
	paths := make(map[string]string) // by id
	found := make(map[string][]string)
	for _, e := range list {
		if e.Event == "asked" {
			var in writeIn
			if err := json.Unmarshal([]byte(e.Arguments), &in); err != nil {
				t.Fatal(err)
			}
			paths[e.ID] = in.Path
		}
		found[paths[e.ID]] = append(found[paths[e.ID]], e.Event)
	}
	return found
}
