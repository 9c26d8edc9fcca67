package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"

	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A toolList is a provider of tools that are not called.
type toolList struct{ catalog *server.Catalog }

func (l toolList) Catalog() *server.Catalog { return l.catalog }

// has reports whether the list has a tool of the corpus.
func (l toolList) has(name string) bool {
	return l.catalog.Lookup(mcp.KindTool, name) != nil || l.catalog.Lookup(mcp.KindTool, "server0__"+name) != nil
}

func (l toolList) Run(ctx context.Context, ready func(), changed func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return ctx.Err()
}

// corpusLines returns the lines of a file of the corpus of bridge/search.
func corpusLines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../../bridge/search/testdata/github/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// chosenTools returns n tools from the whole corpus, or copies of it under the names of servers.
func chosenTools(t *testing.T, n int) toolList {
	t.Helper()
	definitions := corpusLines(t, "tools.jsonl")
	var entries []*server.Entry
	for i := range n {
		definition := definitions[i%len(definitions)]
		if n < len(definitions) {
			definition = definitions[i*len(definitions)/n]
		}
		var tool struct{ Name string }
		if err := json.Unmarshal([]byte(definition), &tool); err != nil {
			t.Fatal(err)
		}
		if n > len(definitions) {
			prefix := fmt.Sprintf("server%d__", i/len(definitions))
			definition = strings.Replace(definition, tool.Name, prefix+tool.Name, 1) // the name is the first member
			tool.Name = prefix + tool.Name
		}
		entries = append(entries, &server.Entry{
			Target: mcp.Target{Kind: mcp.KindTool, Name: tool.Name, Definition: mcp.NewDefinition(json.RawMessage(definition))},
			Handle: func(context.Context, *mcp.Call) (mcp.Result, error) { return mcp.Raw(`{"content":[]}`), nil },
		})
	}
	return toolList{server.NewCatalog(entries, nil)}
}

// TestSearchTokens counts what a model reads with and without bridge/search. The page
// docs/search.md has the results.
func TestSearchTokens(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	tokens := func(text []byte) int {
		n, err := codec.Count(string(text))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	page, err := os.ReadFile("../../../../docs/search.md")
	if err != nil {
		t.Fatal(err)
	}
	queries := corpusLines(t, "queries.tsv")
	for _, n := range []int{3, 5, 10, 15, 20, 30, 50, 115, 1000} {
		source := chosenTools(t, n)
		found, err := search.New(source, &search.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		session := listSession(t, found)
		all := tokens(listedTools(t, listSession(t, source)))
		two := tokens(listedTools(t, session))
		sum, searches := 0, 0
		for _, line := range queries {
			parts := strings.Split(line, "\t")
			if !slices.ContainsFunc(strings.Fields(parts[2]), source.has) {
				continue // no tool does what is asked
			}
			arguments := fmt.Sprintf(`{"query":%q}`, parts[1])
			result, err := session.CallTool(t.Context(), search.SearchTool, json.RawMessage(arguments), nil)
			if err != nil {
				t.Fatal(err)
			}
			sum += tokens([]byte(arguments + result.Text()))
			searches++
		}
		one := sum / searches
		row := fmt.Sprintf("| %d | %d | %d | %d | %s | %s |", n, all, two, one, saved(all, two+one), saved(all, two+3*one))
		if !bytes.Contains(page, []byte(row+"\n")) {
			t.Errorf("docs/search.md does not have the row\n%s", row)
		}
	}
}

// saved returns how much less the second number is, in percent of the first.
func saved(all, with int) string {
	return fmt.Sprintf("%d (%+.0f %%)", with, 100*float64(with-all)/float64(all))
}

func listSession(t *testing.T, p server.Provider) *client.Session {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "tools", Version: "1.0.0"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Mount(p, nil); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), transport.Pipe(s), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return session
}

// listedTools returns the definitions of all pages, as they are sent, between commas.
func listedTools(t *testing.T, session *client.Session) (tools []byte) {
	t.Helper()
	for params := `{}`; params != ""; {
		raw, err := session.Call(t.Context(), mcp.MethodToolsList, []byte(params), nil)
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Tools      []json.RawMessage
			NextCursor string
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			t.Fatal(err)
		}
		for _, tool := range page.Tools {
			tools = append(append(tools, tool...), ',')
		}
		params = ""
		if page.NextCursor != "" {
			params = fmt.Sprintf(`{"cursor":%q}`, page.NextCursor)
		}
	}
	return tools
}
