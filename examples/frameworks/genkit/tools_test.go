package genkit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/dovetail-go/dovetail/examples/frameworks/internal/calculator"
)

// answer is a scripted model: it calls all tools, and then answers with what it was told.
func answer(_ context.Context, request *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
	last := request.Messages[len(request.Messages)-1]
	if last.Role != ai.RoleTool {
		call := func(name string, input any) *ai.Part {
			return ai.NewToolRequestPart(&ai.ToolRequest{Ref: name, Name: name, Input: input})
		}
		calls := ai.NewMessage(ai.RoleModel, nil, call("add", map[string]any{"a": 1, "b": 2}), call("save", map[string]any{}), call("fail", map[string]any{}))
		return &ai.ModelResponse{Request: request, Message: calls}, nil
	}
	var lines []string // in any order: genkit makes the calls concurrently
	for _, part := range last.Content {
		output, err := json.Marshal(part.ToolResponse.Output)
		lines = append(lines, fmt.Sprintln(part.ToolResponse.Name, string(output), err))
	}
	slices.Sort(lines)
	return &ai.ModelResponse{Request: request, Message: ai.NewModelTextMessage(strings.Join(lines, ""))}, nil
}

func TestGenerate(t *testing.T) {
	tools, err := Tools(t.Context(), calculator.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	g := genkit.Init(t.Context())
	model := genkit.DefineModel(g, "test/scripted", &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true}}, answer)
	response, err := genkit.Generate(t.Context(), g, ai.WithModel(model), ai.WithPrompt("1 + 2?"), ai.WithTools(tools...))
	if err != nil {
		t.Fatal(err)
	}
	want := "add 3 <nil>\nfail {\"error\":\"out of paper\"} <nil>\nsave \"saved\" <nil>\n"
	if text := response.Text(); text != want {
		t.Errorf("the answer is %q, want %q", text, want)
	}
}
