package memory_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// clients that save under the same names.
func saveSame(t *testing.T, session *client.Session, value string) {
	t.Helper()
	call(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":`+quoted(quoted(value))+`}`)
	call(t, session, "save_user_fact", `{"user_id":"ann","key":"k","value":`+quoted(value)+`}`)
}

func seesSame(t *testing.T, session *client.Session, value string) {
	t.Helper()
	holds(t, session, "memory://conversations/c1", quoted(value))
	says(t, session, "get_user_facts", `{"user_id":"ann"}`, `[{"key":"k","value":`+quoted(value)+`}]`)
}

func seesNothing(t *testing.T, session *client.Session) {
	t.Helper()
	holds(t, session, "memory://conversations/c1", `[]`)
	says(t, session, "get_conversation", `{"conversation_id":"c1"}`, `{"conversation_id":"c1","found":false}`)
	says(t, session, "list_conversations", `{}`, `{"conversation_ids":[]}`)
	says(t, session, "get_user_facts", `{"user_id":"ann"}`, `[]`)
	says(t, session, "delete_conversation", `{"conversation_id":"c1"}`, `{"deleted":false,"conversation_id":"c1"}`)
	says(t, session, "delete_user_fact", `{"user_id":"ann","key":"k"}`, `{"deleted":false,"user_id":"ann","key":"k"}`)
	values, err := session.CompleteTemplate(t.Context(), "memory://conversations/{id}", "id", "", nil)
	if err != nil || len(values.Values) != 0 {
		t.Errorf("ids are completed to %v, %v", values, err)
	}
}

func TestEachPrincipalHasAMemoryOfItsOwn(t *testing.T) {
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		t.Run(name, func(t *testing.T) {
			s := memory.New(memory.InMemory(nil), nil)
			opts := &client.Options{Era: era}
			ann, bob, nobody := connect(t, as("ann", s), opts), connect(t, as("bob", s), opts), connect(t, as("", s), opts)
			saveSame(t, ann, "Ann's")
			seesNothing(t, bob)
			seesNothing(t, nobody)
			saveSame(t, nobody, "nobody's")
			seesNothing(t, bob)
			saveSame(t, bob, "Bob's")
			seesSame(t, ann, "Ann's")
			seesSame(t, bob, "Bob's")
			seesSame(t, nobody, "nobody's")
			seesSame(t, connect(t, as("ann", s), opts), "Ann's") // another session
		})
	}
}

func TestSharedMemoryIsOneForAll(t *testing.T) {
	s := memory.New(memory.InMemory(nil), &memory.Options{Shared: true})
	ann, bob := connect(t, as("ann", s), nil), connect(t, as("bob", s), nil)
	saveSame(t, ann, "Ann's")
	seesSame(t, bob, "Ann's")
	saveSame(t, bob, "Bob's")
	seesSame(t, ann, "Bob's")
}

// What authenticates requests names the principal; what callers say of themselves
// does not count.
func TestPrincipalsOverHTTPAreThoseThatWereAuthenticated(t *testing.T) {
	endpoint := streamable.Handler(memory.New(memory.InMemory(nil), nil), nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _, ok := r.BasicAuth(); ok {
			r = r.WithContext(transport.WithPrincipal(r.Context(), user))
		}
		endpoint.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		endpoint.Close()
		web.Close()
	})
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		t.Run(name, func(t *testing.T) {
			dial := func(user string) *client.Session {
				url := strings.Replace(web.URL, "//", "//"+user+":secret@", 1)
				return connect(t, streamable.Dial(url, nil), &client.Options{Era: era, Info: mcp.Implementation{Name: "ann", Version: "1"}})
			}
			ann, bob := dial("ann-"+name), dial("bob-"+name)
			saveSame(t, ann, "Ann's")
			seesNothing(t, bob)
			seesSame(t, dial("ann-"+name), "Ann's")
		})
	}
}

