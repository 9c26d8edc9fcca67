package client_test

import (
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestInvalidEntries checks that the valid entries of a list are read.
func TestInvalidEntries(t *testing.T) {
	for name, test := range map[string]struct {
		page  string // members of the result
		names []string
		log   []string // parts of the warnings
		err   string
	}{
		"no list":           {page: `"x":1`},
		"null":              {page: `"tools":null`},
		"an object":         {page: `"tools":{}`, err: "tools: "},
		"no object":         {page: `"tools":[` + tool("a") + `,7,` + tool("b") + `,null,"x",[]]`, names: []string{"a", "b"}, log: []string{"an object"}},
		"wrong types":       {page: `"tools":[` + tool("a") + `,{"name":7},{"name":"evil","description":{}},` + tool("b") + `]`, names: []string{"a", "b"}, log: []string{"entry=7", "evil", "/description"}},
		"a schema's twice":  {page: `"tools":[{"name":"a","inputSchema":{"type":"object","a":[{"b":1,"b":2}]}},` + tool("c") + `]`, names: []string{"c"}, log: []string{"a"}},
		"twice, escaped":    {page: `"tools":[{"name":"a","n\u0061me":"b"},` + tool("c") + `]`, names: []string{"c"}, log: []string{"a"}},
		"a member twice":    {page: `"tools":[{"name":"a","name":"b"},` + tool("c") + `]`, names: []string{"c"}, log: []string{"a"}},
		"too large":         {page: `"tools":[{"name":"` + strings.Repeat("x", 300) + `"},` + tool("c") + `]`, names: []string{"c"}, log: []string{"NameBytes"}},
		"other members bad": {page: `"tools":[` + tool("a") + `],"ttlMs":"soon","_meta":[]`, names: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachEra(t, func(t *testing.T, era client.Era) {
				var log strings.Builder
				session := connect(t, script(func(req *jsonrpc.Request) []string {
					if req.Method != mcp.MethodToolsList {
						return nil
					}
					return []string{result(req, `{"resultType":"complete",`+test.page+`}`)}
				}), client.Options{Era: era, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				names, err := toolNames(t, session)
				if diff := cmp.Diff(test.names, names); diff != "" {
					t.Error(diff)
				}
				if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("the error is %v, want %q", err, test.err)
				}
				for _, want := range test.log {
					if !strings.Contains(log.String(), want) {
						t.Errorf("the log is %s, want %q in it", log.String(), want)
					}
				}
				if test.log == nil && log.Len() > 0 {
					t.Errorf("the log is %s, want none", log.String())
				}
			})
		})
	}
}

// TestEntriesAreDecoded checks that entries of lists are what their UnmarshalJSON makes of them.
func TestEntriesAreDecoded(t *testing.T) {
	members := []string{
		`"title":"\u00e9t\u00e9 \ud83d","description":"a \"b\" \\"`,
		`"t\u0069tle":"escaped key","vendor":{"x":[1, 2]},"other":null`,
		`"title":null,"description":null,"_meta":null,"icons":null,"annotations":null,"arguments":null,"mimeType":null,"inputSchema":null,"outputSchema":null`,
		` "_meta" : { "a": 1 } , "icons":[{"src":"a:b","x":1}],"mimeType":"text/plain","size":7, "delivery":["poll"]`,
		`"inputSchema":{ "type": "object" },"outputSchema":true,"annotations":{"title":"x","readOnlyHint":true,"audience":["user"],"x":1},"execution":{"taskSupport":"optional"}`,
		`"arguments":[{"name":"x","required":true,"y":1},null],"x":1`, `"Title":"x","NAME":"y"`,
	}
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, script(func(req *jsonrpc.Request) []string {
			list := listMembers[req.Method]
			if list == "" {
				return nil
			}
			return []string{result(req, `{"resultType":"complete","`+list+`":[`+strings.Join(entriesOf(members), ",")+`]}`)}
		}), client.Options{Era: era})
		checkDecoded(t, entriesOf(members), session.Tools(t.Context(), nil))
		checkDecoded(t, entriesOf(members), session.Prompts(t.Context(), nil))
		checkDecoded(t, entriesOf(members), session.Resources(t.Context(), nil))
		checkDecoded(t, entriesOf(members), session.Templates(t.Context(), nil))
	})
}

func entriesOf(members []string) []string {
	entries := make([]string, len(members))
	for i, more := range members {
		entries[i] = fmt.Sprintf(`{"name":"n%[1]d","uri":"a:%[1]d","uriTemplate":"a:%[1]d{x}",%[2]s}`, i, more)
	}
	return entries
}

func checkDecoded[T any](t *testing.T, entries []string, list iter.Seq2[*T, error]) {
	t.Helper()
	var got, want []T
	for entry, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, *entry)
	}
	for _, entry := range entries {
		var decoded T
		if err := json.Unmarshal([]byte(entry), &decoded); err != nil {
			t.Fatalf("%s: %v", entry, err)
		}
		want = append(want, decoded)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestPagesBeforeAnErrorAreKept checks that a failing page loses no entries of the pages before.
func TestPagesBeforeAnErrorAreKept(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, script(func(req *jsonrpc.Request) []string {
			switch {
			case req.Method != mcp.MethodToolsList:
				return nil
			case req.Member("cursor") != nil:
				return []string{failure(req, jsonrpc.InternalError, "the database is gone")}
			}
			return []string{result(req, `{"resultType":"complete","tools":[`+tool("a")+`,`+tool("b")+`],"nextCursor":"2"}`)}
		}), client.Options{Era: era})
		names, err := toolNames(t, session)
		if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
			t.Error(diff)
		}
		if err == nil || !strings.Contains(err.Error(), "the database is gone") {
			t.Errorf("the error is %v, want the error of the server", err)
		}
	})
}

// TestSkipWarningsAreBounded checks that a list with many invalid entries causes few and short
// warnings.
func TestSkipWarningsAreBounded(t *testing.T) {
	entries, log, err := readEntries(t, client.Limits{}, mcp.MethodToolsList,
		repeated(2000, `{"name":"`+strings.Repeat("x", 1000)+`"}`)+","+tool("a"), tool("b")+","+repeated(500, `7`))
	if entries != 2 || err != nil {
		t.Errorf("%d entries are read, want 2; error %v", entries, err)
	}
	if lines := strings.Count(log, "\n"); lines != 11 || len(log) > 11*1000 {
		t.Errorf("%d warnings of %d bytes are logged, want 11 short ones", lines, len(log))
	}
	if want := fmt.Sprintf("count=%d", 2500-10); !strings.Contains(log, want) {
		t.Errorf("the log has no %s", want)
	}
}
