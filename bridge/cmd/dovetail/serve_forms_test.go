package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// formCalls are calls of a tool of the shelf in each form.
var formCalls = map[string]func(tool, arguments string) (called, with string){
	toolsForm: func(tool, arguments string) (string, string) { return "shelf__" + tool, arguments },
	searchForm: func(tool, arguments string) (string, string) {
		return "call_tool", `{"name":"shelf__` + tool + `","arguments":` + arguments + `}`
	},
	scriptsForm: func(tool, arguments string) (string, string) {
		script, _ := json.Marshal("return await shelf." + tool + "(" + arguments + ")") // a text
		return "run_script", `{"script":` + string(script) + `}`
	},
}

// TestClientsChooseAForm: each form has a path, and /mcp has the form of the only flag. Each offers its tools only, and the policy
// applies in all of them.
func TestClientsChooseAForm(t *testing.T) {
	lists := map[string]string{
		toolsForm: "shelf__look shelf__put shelf__put_and_stay", searchForm: "call_tool search_tools", scriptsForm: "run_script search_tools",
	}
	for _, test := range []struct {
		flags string
		paths map[string]string // the forms; "" is none
	}{
		{"", map[string]string{"/mcp": toolsForm, "/mcp/tools": toolsForm, "/mcp/search": "", "/mcp/scripts": ""}},
		{"-search", map[string]string{"/mcp": searchForm, "/mcp/tools": toolsForm, "/mcp/search": searchForm, "/mcp/scripts": ""}},
		{"-scripts", map[string]string{"/mcp": scriptsForm, "/mcp/tools": toolsForm, "/mcp/search": "", "/mcp/scripts": scriptsForm}},
		{"-search -scripts", map[string]string{"/mcp": toolsForm, "/mcp/tools": toolsForm, "/mcp/search": searchForm, "/mcp/scripts": scriptsForm}},
	} {
		t.Run(test.flags, func(t *testing.T) {
			p := start(t, append(strings.Fields(test.flags), "-approve", "none")...)
			calls := 0
			for path, form := range test.paths {
				if form == "" {
					if status, answer, err := p.do(t.Context(), p.token, http.MethodPost, path, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); err != nil || status != http.StatusNotFound {
						t.Errorf("%s: %d %s %v", path, status, answer, err)
					}
					continue
				}
				for _, era := range []client.Era{client.Modern, client.Legacy} {
					session := p.connectAt(t, path, &client.Options{Era: era})
					if names := strings.Fields(offeredNames(t, session)); !slices.Equal(slices.Sorted(slices.Values(names)), strings.Fields(lists[form])) {
						t.Errorf("%s offers %v", path, names)
					}
					for tool, want := range map[string]string{"look": "put", "drop": ""} {
						called, with := formCalls[form](tool, encoded(t, line{Path: p.path("file"), Text: "x"}))
						result, err := session.CallTool(t.Context(), called, json.RawMessage(with), nil)
						if done := err == nil && !result.IsError && strings.Contains(result.Text(), "put"); done != (want != "") {
							t.Errorf("%s: %s: %v %v", path, called, result, err)
						}
					}
					calls++
				}
			}
			if got := len(p.lines(t, "file")); got != calls {
				t.Errorf("%d of %d calls were made", got, calls)
			}
		})
	}
}

