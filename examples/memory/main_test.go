package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/servertest"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// programVariable makes the test's binary the program, with these arguments.
const programVariable = "MEMORY_TEST_ARGUMENTS"

func TestMain(m *testing.M) {
	if arguments, ok := os.LookupEnv(programVariable); ok {
		os.Args = append(os.Args[:1], strings.Fields(arguments)...)
		main()
		return
	}
	servertest.Main(m)
}

// program starts the program for each connection, as clients do.
func program(arguments string) transport.Dialer {
	return stdio.Command(os.Args[0], nil, &stdio.CommandOptions{Env: []string{programVariable + "=" + arguments}})
}

func connect(t *testing.T, dialer transport.Dialer, era client.Era) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), dialer, &client.Options{Era: era})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// says checks the text of a tool's answer.
func says(t *testing.T, session *client.Session, tool, arguments, want string) {
	t.Helper()
	result, err := session.CallTool(t.Context(), tool, json.RawMessage(arguments), nil)
	if err != nil {
		t.Fatalf("%s(%s): %v", tool, arguments, err)
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != want {
		t.Errorf("%s(%s) says %+v, want %s", tool, arguments, result.Content[0], want)
	}
}

// remembers saves, reads and deletes over a session.
func remembers(t *testing.T, session *client.Session) {
	t.Helper()
	says(t, session, "save_user_fact", `{"user_id":"ann","key":"city","value":"Oslo"}`, `{"saved":true,"user_id":"ann","key":"city"}`)
	says(t, session, "get_user_facts", `{"user_id":"ann"}`, `[{"key":"city","value":"Oslo"}]`)
	says(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"{\"messages\":[]}"}`, `{"saved":true,"conversation_id":"c1"}`)
	says(t, session, "save_conversation", `{"conversation_id":"c2","snapshot":"as text"}`, `{"saved":true,"conversation_id":"c2"}`)
	says(t, session, "list_conversations", `{}`, `{"conversation_ids":["c1","c2"]}`)
	says(t, session, "delete_conversation", `{"conversation_id":"c2"}`, `{"deleted":true,"conversation_id":"c2"}`)
	for uri, want := range map[string]string{
		"memory://conversations/c1": `{"messages":[]}`,
		"memory://conversations/c2": `[]`,
	} {
		result, err := session.ReadResource(t.Context(), uri, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := result.Contents[0].(*mcp.TextResourceContents); !ok || text.Text != want {
			t.Errorf("%s holds %+v, want %s", uri, result.Contents[0], want)
		}
	}
}

func TestProgramRemembersOverStdio(t *testing.T) {
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		t.Run(name, func(t *testing.T) { remembers(t, connect(t, program(""), era)) })
	}
}

func TestProgramForgetsWithoutAFile(t *testing.T) {
	remembers(t, connect(t, program(""), client.Auto))
	says(t, connect(t, program(""), client.Auto), "get_user_facts", `{"user_id":"ann"}`, `[]`)
}

func TestProgramRemembersInAFile(t *testing.T) {
	arguments := "-file " + filepath.Join(t.TempDir(), "memory.json")
	session := connect(t, program(arguments), client.Auto)
	remembers(t, session)
	session.Close()
	says(t, connect(t, program(arguments), client.Auto), "get_user_facts", `{"user_id":"ann"}`, `[{"key":"city","value":"Oslo"}]`)
}

func TestProgramSaysWhatIsWrong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.json")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		"-file " + path:      path + ": unexpected end of JSON input",
		"-http 127.0.0.1:-1": "invalid port",
		"-port 1":            "flag provided but not defined: -port",
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), programVariable+"="+arguments)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, says %q, want %q", arguments, err, out, want)
		}
	}
}

func TestProgramRemembersOverHTTP(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, said := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, "", "127.0.0.1:0", said)
		said.CloseWithError(err)
		ended <- err
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://127[\d.:]+/mcp`).FindString(line)
	session := connect(t, streamable.Dial(url, nil), client.Auto)
	remembers(t, session)
	other := connect(t, streamable.Dial(url, nil), client.Auto) // unauthenticated callers share one memory
	says(t, other, "get_user_facts", `{"user_id":"ann"}`, `[{"key":"city","value":"Oslo"}]`)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("told to end, the program says %v", err)
	}
}
