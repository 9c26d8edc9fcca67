package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// saveSame saves under names that all tests of separation use.
func saveSame(t *testing.T, session *client.Session, value string) {
	t.Helper()
	call(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":`+quoted(quoted(value))+`}`)
	call(t, session, "save_user_fact", `{"user_id":"ann","key":"k","value":`+quoted(value)+`}`)
}

func wantSame(t *testing.T, session *client.Session, value string) {
	t.Helper()
	wantResource(t, session, "memory://conversations/c1", quoted(value))
	wantText(t, session, "get_user_facts", `{"user_id":"ann"}`, `[{"key":"k","value":`+quoted(value)+`}]`)
}

func wantNothing(t *testing.T, session *client.Session) {
	t.Helper()
	wantResource(t, session, "memory://conversations/c1", `[]`)
	wantText(t, session, "get_conversation", `{"conversation_id":"c1"}`, `{"conversation_id":"c1","found":false}`)
	wantText(t, session, "list_conversations", `{}`, `{"conversation_ids":[]}`)
	wantText(t, session, "get_user_facts", `{"user_id":"ann"}`, `[]`)
	wantText(t, session, "delete_conversation", `{"conversation_id":"c1"}`, `{"deleted":false,"conversation_id":"c1"}`)
	wantText(t, session, "delete_user_fact", `{"user_id":"ann","key":"k"}`, `{"deleted":false,"user_id":"ann","key":"k"}`)
	values, err := session.CompleteTemplate(t.Context(), "memory://conversations/{id}", "id", "", nil, nil)
	if err != nil || len(values.Values) != 0 {
		t.Errorf("ids are completed to %v, %v", values, err)
	}
}

func TestPrincipalsAreSeparate(t *testing.T) {
	for name, era := range map[string]client.Era{"modern": client.Modern, "legacy": client.Legacy} {
		t.Run(name, func(t *testing.T) {
			s := memory.New(memory.InMemory(nil), nil)
			opts := &client.Options{Era: era}
			ann, bob, nobody := connect(t, as("ann", s), opts), connect(t, as("bob", s), opts), connect(t, as("", s), opts)
			saveSame(t, ann, "Ann's")
			wantNothing(t, bob)
			wantNothing(t, nobody)
			saveSame(t, nobody, "nobody's")
			wantNothing(t, bob)
			saveSame(t, bob, "Bob's")
			wantSame(t, ann, "Ann's")
			wantSame(t, bob, "Bob's")
			wantSame(t, nobody, "nobody's")
			wantSame(t, connect(t, as("ann", s), opts), "Ann's") // another session
		})
	}
}

func TestShared(t *testing.T) {
	s := memory.New(memory.InMemory(nil), &memory.Options{Shared: true})
	ann, bob := connect(t, as("ann", s), nil), connect(t, as("bob", s), nil)
	saveSame(t, ann, "Ann's")
	wantSame(t, bob, "Ann's")
	saveSame(t, bob, "Bob's")
	wantSame(t, ann, "Bob's")
}

// The principal is the authenticated one, not the name that a client gives itself.
func TestPrincipalOverHTTP(t *testing.T) {
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
			wantNothing(t, bob)
			wantSame(t, dial("ann-"+name), "Ann's")
		})
	}
}

