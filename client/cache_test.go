package client_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A library is a server whose lists and resources have cache hints. Each answer is different.
type library struct {
	ttl     string // of every answer, raw JSON
	answers int
	note    func(req *jsonrpc.Request) []string
}

func (l *library) script(req *jsonrpc.Request) []string {
	if l.note != nil {
		if frames := l.note(req); frames != nil {
			return frames
		}
	}
	result := func(members string) []string {
		l.answers++
		return []string{result(req, fmt.Sprintf(`{"resultType":"complete","ttlMs":%s,"cacheScope":"private",%s}`, l.ttl, members))}
	}
	switch req.Method {
	case mcp.MethodToolsList:
		return result(`"tools":[` + tool(fmt.Sprintf("v%d", l.answers)) + `]`)
	case mcp.MethodPromptsList:
		return result(fmt.Sprintf(`"prompts":[{"name":"v%d"}]`, l.answers))
	case mcp.MethodResourcesRead:
		return result(fmt.Sprintf(`"contents":[{"uri":%s,"text":"v%d"}]`, req.Member("uri"), l.answers))
	}
	return nil
}

// read returns the answer to a read, which may come from the cache.
func read(t *testing.T, session *client.Session, uri string) string {
	t.Helper()
	result, err := session.ReadResource(t.Context(), uri, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result.Contents[0].(*mcp.TextResourceContents).Text
}

func list(t *testing.T, session *client.Session) string {
	t.Helper()
	names, err := toolNames(t, session)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func expect(t *testing.T, want, got string) {
	t.Helper()
	if got != want {
		t.Errorf("got the answer %s, want %s", got, want)
	}
}

func TestCacheExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &library{ttl: `60000`}
		session := connect(t, script(l.script), client.Options{})
		expect(t, "v0", read(t, session, "a:1"))
		expect(t, "v1", list(t, session))
		expect(t, "v2", read(t, session, "a:2")) // each URI has its own
		<-time.After(59 * time.Second)
		expect(t, "v0", read(t, session, "a:1"))
		expect(t, "v1", list(t, session))
		<-time.After(2 * time.Second)
		expect(t, "v3", read(t, session, "a:1"))
		expect(t, "v4", list(t, session))
	})
}

func TestCacheLifetimes(t *testing.T) {
	for ttl, held := range map[string]time.Duration{
		`0`: 0, `-5`: 0, `null`: 0, `-9223372036854775808`: 0,
		`1`: time.Millisecond, `999999999`: 24 * time.Hour, `9223372036854775807`: 24 * time.Hour,
	} {
		t.Run(ttl, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				session := connect(t, script((&library{ttl: ttl}).script), client.Options{})
				first := read(t, session, "a:1")
				if held > 0 {
					<-time.After(held - time.Nanosecond)
					expect(t, first, read(t, session, "a:1"))
				}
				<-time.After(2 * time.Nanosecond)
				expect(t, "v1", read(t, session, "a:1"))
			})
		})
	}
}

// TestCacheOfPages checks that each page has its own entry.
func TestCacheOfPages(t *testing.T) {
	var turned []string
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsList {
			return nil
		}
		cursor := string(req.Member("cursor"))
		turned = append(turned, cursor)
		next := map[string]string{"": `,"nextCursor":"1"`, `"1"`: `,"nextCursor":""`}[cursor]
		return []string{result(req, `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[`+tool("after "+cursor)+`]`+next+`}`)}
	}), client.Options{})
	for range 3 {
		expect(t, `after  after "1" after ""`, list(t, session))
	}
	if len(turned) != 3 {
		t.Errorf("pages %q were asked for, want each once", turned)
	}
}

