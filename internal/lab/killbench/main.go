// Killbench kills servers behind dovetail serve during calls, and measures the effect on the
// callers of that server and of the other servers. .ci/bridge runs it on Linux:
//
//	killbench -dovetail PROGRAM -config mcp.json [-kills N] [-window TIME] [-tolerance FACTOR] [-median TIME]
//
// Calls at other servers must all succeed, in about the same time as before. Calls at the
// killed server must fail quickly, with an error that programs can recognize, and succeed
// again later. Short windows, few kills and a large tolerance make a check for each change;
// the defaults make a measurement for a machine that does nothing else.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func main() {
	program := flag.String("dovetail", "", "the `program` dovetail")
	config := flag.String("config", "", "its configuration `file`")
	kills := flag.Int("kills", 20, "how many servers to kill; each eight kills have each server and each npx once")
	var goal goal
	// Twice the goal of a tenth, because of noise on a shared machine.
	flag.Float64Var(&goal.tolerance, "tolerance", 1.2, "the `factor` that the slowest hundredth of calls may take longer")
	flag.DurationVar(&goal.median, "median", 250*time.Millisecond, "how long calls at a killed server may take to fail, in half of the kills")
	flag.DurationVar(&goal.window, "window", 5*time.Second, "the `time` of each measurement")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, *program, *config, *kills, goal); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, program, config string, kills int, goal goal) (err error) {
	b, err := startBridge(ctx, program, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	sessions, err := connect(ctx, b.url)
	if err != nil {
		return err
	}
	defer sessions.close()
	for _, v := range servers {
		if err := sessions.waitUntilBack(ctx, v); err != nil {
			return err
		}
	}
	if err := compareLatencies(ctx, b, sessions, goal); err != nil {
		return fmt.Errorf("calls at other servers: %w", err)
	}
	if err := killServers(ctx, b, sessions, kills, goal.median); err != nil {
		return fmt.Errorf("calls at a server that is killed: %w", err)
	}
	return nil
}

// A testServer is a server behind the bridge: its alias, a part of its command line, and
// a call.
type testServer struct{ alias, program, call string }

var servers = []testServer{
	{"everything", "server-everything", `{"name":"everything__get-sum","arguments":{"a":2,"b":3}}`},
	{"files", "server-filesystem", `{"name":"files__list_allowed_directories","arguments":{}}`},
	{"memory", "server-memory", `{"name":"memory__read_graph","arguments":{}}`},
	{"thinking", "server-sequential-thinking", `{"name":"thinking__sequentialthinking","arguments":` +
		`{"thought":"Bread.","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}}`},
}

const remoteCall = `{"name":"remote__test_simple_text","arguments":{}}`

// sessions are sessions with the bridge, one of each era.
type sessions []*client.Session

func connect(ctx context.Context, url string) (sessions, error) {
	var all sessions
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		// The bridge starts its servers before it answers for the first time.
		s, err := client.Connect(ctx, streamable.Dial(url, nil), &client.Options{Era: era, ProbeTimeout: 2 * time.Minute, ConnectTimeout: 2 * time.Minute})
		if err != nil {
			all.close()
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func (all sessions) close() {
	for _, s := range all {
		_ = s.Close() // the bridge may have ended
	}
}

// call calls a tool. A result that reports a failure is an error.
func call(ctx context.Context, s *client.Session, params string, opts *client.CallOptions) error {
	raw, err := s.Call(ctx, mcp.MethodToolsCall, json.RawMessage(params), opts)
	if err != nil {
		return err
	}
	var result struct {
		IsError bool            `json:"isError"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return err
	}
	if result.IsError {
		return fmt.Errorf("the tool reports a failure: %s", result.Content)
	}
	return nil
}

// failure returns the type in the data of an error, "" if it has none.
func failure(err error) string {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return ""
	}
	var data struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(answer.Data, &data) != nil {
		return ""
	}
	return data.Type
}

// restartTimeout is how long a server may take to restart.
const restartTimeout = 2 * time.Minute

// waitUntilBack waits until a server answers calls.
func (all sessions) waitUntilBack(ctx context.Context, v testServer) error {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	for {
		err := call(ctx, all[0], v.call, nil)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the server %s is not back after %v: %w", v.alias, restartTimeout, err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