func TestOneOwnersMemoryIsBounded(t *testing.T) {
	store := memory.InMemory(&memory.Limits{Conversations: 2, Facts: 1, OwnerBytes: 2000})
	s := memory.New(store, nil)
	ann, bob := connect(t, as("ann", s), nil), connect(t, as("bob", s), nil)
	for _, session := range []*client.Session{ann, bob} {
		call(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"1"}`)
		call(t, session, "save_conversation", `{"conversation_id":"c2","snapshot":"1"}`)
		says(t, session, "save_conversation", `{"conversation_id":"c3","snapshot":"1"}`,
			"error: the memory is full: it holds at most 2 conversations; delete some first")
		says(t, session, "save_conversation", `{"conversation_id":"c2","snapshot":"22"}`, `{"saved":true,"conversation_id":"c2"}`)
		call(t, session, "save_user_fact", `{"user_id":"u","key":"k","value":"v"}`)
		says(t, session, "save_user_fact", `{"user_id":"u","key":"k2","value":"v"}`,
			"error: the memory is full: it holds at most 1 facts about one user; delete some first")
		says(t, session, "save_user_fact", `{"user_id":"u","key":"k","value":"`+strings.Repeat("v", 2000)+`"}`,
			"error: the memory is full: it holds at most 2000 bytes in one memory; delete some first")
		says(t, session, "get_user_facts", `{"user_id":"u"}`, `[{"key":"k","value":"v"}]`)
	}
}

func TestOptionsBoundWhatCallersSend(t *testing.T) {
	s := memory.New(memory.InMemory(nil), &memory.Options{MaxName: 2, MaxSnapshot: 3, MaxValue: -1})
	session := connect(t, as("", s), nil)
	says(t, session, "save_conversation", `{"conversation_id":"c10","snapshot":"1"}`, "error: conversation_id: expected at most 2 bytes, got 3")
	says(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"1234"}`, "error: snapshot: expected at most 3 bytes, got 4")
	says(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"123"}`, `{"saved":true,"conversation_id":"c1"}`)
	value := strings.Repeat("v", memory.DefaultMaxValue+1)
	says(t, session, "save_user_fact", `{"user_id":"u","key":"k","value":"`+value+`"}`, `{"saved":true,"user_id":"u","key":"k"}`)
}

func TestToolsSayWhatTheyDo(t *testing.T) {
	session := connect(t, as("", memory.New(memory.InMemory(nil), nil)), nil)
	got := map[string]string{}
	for tool, err := range session.Tools(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		hints, err := json.Marshal(tool.Annotations)
		if err != nil {
			t.Fatal(err)
		}
		if tool.Description == "" || tool.OutputSchema == nil {
			t.Errorf("%s has no description or no output schema", tool.Name)
		}
		got[tool.Name] = string(hints)
	}
	const reads = `{"readOnlyHint":true,"openWorldHint":false}`
	const replaces = `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false}`
	want := map[string]string{
		"save_conversation": replaces, "get_conversation": reads, "list_conversations": reads, "delete_conversation": replaces,
		"save_user_fact": replaces, "get_user_facts": reads, "delete_user_fact": replaces,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hints of the tools (-want +got):\n%s", diff)
	}
	for template, err := range session.Templates(t.Context()) {
		if err != nil || template.URITemplate != "memory://conversations/{id}" || template.MIMEType != "application/json" {
			t.Errorf("the template is %+v, %v", template, err)
		}
	}
}

// Structured content is what the output schema says, and the text is the same.
func TestResultsAreStructured(t *testing.T) {
	session := connect(t, as("", memory.New(memory.InMemory(nil), nil)), &client.Options{Era: client.Modern})
	for _, arguments := range []struct{ tool, arguments string }{
		{"save_conversation", `{"conversation_id":"c1","snapshot":"{\"n\":1}"}`},
		{"get_conversation", `{"conversation_id":"c1"}`},
		{"get_conversation", `{"conversation_id":"c2"}`},
		{"list_conversations", `{}`},
		{"delete_conversation", `{"conversation_id":"c1"}`},
		{"save_user_fact", `{"user_id":"u","key":"k","value":"v"}`},
		{"get_user_facts", `{"user_id":"u"}`},
		{"delete_user_fact", `{"user_id":"u","key":"k"}`},
	} {
		result, err := session.CallTool(t.Context(), arguments.tool, json.RawMessage(arguments.arguments), nil)
		if err != nil || result.IsError {
			t.Fatalf("%s: %v, %v", arguments.tool, result, err)
		}
		if text := textOf(result); text != string(result.StructuredContent) {
			t.Errorf("%s says %s, and structured %s", arguments.tool, text, result.StructuredContent)
		}
	}
}

func TestServerSaysWhatItIs(t *testing.T) {
	session := connect(t, as("", memory.New(memory.InMemory(nil), nil)), nil)
	if session.Server().Name != "memory" || !strings.Contains(session.Instructions(), "Save what") {
		t.Errorf("the server is %+v and says %q", session.Server(), session.Instructions())
	}
	s := memory.New(memory.InMemory(nil), &memory.Options{
		Info: mcp.Implementation{Name: "mine", Version: "2"}, Server: &server.Options{Instructions: "Remember me."},
	})
	session = connect(t, as("", s), nil)
	if session.Server().Name != "mine" || session.Instructions() != "Remember me." {
		t.Errorf("the server is %+v and says %q", session.Server(), session.Instructions())
	}
}

func TestCallsAtTheSameTimeKeepEachOthersFacts(t *testing.T) {
	eachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
		saved := make(chan error)
		const users, facts = 4, 25
		for user := range users {
			go func() {
				var failed error
				for fact := range facts {
					_, err := session.CallTool(t.Context(), "save_user_fact", json.RawMessage(
						fmt.Sprintf(`{"user_id":"ann","key":"%d/%d","value":"v"}`, user, fact)), nil)
					if err != nil {
						failed = err
					}
				}
				saved <- failed
			}()
		}
		for range users {
			if err := <-saved; err != nil {
				t.Error(err)
			}
		}
		got, err := client.CallAs[[]memory.Record](t.Context(), session, "get_user_facts", map[string]string{"user_id": "ann"})
		if err != nil || len(got) != users*facts {
			t.Errorf("%d facts, %v, want %d", len(got), err, users*facts)
		}
	})
}
