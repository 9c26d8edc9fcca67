package adk

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/genai"

	"github.com/dovetail-go/dovetail/examples/frameworks/internal/calculator"
)

// A scripted model calls all tools, and then answers with what it was told.
type scripted struct{}

func (scripted) Name() string { return "scripted" }

func (scripted) GenerateContent(_ context.Context, request *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	var parts []*genai.Part
	var text string
	for _, part := range request.Contents[len(request.Contents)-1].Parts {
		if answer := part.FunctionResponse; answer != nil {
			response, err := json.Marshal(answer.Response)
			text += fmt.Sprintln(answer.Name, string(response), err)
		}
	}
	if text != "" {
		parts = []*genai.Part{genai.NewPartFromText(text)}
	} else {
		parts = []*genai.Part{
			genai.NewPartFromFunctionCall("add", map[string]any{"a": 1, "b": 2}),
			genai.NewPartFromFunctionCall("save", nil),
			genai.NewPartFromFunctionCall("fail", map[string]any{}),
		}
	}
	return func(yield func(*model.LLMResponse, error) bool) {
		yield(&model.LLMResponse{Content: genai.NewContentFromParts(parts, genai.RoleModel)}, nil)
	}
}

func TestAgent(t *testing.T) {
	tools, err := Tools(t.Context(), calculator.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	adder, err := llmagent.New(llmagent.Config{Name: "adder", Model: scripted{}, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	r, err := runner.NewInMemory("calculator", adder)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for event, err := range r.Run(t.Context(), "user", "session", genai.NewContentFromText("1 + 2?", genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Content != nil {
			for _, part := range event.Content.Parts {
				text += part.Text
			}
		}
	}
	want := "add {\"output\":3} <nil>\nsave {\"output\":\"saved\"} <nil>\nfail {\"error\":\"out of paper\"} <nil>\n"
	if text != want {
		t.Errorf("the answer is %q, want %q", text, want)
	}
}
