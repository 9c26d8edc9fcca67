package main

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// TestSearchOffersTwoTools: clients of MCP find and call all tools by two. The policy applies to the tools, and paths for
// plain HTTP have all of them.
func TestSearchOffersTwoTools(t *testing.T) {
	p := start(t, "-search", "-approve", "none")
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		searchTools(t, p, p.connect(t, &client.Options{Era: era}))
	}
	for path, body := range map[string]string{
		"/api/v1/rest/tools/shelf__look": `{"path":` + encoded(t, p.path("rest")) + `,"text":"x"}`,
		"/run":                           `{"server_name":"shelf","server_params":{},"tool_name":"look","tool_args":{"path":` + encoded(t, p.path("rest")) + `,"text":"x"}}`,
	} {
		if status, answer, err := p.do(t.Context(), p.token, http.MethodPost, path, body); err != nil || status != http.StatusOK {
			t.Errorf("%s: %d %s, %v", path, status, answer, err)
		}
	}
	if got := len(p.lines(t, "rest")); got != 2 {
		t.Errorf("over plain HTTP it is done %d times, want 2", got)
	}
}

// TestSearchOverStandardStreams does so for a client that starts the program.
func TestSearchOverStandardStreams(t *testing.T) {
	p := &program{folder: t.TempDir()}
	flags := slices.DeleteFunc(p.flags(t), func(word string) bool { return word == "-http" || word == "127.0.0.1:0" })
	self := child(t)[1]
	dialer := stdio.Command(self, append(flags, "-search", "-approve", "none"), &stdio.CommandOptions{Env: []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}})
	session, err := client.Connect(t.Context(), dialer, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	searchTools(t, p, session)
}

func searchTools(t *testing.T, p *program, session *client.Session) {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"call_tool", "search_tools"}) {
		t.Errorf("the tools are %v", names)
	}
	call := func(ctx context.Context, tool, arguments string) string {
		result, err := session.CallTool(ctx, tool, json.RawMessage(arguments), nil)
		text, _ := json.Marshal(result)
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	if got := call(t.Context(), "search_tools", `{"query":"look"}`); !strings.Contains(got, "shelf__look") {
		t.Errorf("found is %s", got)
	}
	before := len(p.lines(t, "file"))
	arguments := `{"path":` + encoded(t, p.path("file")) + `,"text":"x"}`
	if got := call(t.Context(), "call_tool", `{"name":"shelf__look","arguments":`+arguments+`}`); !strings.Contains(got, "put") {
		t.Errorf("the call is answered by %s", got)
	}
	if got := call(t.Context(), "call_tool", `{"name":"shelf__drop","arguments":`+arguments+`}`); !strings.Contains(got, "nothing is dropped here") {
		t.Errorf("a call that the policy denies is answered by %s", got)
	}
	if got := len(p.lines(t, "file")) - before; got != 1 {
		t.Errorf("it is done %d times, want once", got)
	}
	for resource, err := range session.Resources(t.Context(), nil) {
		if err != nil || !strings.Contains(resource.URI, "shelf") {
			t.Errorf("a resource is %v, error %v", resource, err)
		}
	}
}
