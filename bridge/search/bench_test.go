package search_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// manyTools returns n tools of about 600 bytes each.
func manyTools(n int) []string {
	verbs := []string{"create", "list", "read", "update", "delete", "search", "merge", "close", "assign", "export"}
	nouns := []string{"issue", "pull_request", "file", "branch", "release", "comment", "label", "milestone", "workflow", "secret"}
	var tools []string
	for i := range n {
		verb, noun, server := verbs[i%10], nouns[i/10%10], i/100
		tools = append(tools, fmt.Sprintf(`{"name":"server%d__%s_%s","title":"%[2]s %[3]s","description":"Use this to %[2]s a %[3]s on server %[1]d. `+
			`It needs the permission to %[2]s, and answers with the %[3]s as it is then, or with the reason why it cannot be done.","inputSchema":{"type":"object","properties":{`+
			`"owner":{"type":"string","description":"who the repository belongs to"},"repo":{"type":"string","description":"name of the repository"},`+
			`"%[3]s_number":{"type":"integer","description":"number of the %[3]s"},"page":{"type":"integer","minimum":1,"description":"page of the answer, from 1"}},`+
			`"required":["owner","repo"]},"annotations":{"readOnlyHint":false}}`, server, verb, noun))
	}
	return tools
}

// request returns a function that calls a tool of a provider without a transport.
func request(tb testing.TB, params string) func(p server.Provider) {
	r, err := jsonrpc.NewRequest(jsonrpc.IntID(1), mcp.MethodToolsCall, []byte(params))
	if err != nil {
		tb.Fatal(err)
	}
	call := mcp.NewCall(r, &mcp.Caller{Info: &mcp.Implementation{Name: "guest"}}, nil)
	var room []byte
	name := jsonscan.Unquote(call.Member("name"))
	return func(p server.Provider) {
		entry := p.Catalog().Lookup(mcp.KindTool, name)
		call.Resolve(&entry.Target, "", nil)
		result, err := entry.Handle(context.Background(), &call)
		if err != nil {
			tb.Fatal(err)
		}
		if room, err = result.AppendJSON(room[:0]); err != nil {
			tb.Fatal(err)
		}
	}
}

// runProvider is newProvider for a provider that runs.
func runProvider(tb testing.TB, from server.Provider, guards ...mcp.Guard) server.Provider {
	p := newProvider(tb, from, guards...)
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error)
	go func() { ended <- p.Run(ctx, func() { close(ready) }, func(mcp.Change) {}) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	<-ready
	return p
}

const benchQuery = `{"name":"search_tools","arguments":{"query":"close the pull requests of a repository"}}`

func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{100, 1000, maxTools} {
		for name, guards := range map[string][]mcp.Guard{"": nil, "-hiding": {hiding("server1")}} {
			b.Run(fmt.Sprint(n, name), func(b *testing.B) {
				p, search := runProvider(b, newSource(manyTools(n)...), guards...), request(b, benchQuery)
				search(p)
				b.ReportAllocs()
				for b.Loop() {
					search(p)
				}
			})
		}
	}
}

// BenchmarkFirstSearch builds the index.
func BenchmarkFirstSearch(b *testing.B) {
	tools := manyTools(1000)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		p, search := runProvider(b, newSource(tools...)), request(b, benchQuery)
		b.StartTimer()
		search(p)
	}
}

func BenchmarkCall(b *testing.B) {
	from := newSource("tool")
	from.answer = func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(`{"content":[]}`), nil }
	p, call := runProvider(b, from), request(b, `{"name":"call_tool","arguments":{"name":"tool","arguments":{"message":"hello","n":12345}}}`)
	b.ReportAllocs()
	for b.Loop() {
		call(p)
	}
}

// TestBudgets bounds the allocations of a search and of a call.
func TestBudgets(t *testing.T) {
	racetest.Skip(t)
	from := newSource(manyTools(1000)...)
	from.answer = func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(`{"content":[]}`), nil }
	p := runProvider(t, from)
	for _, test := range []struct {
		params string
		most   float64
	}{
		{benchQuery, 20},
		{`{"name":"call_tool","arguments":{"name":"server0__create_issue","arguments":{"message":"hello","n":12345}}}`, 7},
	} {
		call := request(t, test.params)
		if got := testing.AllocsPerRun(100, func() { call(p) }); got > test.most {
			t.Errorf("%s allocates %.0f times, want at most %.0f", test.params, got, test.most)
		} else {
			t.Logf("%s: %.0f allocations", test.params, got)
		}
	}
}
