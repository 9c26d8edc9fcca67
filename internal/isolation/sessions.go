package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A victim is a server that is killed: its alias, a part of its command line and a call
// that it can take.
type victim struct{ alias, program, call string }

var victims = []victim{
	{"everything", "server-everything", `{"name":"everything__get-sum","arguments":{"a":2,"b":3}}`},
	{"files", "server-filesystem", `{"name":"files__list_allowed_directories","arguments":{}}`},
	{"memory", "server-memory", `{"name":"memory__read_graph","arguments":{}}`},
	{"thinking", "server-sequential-thinking", `{"name":"thinking__sequentialthinking","arguments":` +
		`{"thought":"Bread.","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}}`},
}

const remoteCall = `{"name":"remote__test_simple_text","arguments":{}}`

// sessions with the bridge, one of each era.
type sessions []*client.Session

func connect(ctx context.Context, url string) (sessions, error) {
	var all sessions
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		// The bridge starts its servers before it answers for the first time.
		s, err := client.Connect(ctx, streamable.Dial(url, nil), &client.Options{Era: era, ProbeTimeout: time.Minute, ConnectTimeout: time.Minute})
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
		_ = s.Close() // the bridge may have gone
	}
}

// call calls a tool; one that reports a failure has failed.
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

// failure is what an error says for programs to read, "" if it says nothing.
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

// patience is how long a server may take to be back.
const patience = 30 * time.Second

// awaitBack waits until a server takes calls.
func (all sessions) awaitBack(ctx context.Context, v victim) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := call(ctx, all[0], v.call, nil)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the server %s is not back after %v: %w", v.alias, patience, err)
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
