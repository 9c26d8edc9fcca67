package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/bridge/internal/entrycheck"
	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport"
)

// A badEntry is an entry of a list that is not valid by the schema of MCP.
type badEntry struct {
	Entry json.RawMessage
	Kept  bool // it can be repaired
}

// badLists returns lists by their member of the result.
func badLists(t *testing.T) map[string][]badEntry {
	t.Helper()
	data, err := os.ReadFile("internal/entrycheck/testdata/bad.json")
	if err != nil {
		t.Fatal(err)
	}
	var lists map[string][]badEntry
	if err := json.Unmarshal(data, &lists); err != nil {
		t.Fatal(err)
	}
	return lists
}

// lists are the lists of clients of all versions.
var entryLists = []struct {
	kind                 mcp.Kind
	method, member, name string // name is the member that identifies an entry
	good                 string
}{
	{mcp.KindTool, mcp.MethodToolsList, "tools", "name", `{"name":"good","inputSchema":{"type":"object"}}`},
	{mcp.KindPrompt, mcp.MethodPromptsList, "prompts", "name", `{"name":"good"}`},
	{mcp.KindResource, mcp.MethodResourcesList, "resources", "uri", `{"uri":"test:good","name":"good"}`},
	{mcp.KindResourceTemplate, mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate", `{"uriTemplate":"test:good/{x}","name":"good"}`},
}

// badServer returns a server that lists the bad entries among a good one of each kind.
func badServer(t *testing.T, era client.Era) *fakeServer {
	lists := badLists(t)
	return &fakeServer{
		era: era, capabilities: `{"tools":{},"prompts":{},"resources":{}}`,
		answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
			for _, list := range entryLists {
				if list.method != req.Method {
					continue
				}
				page := `{"` + list.member + `":[`
				for _, bad := range lists[list.member] {
					page += string(bad.Entry) + ","
				}
				return page + list.good + "]}", nil
			}
			return "", nil
		},
	}
}

// wantEntries checks that a list has valid entries only, and all that can be repaired.
func wantEntries(t *testing.T, face string, kind mcp.Kind, prefix, name string, bad []badEntry, entries []json.RawMessage) {
	t.Helper()
	want, got := []string{"good"}, []string{}
	if name != "name" {
		want[0] = "test:good"
	}
	if kind == mcp.KindResourceTemplate {
		want[0] += "/{x}"
	}
	for _, b := range bad {
		if b.Kept {
			want = append(want, nameOf(t, b.Entry, name))
		}
	}
	for i, entry := range entries {
		valid, repairs, err := entrycheck.Entry(kind, entry)
		if err != nil || len(repairs) > 0 {
			t.Errorf("%s: %s is not valid but %s: %q %v", face, entry, valid, repairs, err)
		}
		got = append(got, strings.TrimPrefix(nameOf(t, entries[i], name), prefix))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: the %vs are\n%q, want\n%q", face, kind, got, want)
	}
}

func nameOf(t *testing.T, entry json.RawMessage, member string) string {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(entry, &members); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(members[member])
}