// TestSessionBelongsToAForm: a session of one form is unknown at the paths of the others, at all replicas, and known at both paths of its own.
func TestSessionBelongsToAForm(t *testing.T) {
	for _, shared := range []bool{false, true} {
		flags := []string{"-search", "-scripts", "-approve", "none"}
		if shared {
			flags = append(flags, "-store", newStore(t))
		}
		first := start(t, flags...)
		replicas := []*program{first}
		if shared {
			replicas = append(replicas, start(t, flags...))
		}
		paths := map[string]string{"/mcp": toolsForm, "/mcp/": toolsForm, "/mcp/tools": toolsForm, "/mcp/search": searchForm, "/mcp/search/": searchForm, "/mcp/scripts": scriptsForm}
		for path, form := range paths {
			session := first.openSession(t, path)
			for _, replica := range replicas {
				for at, other := range paths {
					_, text := replica.postLegacy(t, at, session, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
					if known := strings.Contains(text, `"tools":[`); known != (other == form) {
						t.Errorf("a session of %s at %s is answered by %s", path, at, text)
					}
				}
			}
		}
	}
}

// openSession opens a session of 2025-11-25 at a path, and returns its id.
func (p *program) openSession(t *testing.T, path string) string {
	t.Helper()
	header, text := p.postLegacy(t, path, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	session := header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatalf("%s: there is no session: %s", path, text)
	}
	p.postLegacy(t, path, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return session
}

// postLegacy sends a message of 2025-11-25 in a session, unless that is "".
func (p *program) postLegacy(t *testing.T, path, session, body string) (http.Header, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{
		"Authorization": {"Bearer " + p.token}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2025-11-25"},
	}
	if session != "" {
		request.Header.Set("Mcp-Session-Id", session)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.Header, string(text)
}

// TestFormsHaveOneResource: without a token, each path names the metadata of one resource, a client logs in at each, and a token is
// valid at all of them.
func TestFormsHaveOneResource(t *testing.T) {
	login := newIssuer(t)
	p := start(t, "-issuer", login.URL, "-search", "-scripts", "-approve", "none")
	authorizer, err := oauth.NewClient(&oauth.ClientOptions{AllowLoopback: true, Flow: &oauth.CodeFlow{Open: oauthtest.Browse}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/mcp", "/mcp/tools", "/mcp/search", "/mcp/scripts"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.address+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		want := fmt.Sprintf(`resource_metadata="http://%s/.well-known/oauth-protected-resource"`, p.address)
		if got := response.Header.Get("WWW-Authenticate"); response.StatusCode != http.StatusUnauthorized || !strings.Contains(got, want) {
			t.Errorf("%s: %s %s", path, response.Status, got)
		}
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			session, err := client.Connect(t.Context(), streamable.Dial("http://"+p.address+path, &streamable.DialOptions{Authorizer: authorizer}), &client.Options{Era: era})
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if names := offeredNames(t, session); names == "" {
				t.Errorf("%s offers no tools", path)
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, metadata, err := p.do(t.Context(), "", http.MethodGet, "/.well-known/oauth-protected-resource", ""); err != nil || !strings.Contains(string(metadata), `"resource":"http://`+p.address+`"`) {
		t.Errorf("the metadata is %s %v", metadata, err)
	}
}

// TestOperatorsSeeAllForms: tasks and sessions of each form are listed and ended.
func TestOperatorsSeeAllForms(t *testing.T) {
	p := start(t, "-search", "-scripts", "-store", newStore(t))
	for _, form := range []string{toolsForm, searchForm} {
		p.begin(t, p.connectAt(t, "/mcp/"+form, nil), form, "put")
		p.openSession(t, "/mcp/"+form)
	}
	for _, kind := range []string{"tasks", "sessions"} {
		status, text, err := p.do(t.Context(), p.admin, http.MethodGet, "/admin/"+kind, "")
		ids := idsOf(text)
		if err != nil || status != http.StatusOK || len(ids) != 2 {
			t.Fatalf("%s: %d %s %v", kind, status, text, err)
		}
		for _, id := range ids {
			if status, text, err := p.do(t.Context(), p.admin, http.MethodPost, "/admin/"+kind+"/"+id+"/cancel", ""); err != nil || status != http.StatusOK {
				t.Errorf("ending %s: %d %s %v", kind, status, text, err)
			}
		}
		waittest.Until(t, "the end of all "+kind, func() bool {
			_, text, err := p.do(t.Context(), p.admin, http.MethodGet, "/admin/"+kind, "")
			return err == nil && string(text) == "[]\n"
		})
	}
}

// idsOf returns the ids of a list for operators.
func idsOf(text []byte) (ids []string) {
	var list []struct{ ID string }
	_ = json.Unmarshal(text, &list) // other text has no ids
	for _, element := range list {
		ids = append(ids, element.ID)
	}
	return ids
}
