package langchaingo

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/llms"

	"github.com/dovetail-go/dovetail/examples/frameworks/internal/calculator"
)

// A scripted model calls all tools, and then answers with what it was told.
type scripted struct{}

func (scripted) GenerateContent(_ context.Context, messages []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	if len(messages) == 1 {
		call := func(name, arguments string) llms.ToolCall {
			return llms.ToolCall{ID: name, Type: "function", FunctionCall: &llms.FunctionCall{Name: name, Arguments: arguments}}
		}
		calls := []llms.ToolCall{call("add", `{"a":1,"b":2}`), call("save", ""), call("fail", "{}")}
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{ToolCalls: calls}}}, nil
	}
	var text strings.Builder
	for _, message := range messages[2:] {
		for _, part := range message.Parts {
			response := part.(llms.ToolCallResponse)
			text.WriteString(response.ToolCallID + ": " + response.Content + "\n")
		}
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: text.String()}}}, nil
}

func (scripted) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.ErrUnsupported
}

func TestConversation(t *testing.T) {
	from := calculator.Connect(t)
	tools, err := Tools(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	if f := tools[0].Function; len(tools) != 3 || f.Name != "add" || f.Description != "Add two integers." {
		t.Errorf("the tools are %+v", tools)
	}
	messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "1 + 2?")}
	for range 3 {
		response, err := scripted{}.GenerateContent(t.Context(), messages, llms.WithTools(tools))
		if err != nil {
			t.Fatal(err)
		}
		choice := response.Choices[0]
		more, err := Answer(t.Context(), from, choice)
		if err != nil {
			t.Fatal(err)
		}
		if len(more) == 0 {
			if want := "add: 3\nsave: saved\nfail: {\"error\":\"out of paper\"}\n"; choice.Content != want {
				t.Errorf("the answer is %q, want %q", choice.Content, want)
			}
			return
		}
		messages = append(messages, more...)
	}
	t.Error("the model has not finished")
}
