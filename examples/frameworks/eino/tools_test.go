package eino

import (
	"context"
	"errors"
	"testing"

	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/dovetail-go/dovetail/examples/frameworks/internal/calculator"
)

// A scripted model calls all tools, and then answers with what it was told.
type scripted struct{ tools []*schema.ToolInfo }

func (s *scripted) WithTools(tools []*schema.ToolInfo) (model.ToolCallingChatModel, error) {
	return &scripted{tools}, nil
}

func (s *scripted) Generate(_ context.Context, messages []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	if len(messages) == 1 {
		call := func(name, arguments string) schema.ToolCall {
			return schema.ToolCall{ID: name, Function: schema.FunctionCall{Name: name, Arguments: arguments}}
		}
		return schema.AssistantMessage("", []schema.ToolCall{call("add", `{"a":1,"b":2}`), call("save", ""), call("fail", "{}")}), nil
	}
	var text string
	for _, message := range messages[2:] {
		text += message.ToolCallID + ": " + message.Content + "\n"
	}
	return schema.AssistantMessage(text, nil), nil
}

func (s *scripted) Stream(context.Context, []*schema.Message, ...model.Option) (*schema.StreamReader[*schema.Message], error) {
	return nil, errors.ErrUnsupported
}

func TestAgent(t *testing.T) {
	tools, err := Tools(t.Context(), calculator.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := react.NewAgent(t.Context(), &react.AgentConfig{ToolCallingModel: &scripted{}, ToolsConfig: compose.ToolsNodeConfig{Tools: tools}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := agent.Generate(t.Context(), []*schema.Message{schema.UserMessage("1 + 2?")})
	if err != nil {
		t.Fatal(err)
	}
	if want := "add: 3\nsave: saved\nfail: {\"error\":\"out of paper\"}\n"; answer.Content != want {
		t.Errorf("the answer is %q, want %q", answer.Content, want)
	}
}

func TestInfo(t *testing.T) {
	tools, err := Tools(t.Context(), calculator.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	info, err := tools[0].Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	schema, err := info.ToJSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	b, ok := schema.Properties.Get("b")
	if info.Name != "add" || info.Desc != "Add two integers." || !ok || b.Description != "second summand" || b.Type != "integer" {
		t.Errorf("the tool is %+v with %+v", info, b)
	}
}