func TestOwnerLimit(t *testing.T) {
	store := memory.InMemory(&memory.Limits{Conversations: 2, Facts: 1, OwnerBytes: 2000})
	s := memory.New(store, nil)
	ann, bob := connect(t, as("ann", s), nil), connect(t, as("bob", s), nil)
	for _, session := range []*client.Session{ann, bob} {
		call(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"1"}`)
		call(t, session, "save_conversation", `{"conversation_id":"c2","snapshot":"1"}`)
		wantText(t, session, "save_conversation", `{"conversation_id":"c3","snapshot":"1"}`,
			"error: the memory is full: it holds at most 2 conversations; delete some first")
		wantText(t, session, "save_conversation", `{"conversation_id":"c2","snapshot":"22"}`, `{"saved":true,"conversation_id":"c2"}`)
		call(t, session, "save_user_fact", `{"user_id":"u","key":"k","value":"v"}`)
		wantText(t, session, "save_user_fact", `{"user_id":"u","key":"k2","value":"v"}`,
			"error: the memory is full: it holds at most 1 facts about one user; delete some first")
		wantText(t, session, "save_user_fact", `{"user_id":"u","key":"k","value":"`+strings.Repeat("v", 2000)+`"}`,
			"error: the memory is full: it holds at most 2000 bytes in one memory; delete some first")
		wantText(t, session, "get_user_facts", `{"user_id":"u"}`, `[{"key":"k","value":"v"}]`)
	}
}

func TestOptionsLimits(t *testing.T) {
	s := memory.New(memory.InMemory(nil), &memory.Options{MaxName: 2, MaxSnapshot: 3, MaxValue: -1})
	session := connect(t, as("", s), nil)
	wantText(t, session, "save_conversation", `{"conversation_id":"c10","snapshot":"1"}`, "error: conversation_id: expected at most 2 bytes, got 3")
	wantText(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"1234"}`, "error: snapshot: expected at most 3 bytes, got 4")
	wantText(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"123"}`, `{"saved":true,"conversation_id":"c1"}`)
	value := strings.Repeat("v", 4<<10+1)
	wantText(t, session, "save_user_fact", `{"user_id":"u","key":"k","value":"`+value+`"}`, `{"saved":true,"user_id":"u","key":"k"}`)
}

func TestToolAnnotations(t *testing.T) {
	session := connect(t, as("", memory.New(memory.InMemory(nil), nil)), nil)
	got := map[string]string{}
	for tool, err := range session.Tools(t.Context(), nil) {
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
	for template, err := range session.Templates(t.Context(), nil) {
		if err != nil || template.URITemplate != "memory://conversations/{id}" || template.MIMEType != "application/json" {
			t.Errorf("the template is %+v, %v", template, err)
		}
	}
}

// Structured content follows the output schema, and the text is the same.
func TestStructuredResults(t *testing.T) {
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
			t.Errorf("%s: text %s, structured content %s", arguments.tool, text, result.StructuredContent)
		}
	}
}

func TestServerInfo(t *testing.T) {
	session := connect(t, as("", memory.New(memory.InMemory(nil), nil)), nil)
	if session.Server().Name != "memory" || !strings.Contains(session.Instructions(), "Save what") {
		t.Errorf("server %+v, instructions %q", session.Server(), session.Instructions())
	}
	s := memory.New(memory.InMemory(nil), &memory.Options{
		Info: mcp.Implementation{Name: "mine", Version: "2"}, Server: &server.Options{Instructions: "Remember me."},
	})
	session = connect(t, as("", s), nil)
	if session.Server().Name != "mine" || session.Instructions() != "Remember me." {
		t.Errorf("server %+v, instructions %q", session.Server(), session.Instructions())
	}
}

func TestConcurrentCalls(t *testing.T) {
	forEachEra(t, nil, func(t *testing.T, _ client.Era, session *client.Session) {
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
		got, err := client.CallAs[[]memory.Record](t.Context(), session, "get_user_facts", map[string]string{"user_id": "ann"}, nil)
		if err != nil || len(got) != users*facts {
			t.Errorf("%d facts, %v, want %d", len(got), err, users*facts)
		}
	})
}

// A failingStore returns an error from every operation.
type failingStore struct {
	err func(ctx context.Context) error
}

func (b failingStore) Save(ctx context.Context, _ memory.Collection, _ memory.Record) error {
	return b.err(ctx)
}

func (b failingStore) Load(ctx context.Context, _ memory.Collection, _ string) (string, error) {
	return "", b.err(ctx)
}

func (b failingStore) Delete(ctx context.Context, _ memory.Collection, _ string) (bool, error) {
	return false, b.err(ctx)
}

func (b failingStore) List(ctx context.Context, _ memory.Collection, _ memory.Query) ([]memory.Record, error) {
	return nil, b.err(ctx)
}

// callOfEachTool returns arguments for each tool.
func callOfEachTool() map[string]string {
	return map[string]string{
		"save_conversation":   `{"conversation_id":"c1","snapshot":"1"}`,
		"get_conversation":    `{"conversation_id":"c1"}`,
		"list_conversations":  `{}`,
		"delete_conversation": `{"conversation_id":"c1"}`,
		"save_user_fact":      `{"user_id":"u","key":"k","value":"v"}`,
		"get_user_facts":      `{"user_id":"u"}`,
		"delete_user_fact":    `{"user_id":"u","key":"k"}`,
	}
}

const notAvailable = "the memory is not available now; it may or may not have saved or deleted anything"

func TestStoreErrorsAreLogged(t *testing.T) {
	var log bytes.Buffer
	store := failingStore{func(context.Context) error { return errors.New("dial tcp 10.0.0.7: password secret") }}
	s := memory.New(store, &memory.Options{Server: &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	session := connect(t, as("", s), nil)
	for tool, arguments := range callOfEachTool() {
		wantText(t, session, tool, arguments, "error: "+notAvailable)
	}
	_, err := session.ReadResource(t.Context(), "memory://conversations/c1", nil)
	if err == nil || mcp.IsResourceNotFound(err) || !strings.Contains(err.Error(), notAvailable) {
		t.Errorf("reading: %v", err)
	}
	wantResource(t, session, "memory://conversations/"+strings.Repeat("a", 257), `[]`) // too long: the store is not called
	if _, err := session.CompleteTemplate(t.Context(), "memory://conversations/{id}", "id", "", nil, nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("completing: %v", err)
	}
	for _, operation := range []string{"save", "load", "delete", "list"} {
		if !strings.Contains(log.String(), "operation="+operation+` error="dial tcp 10.0.0.7: password secret"`) {
			t.Errorf("the log does not mention %s:\n%s", operation, &log)
		}
	}
}

// Callers see the limit of a full store, but not the rest of its error.
func TestStoreErrorDetailsAreHidden(t *testing.T) {
	store := failingStore{func(context.Context) error {
		return fmt.Errorf("/var/lib/secret: %w", &memory.FullError{Of: "bytes", Limit: 7})
	}}
	session := connect(t, as("", memory.New(store, nil)), nil)
	wantText(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"1"}`,
		"error: the memory is full: it holds at most 7 bytes; delete some first")
	store = failingStore{func(context.Context) error { return fmt.Errorf("/var/lib/secret: %w", memory.ErrNotFound) }}
	session = connect(t, as("", memory.New(store, nil)), nil)
	wantResource(t, session, "memory://conversations/c1", `[]`)
	wantText(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"1"}`, "error: memory: not found")
}

func TestStoreTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := failingStore{func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		s := memory.New(store, &memory.Options{Server: &server.Options{Logger: quiet()}})
		session := connect(t, as("", s), nil)
		for tool, arguments := range callOfEachTool() {
			began := time.Now()
			wantText(t, session, tool, arguments, "error: "+notAvailable)
			if took := time.Since(began); took != 10*time.Second {
				t.Errorf("%s fails after %v, want %v", tool, took, 10*time.Second)
			}
		}
	})
}

func TestCallerCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, left := make(chan struct{}), make(chan error, 1)
		store := failingStore{func(ctx context.Context) error {
			close(entered)
			<-ctx.Done()
			left <- ctx.Err()
			return ctx.Err()
		}}
		var log bytes.Buffer
		s := memory.New(store, &memory.Options{Timeout: -1, Server: &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		session := connect(t, as("", s), &client.Options{Era: client.Modern})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-entered
			cancel()
		}()
		if _, err := session.CallTool(ctx, "list_conversations", nil, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the call returns %v", err)
		}
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the store's context ended with %v", err)
		}
		session.Close()
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("a canceled call was logged as an error:\n%s", &log)
		}
	})
}