// TestEntriesAreValid: whatever a server lists, every face of a bridge lists valid entries.
func TestEntriesAreValid(t *testing.T) {
	lists := badLists(t)
	eachPair(t, func(t *testing.T, caller, upstream client.Era) {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			p := bridge.Proxy(dialerTo(badServer(t, upstream)), &bridge.ProxyOptions{Logger: logger})
			session := connect(t, pipeTo(mount(t, p)), client.Options{Era: caller})
			for _, list := range entryLists {
				wantEntries(t, "proxy", list.kind, "", list.name, lists[list.member], listOf(t, session, list.method, list.member))
			}
			state := p.State()
			for _, list := range entryLists {
				for _, bad := range lists[list.member] {
					wantReport(t, &bad, list.name, state, log.String())
				}
			}
		})
	})
	for name, era := range eras {
		t.Run("relay "+name, func(t *testing.T) {
			var log bytes.Buffer
			relay := bridge.Relay(pipeTo(badServer(t, era)), &bridge.RelayOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			defer relay.Close()
			session := connect(t, pipeTo(relay), client.Options{Era: era})
			for _, list := range entryLists {
				wantEntries(t, "relay", list.kind, "", list.name, lists[list.member], listOf(t, session, list.method, list.member))
			}
			if !strings.Contains(log.String(), "inputSchema") {
				t.Errorf("the log is %s", log.String())
			}
		})
	}
	t.Run("programs", func(t *testing.T) {
		newBad := func() *bridge.Bridge {
			b, err := bridge.New(&bridge.Options{Logger: quiet()}, bridge.Config{Alias: "s", Dialer: dialerTo(badServer(t, client.Legacy))})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		b := newBad()
		all := func(*http.Request) (string, bool) { return "one", true }
		authenticator, err := gateway.NewAuthenticator(&gateway.AuthenticatorOptions{Authenticate: all, Hosts: []string{"gateway.example"}})
		if err != nil {
			t.Fatal(err)
		}
		g := gateway.New(mount(t, b), &gateway.Options{Authenticator: authenticator})
		tools, err := b.Tools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantTools := func(face, array string) {
			t.Helper()
			var entries []json.RawMessage
			if err := json.Unmarshal([]byte(array), &entries); err != nil {
				t.Fatal(err)
			}
			wantEntries(t, face, mcp.KindTool, "s__", "name", lists["tools"], entries)
		}
		text, err := json.Marshal(tools)
		if err != nil {
			t.Fatal(err)
		}
		wantTools("Bridge.Tools", string(text))
		if text, err = json.Marshal(llm.AnthropicTools(tools)); err != nil {
			t.Fatal(err)
		}
		wantTools("llm", strings.ReplaceAll(string(text), `"input_schema"`, `"inputSchema"`))

		found, err := search.New(newBad(), &search.Options{Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		searching := connect(t, pipeTo(mount(t, found)), client.Options{})
		result, err := searching.CallTool(t.Context(), search.SearchTool, json.RawMessage(`{"query":"schema","limit":50}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		var have struct{ Tools []json.RawMessage }
		if err := json.Unmarshal(result.StructuredContent, &have); err != nil || len(have.Tools) < 10 {
			t.Fatalf("%d tools were found: %v", len(have.Tools), err)
		}
		for _, entry := range have.Tools {
			if valid, repairs, err := entrycheck.Entry(mcp.KindTool, entry); err != nil || len(repairs) > 0 {
				t.Errorf("search: %s is not valid but %s: %q %v", entry, valid, repairs, err)
			}
		}

		answer := httptest.NewRecorder()
		g.REST(nil).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://gateway.example/tools", nil))
		wantTools("REST", strings.TrimSuffix(strings.TrimPrefix(answer.Body.String(), `{"tools":`), "}"))
	})
}

// wantReport checks that the state and the log report an entry. name is the member that identifies it.
func wantReport(t *testing.T, bad *badEntry, name string, state bridge.State, log string) {
	t.Helper()
	reports := state.NotOffered
	if bad.Kept {
		reports = state.Repaired
	}
	var entry map[string]any
	_ = json.Unmarshal(bad.Entry, &entry)
	what, ok := entry[name].(string)
	if !ok {
		what = "of a page" // the number of the entry identifies it
	}
	if !slices.ContainsFunc(reports, func(err error) bool { return strings.Contains(err.Error(), what) }) || !strings.Contains(log, what) {
		t.Errorf("no report of %s", bad.Entry)
	}
}

// listOf returns the entries of a list.
func listOf(t *testing.T, session *client.Session, method, member string) []json.RawMessage {
	t.Helper()
	page, err := session.Call(t.Context(), method, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var result map[string]json.RawMessage
	var entries []json.RawMessage
	if err := json.Unmarshal(page, &result); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(result[member], &entries); err != nil {
		t.Fatal(err)
	}
	return entries
}

// An entry that a server lists again, on the same page or another, with the same content counts once. Otherwise a call
// could reach the wrong tool.
func TestRepeatedEntries(t *testing.T) {
	for _, test := range []struct {
		name, again, want string
		notOffered        int
	}{
		{"same bytes", `{"name":"a","title":"A","inputSchema":{"type":"object"}}`, "a b", 0},
		{"another order", `{ "inputSchema":{"type":"object"}, "title":"\u0041", "name":"a"}`, "a b", 0},
		{"same after the repair", `{"name":"a","title":"A","description":null}`, "a b", 0},
		{"another title", `{"name":"a","title":"B","inputSchema":{"type":"object"}}`, "b", 2},
		{"another number", `{"name":"a","title":"A","inputSchema":{"type":"object"},"n":1.0}`, "b", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const first, other = `{"name":"a","title":"A","inputSchema":{"type":"object"}}`, `{"name":"b","inputSchema":{"type":"object"}}`
				up := lister(client.Modern, func(method, cursor string) (string, error) {
					switch {
					case method != mcp.MethodToolsList:
						return "", nil
					case cursor == "":
						return `{"tools":[` + first + `,` + test.again + `,` + other + `],"nextCursor":"2"}`, nil
					}
					return `{"tools":[` + test.again + `]}`, nil
				})
				p, _ := started(t, dialerTo(up), bridge.ProxyOptions{Optional: true})
				if got := names(p.Catalog(), mcp.KindTool); got != test.want {
					t.Errorf("the tools are %q, want %q", got, test.want)
				}
				if state := p.State(); len(state.NotOffered) != test.notOffered {
					t.Errorf("not offered: %v", state.NotOffered)
				}
			})
		})
	}
}

// The entries of a directory are checked, too.
func TestDirectoryEntries(t *testing.T) {
	for _, face := range []string{"proxy", "relay"} {
		t.Run(face, func(t *testing.T) {
			up := &fakeServer{
				era: client.Modern, capabilities: `{"resources":{},"extensions":{"` + mcp.ExtensionSkills + `":{"directoryRead":true}}}`,
				answer: func(_ context.Context, _ jsonrpc.Peer, req *jsonrpc.Request) (string, error) {
					switch req.Method {
					case mcp.MethodSkillsList:
						return `{"skills":[{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a","description":"d"},"resources":"dynamic"}]}`, nil
					case mcp.MethodDirectoryRead:
						return `{"resources":[{"uri":"skill://a/f","title":null},{"name":"no uri"}],"ttlMs":0,"cacheScope":"private"}`, nil
					}
					return "", nil
				},
			}
			to := transport.Binder(bridge.Relay(pipeTo(up), &bridge.RelayOptions{Logger: quiet()}))
			if face == "proxy" {
				to = mount(t, bridge.Proxy(pipeTo(up), &bridge.ProxyOptions{Logger: quiet()}))
			}
			result, err := connect(t, pipeTo(to), client.Options{Era: client.Modern}).Call(t.Context(), mcp.MethodDirectoryRead, json.RawMessage(`{"uri":"skill://a"}`), nil)
			if err != nil || !strings.Contains(string(result), `"resources":[{"uri":"skill://a/f","name":"skill://a/f"}]`) {
				t.Errorf("%s, %v", result, err)
			}
		})
	}
}
