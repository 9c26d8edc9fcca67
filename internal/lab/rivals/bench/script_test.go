package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A call is a call that a model makes.
type call struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// A plan is what a model does for a task. Calls of one turn are made at the same time. No model chooses here: the plan is fixed,
// and the shortest that the tools allow.
type plan struct {
	task    string
	queries []string // of searches, all in one turn
	turns   [][]call
	script  string
	answer  string // what the script returns, in JSON
}

const acme = `const repo = {owner: "acme", repo: "shop"}` + "\n"

func plans() []plan {
	repo := func(more map[string]any) map[string]any {
		arguments := map[string]any{"owner": "acme", "repo": "shop"}
		for name, value := range more {
			arguments[name] = value
		}
		return arguments
	}
	var comments, files []call
	for i := range 20 {
		comments = append(comments, call{"issue_read", repo(map[string]any{"method": "get_comments", "issue_number": 100 + i})})
	}
	for _, path := range []string{"a.md", "b.md", "c.md"} {
		files = append(files, call{"get_file_contents", repo(map[string]any{"path": path})})
	}
	list := call{"list_issues", repo(map[string]any{"state": "OPEN"})}
	return []plan{
		{"who am I: 1 call, a short result", []string{"get current user"}, [][]call{{{"get_me", map[string]any{}}}},
			`return await tools.get_me()`, `"{\"login\":\"anna\",\"name\":\"Anna\"}"`},
		{"the title of the oldest issue: 1 call, a long result", []string{"list issues"}, [][]call{{list}},
			acme + `const {issues} = JSON.parse(await tools.list_issues({...repo, state: "OPEN"}))` + "\nreturn issues.at(-1).title", `"Issue 119"`},
		{"which of 3 files has a TODO: 3 calls at once", []string{"get file contents"}, [][]call{files},
			acme + `const paths = ["a.md", "b.md", "c.md"]
const texts = await Promise.all(paths.map(path => tools.get_file_contents({...repo, path})))
return paths.filter((_, i) => texts[i].includes("TODO"))`, `["b.md"]`},
		{"which of 20 issues has a comment about a crash: 1 call, then 20", []string{"list issues", "get issue comments"}, [][]call{{list}, comments},
			acme + `const {issues} = JSON.parse(await tools.list_issues({...repo, state: "OPEN"}))
const comments = await Promise.all(issues.map(i => tools.issue_read({...repo, method: "get_comments", issue_number: i.number})))
return issues.filter((_, i) => comments[i].includes("crash")).map(i => i.number)`, `[107]`},
	}
}

// words returns about n bytes of text.
func words(n int) string {
	return strings.Repeat("the quick brown fox jumps over the lazy dog ", n/44+1)[:n]
}

// answerOf returns the result of a tool of the corpus.
func answerOf(name string, arguments json.RawMessage) string {
	var in struct {
		Path        string `json:"path"`
		IssueNumber int    `json:"issue_number"`
	}
	if err := json.Unmarshal(arguments, &in); err != nil {
		return err.Error()
	}
	var result any
	switch name {
	case "get_me":
		return `{"login":"anna","name":"Anna"}`
	case "get_file_contents":
		return strings.Repeat(words(79)+"\n", 50) + map[string]string{"b.md": "TODO: write\n"}[in.Path]
	case "list_issues":
		var issues []any
		for i := range 20 {
			issues = append(issues, map[string]any{"number": 100 + i, "title": fmt.Sprint("Issue ", 100+i), "state": "OPEN", "user": "bert", "body": words(400)})
		}
		result = map[string]any{"issues": issues}
	case "issue_read":
		var comments []any
		for i := range 5 {
			comments = append(comments, map[string]any{"id": 1000 + i, "user": "carl", "body": words(200)})
		}
		if in.IssueNumber == 107 {
			comments = append(comments, map[string]any{"id": 7, "user": "dora", "body": "It ends with a crash."})
		}
		result = comments
	}
	text, err := json.Marshal(result)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// answering returns the tools of the corpus, which answer.
func answering(t *testing.T) toolList {
	t.Helper()
	var entries []*server.Entry
	for e := range chosenTools(t, 115).catalog.All(mcp.KindTool) {
		e.Handle = func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
			return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text(answerOf(e.Name, call.Member("arguments")))}}, nil
		}
		entries = append(entries, e)
	}
	return toolList{server.NewCatalog(entries, nil)}
}

// A cost is what a task costs a model.
type cost struct {
	requests int // to the model
	read     int // tokens
	written  int // tokens
	bytes    int // of results
}

// TestScriptTokens counts what a model reads and writes for tasks with direct calls, with bridge/search and with bridge/code. The
// page docs/scripts.md has the results, and docs/README.md those of the longest task.
func TestScriptTokens(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	tokens := func(text string) int {
		n, err := codec.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	quiet := slog.New(slog.DiscardHandler)
	source := answering(t)
	found, err := search.New(source, &search.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := code.NewEngine(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	scripts, err := code.New(source, &code.Options{Engine: engine, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../../docs/scripts.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	begin := func(session *client.Session) cost {
		return cost{requests: 1, read: tokens(string(listedTools(t, session)))}
	}
	// turn makes the calls of one turn of the model.
	turn := func(c *cost, session *client.Session, calls ...call) (last string) {
		c.requests++
		for _, made := range calls {
			text, err := json.Marshal(made)
			if err != nil {
				t.Fatal(err)
			}
			result, err := session.CallTool(t.Context(), made.Name, made.Arguments, nil)
			if err != nil || result.IsError {
				t.Fatalf("%s: %v %v", text, result, err)
			}
			last = result.Text()
			c.written += tokens(string(text))
			c.read += tokens(last)
			c.bytes += len(last)
		}
		return last
	}
	direct, searching, scripting := listSession(t, source), listSession(t, found), listSession(t, scripts)
	for _, p := range plans() {
		all, two, one := begin(direct), begin(searching), begin(scripting)
		for _, calls := range p.turns {
			turn(&all, direct, calls...)
		}
		var finds, shorts []call
		for _, query := range p.queries {
			finds = append(finds, call{search.SearchTool, map[string]any{"query": query, "limit": 2}})
			shorts = append(shorts, call{code.SearchTool, map[string]any{"query": query, "limit": 2}})
		}
		turn(&two, searching, finds...)
		for _, calls := range p.turns {
			var wrapped []call
			for _, c := range calls {
				wrapped = append(wrapped, call{search.CallTool, map[string]any{"name": c.Name, "arguments": c.Arguments}})
			}
			turn(&two, searching, wrapped...)
		}
		turn(&one, scripting, shorts...)
		result := turn(&one, scripting, call{code.ScriptTool, map[string]any{"script": p.script}})
		var value struct{ Value json.RawMessage }
		if err := json.Unmarshal([]byte(result), &value); err != nil || string(value.Value) != p.answer {
			t.Errorf("%s: the script returns %s, want %s", p.task, result, p.answer)
		}
		for _, way := range []struct {
			name string
			cost
		}{{"direct", all}, {"search", two}, {"scripts", one}} {
			row := fmt.Sprintf("| %s | %s | %d | %d | %d | %d |", p.task, way.name, way.requests, way.read, way.written, way.bytes)
			if !bytes.Contains(page, []byte(row+"\n")) {
				t.Errorf("docs/scripts.md does not have the row\n%s", row)
			}
			if columns := fmt.Sprintf(" | %d | %d |", way.read, way.requests); len(p.turns) == 2 && !bytes.Contains(readme, []byte(columns+"\n")) {
				t.Errorf("docs/README.md has no row that ends with%s", columns)
			}
		}
	}
}
