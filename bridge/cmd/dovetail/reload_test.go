package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A new policy applies to the next call. One that is not valid is logged with its position, and the old one stays in force.
func TestServeFollowsThePolicy(t *testing.T) {
	folder := t.TempDir()
	path, rules := filepath.Join(folder, "mcp.json"), filepath.Join(folder, "policy.json")
	writeConfig(t, path, map[string]any{"a": childConfig(t)})
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set(`{"deny": ["greet"]}`)
	ctx, cancel := context.WithCancel(t.Context())
	said, ended := &output{}, make(chan error, 1)
	go func() {
		err := run(ctx, []string{"serve", "-config", path, "-policy", rules, "-approve", "none", "-http", "127.0.0.1:0", "-open"}, strings.NewReader(""), io.Discard, said)
		said.close()
		ended <- err
	}()
	url := said.await(t, `serving  (http://[\d.:]+/mcp)`)[1]
	session, err := client.Connect(t.Context(), streamable.Dial(url, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	want := func(when string, allowed bool) {
		t.Helper()
		result, err := session.CallTool(t.Context(), "a__greet", map[string]string{"name": "Ada"}, nil)
		if err != nil || result.IsError == allowed {
			t.Errorf("%s the result is %+v, %v; want one of a call that is allowed: %t", when, result, err, allowed)
		}
	}
	want("at first", false)
	set(`{"deny": []}`)
	said.await(t, "the new policy was applied")
	want("with a policy that denies nothing", true)
	set("{\"deny\": [],\n \"match\": 1}")
	said.await(t, "the new policy is not valid and was not applied.*/policy.json:2:2: unknown member")
	want("with a policy that is not valid", true)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}