func TestChangesInvalidate(t *testing.T) {
	changed := map[string]string{
		"tools":     notification(mcp.NotificationToolsListChanged, `{}`),
		"prompts":   notification(mcp.NotificationPromptsListChanged, `{}`),
		"resources": notification(mcp.NotificationResourcesListChanged, `{}`),
		"a:1":       notification(mcp.NotificationResourceUpdated, `{"uri":"a:1"}`),
		"a:1/part":  notification(mcp.NotificationResourceUpdated, `{"uri":"a:1/part"}`),
		"a:":        notification(mcp.NotificationResourceUpdated, `{"uri":"a:"}`),
		"b:":        notification(mcp.NotificationResourceUpdated, `{"uri":"b:"}`),
	}
	for _, test := range []struct {
		change      string
		tools, read bool // what must be asked for again
	}{
		{change: "tools", tools: true},
		{change: "prompts"},
		{change: "resources"},
		{change: "a:1", read: true},
		{change: "a:1/part", read: true},
		{change: "a:", read: true},
		{change: "b:"},
	} {
		t.Run(test.change, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &library{ttl: `60000`, note: func(req *jsonrpc.Request) []string {
					if req.Method == mcp.MethodToolsCall {
						return []string{changed[test.change], result(req, text("done"))}
					}
					return nil
				}}
				session := connect(t, script(l.script), client.Options{})
				expect(t, "v0", list(t, session))
				expect(t, "v1", read(t, session, "a:1"))
				if _, err := session.CallTool(t.Context(), "x", nil, nil); err != nil {
					t.Fatal(err)
				}
				if again := list(t, session) != "v0"; again != test.tools {
					t.Errorf("tools were asked for again: %t", again)
				}
				if again := read(t, session, "a:1") != "v1"; again != test.read {
					t.Errorf("the resource was read again: %t", again)
				}
			})
		})
	}
}

// TestChangeDuringAFetch checks that a result from before a change is not cached.
func TestChangeDuringAFetch(t *testing.T) {
	l := &library{ttl: `60000`}
	l.note = func(req *jsonrpc.Request) []string {
		if req.Method == mcp.MethodToolsList && l.answers == 0 {
			l.answers++
			return []string{
				notification(mcp.NotificationToolsListChanged, `{}`),
				result(req, `{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":[`+tool("old")+`]}`),
			}
		}
		return nil
	}
	session := connect(t, script(l.script), client.Options{})
	expect(t, "old", list(t, session))
	expect(t, "v1", list(t, session))
	expect(t, "v1", list(t, session))
}

// TestInvalidResultsAreNotCached checks that results that cannot be decoded are not cached.
func TestInvalidResultsAreNotCached(t *testing.T) {
	good := false
	session := connect(t, script(func(req *jsonrpc.Request) []string {
		if req.Method != mcp.MethodToolsList {
			return nil
		}
		tools := `"none"`
		if good {
			tools = `[` + tool("hammer") + `]`
		}
		good = true
		return []string{result(req, `{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":`+tools+`}`)}
	}), client.Options{})
	if names, err := toolNames(t, session); err == nil {
		t.Fatalf("garbage was decoded: %v", names)
	}
	expect(t, "hammer", list(t, session))
}

// TestCachedResultsMayBeChanged checks that each reader gets its own value.
func TestCachedResultsMayBeChanged(t *testing.T) {
	session := connect(t, script((&library{ttl: `60000`}).script), client.Options{})
	for range 2 {
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if string(tool.InputSchema) != `{"type":"object"}` || tool.Name != "v0" {
				t.Errorf("the tool is %s", raw(t, tool))
			}
			tool.Name = "changed"
			clear(tool.InputSchema)
		}
	}
}

// TestReadsWithMetaAreNotCached checks that a read with metadata is always sent.
func TestReadsWithMetaAreNotCached(t *testing.T) {
	session := connect(t, script((&library{ttl: `60000`}).script), client.Options{})
	expect(t, "v0", read(t, session, "a:1"))
	result, err := session.ReadResource(t.Context(), "a:1", &client.CallOptions{Meta: mcp.Meta(`{"tenant":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "v1", result.Contents[0].(*mcp.TextResourceContents).Text)
	expect(t, "v0", read(t, session, "a:1"))
}

// TestReconnectClearsCache checks that the cache is empty after a reconnect.
func TestReconnectClearsCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		l := &library{ttl: `60000`, note: func(req *jsonrpc.Request) []string {
			if req.Method == mcp.MethodToolsCall && hang.CompareAndSwap(true, false) {
				return []string{hangUp}
			}
			return nil
		}}
		session := connect(t, script(l.script), client.Options{})
		expect(t, "v0", list(t, session))
		hang.Store(true)
		_, err := session.CallTool(t.Context(), "x", nil, nil)
		failed(t, err, jsonrpc.MaybeExecuted)
		if err := session.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		expect(t, "v1", list(t, session))
	})
}
