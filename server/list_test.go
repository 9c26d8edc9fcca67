package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func newPaged(tools, size int) *server.Server {
	s := newServer(&server.Options{PageSize: size})
	for i := range tools {
		returns(s, fmt.Sprintf("tool%02d", i), "")
	}
	return s
}

// page is one page of tools.
func page(t testing.TB, session *client.Session, cursor string) (names []string, next string) {
	t.Helper()
	params := `{}`
	if cursor != "" {
		params = `{"cursor":"` + cursor + `"}`
	}
	result, err := raw(t, session, mcp.MethodToolsList, params)
	if err != nil {
		t.Fatal(err)
	}
	var list mcp.ListToolsResult
	if err := list.UnmarshalJSON([]byte(result)); err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	if list.NextCursor != nil {
		next = *list.NextCursor
	}
	return names, next
}

func TestPages(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for tools := range 8 {
			session := connect(t, newPaged(tools, 3), era)
			if got := len(toolNames(t, session)); got != tools {
				t.Errorf("of %d tools %d are listed", tools, got)
			}
			names, next := page(t, session, "")
			if len(names) != min(tools, 3) || (next == "") != (tools <= 3) {
				t.Errorf("the first page of %d tools is %q, %q", tools, names, next)
			}
		}
	})
}

// TestStableCursor: a cursor survives changes elsewhere in the list.
func TestStableCursor(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newPaged(9, 3)
		session := connect(t, s, era)
		_, next := page(t, session, "")
		s.Remove(mcp.KindTool, "tool00", "tool04")
		returns(s, "another", "")
		names, next := page(t, session, next)
		if want := []string{"tool03", "tool05", "tool06"}; !slices.Equal(names, want) {
			t.Errorf("the second page is %q, want %q", names, want)
		}
		names, next = page(t, session, next)
		if want := []string{"tool07", "tool08", "another"}; !slices.Equal(names, want) || next != "" {
			t.Errorf("the last page is %q, want %q", names, want)
		}
	})
}

func TestInvalidCursor(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newPaged(9, 3)
		session := connect(t, s, era)
		_, stale := page(t, session, "")
		s.Remove(mcp.KindTool, "tool02")
		cursors := []string{`"nonsense"`, `""`, `7`, `{}`, `"` + stale + `"`, `"` + strings.Repeat("A", 1<<16) + `"`}
		for _, method := range []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList} {
			for _, cursor := range cursors {
				_, err := raw(t, session, method, `{"cursor":`+cursor+`}`)
				if wantCode(t, err, jsonrpc.InvalidParams); t.Failed() {
					t.Fatalf("%s with %.40s", method, cursor)
				}
			}
		}
		// A server without pages has no cursors either.
		_, err := raw(t, connect(t, newPaged(2, 0), era), mcp.MethodToolsList, `{"cursor":"x"}`)
		wantCode(t, err, jsonrpc.InvalidParams)
	})
}

// TestListBytes: schemas and metadata stand in a list as they were given, in the
// order of registration.
func TestListBytes(t *testing.T) {
	const schema = `{"type":"object", "$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"b":{"type":"integer","default":1.0},"a":{}},"x-own":"\u00e9"}`
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		returns(s, "z", "")
		server.AddRawTool(s, server.Tool{Name: "a", InputSchema: jsonRaw(schema), Meta: mcp.Meta(`{"b":1.0,"a":2}`)}, nil)
		session := connect(t, s, era)
		for range 2 {
			got, err := raw(t, session, mcp.MethodToolsList, `{}`)
			if err != nil || !strings.Contains(got, `"inputSchema":`+schema) || !strings.Contains(got, `"_meta":{"b":1.0,"a":2}`) {
				t.Errorf("the list is %s, %v", got, err)
			}
			if strings.Index(got, `"name":"z"`) > strings.Index(got, `"name":"a"`) {
				t.Errorf("the order is not that of registration: %s", got)
			}
		}
	})
}
