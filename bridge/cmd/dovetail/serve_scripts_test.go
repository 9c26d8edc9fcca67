package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
)

// TestScriptsOfferTwoTools: clients of MCP call all tools from programs in JavaScript and TypeScript. The policy applies to the
// calls, and paths for plain HTTP have all tools.
func TestScriptsOfferTwoTools(t *testing.T) {
	p := start(t, "-scripts", "-approve", "none")
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session := p.connect(t, &client.Options{Era: era})
		var names []string
		for tool, err := range session.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		if slices.Sort(names); !slices.Equal(names, []string{"run_script", "search_tools"}) {
			t.Errorf("the tools are %v", names)
		}
		before := len(p.lines(t, "file"))
		arguments := `{ path: ` + encoded(t, p.path("file")) + `, text: "x" }`
		for script, want := range map[string]string{
			"const path: string = await shelf.look(" + arguments + ")\nreturn path":      "put",
			"try { await shelf.drop(" + arguments + ") } catch (e) { return e.message }": "shelf has no tool drop",
			"const n: number = 1 +": "SyntaxError",
		} {
			result, err := session.CallTool(t.Context(), "run_script", map[string]string{"script": script}, nil)
			if err != nil || !strings.Contains(result.Text(), want) {
				t.Errorf("%s: %s %v, want %s", script, result.Text(), err, want)
			}
		}
		if got := len(p.lines(t, "file")) - before; got != 1 {
			t.Errorf("it is done %d times, want once", got)
		}
		found, err := session.CallTool(t.Context(), "search_tools", json.RawMessage(`{"query":"look","short":true}`), nil)
		if err != nil || !strings.Contains(found.Text(), "shelf.look(input: {") {
			t.Errorf("found is %v %v", found, err)
		}
	}
	status, answer, err := p.do(t.Context(), p.token, http.MethodPost, "/api/v1/rest/tools/shelf__look", `{"path":`+encoded(t, p.path("rest"))+`,"text":"x"}`)
	if err != nil || status != http.StatusOK {
		t.Errorf("over plain HTTP: %d %s, %v", status, answer, err)
	}
}
