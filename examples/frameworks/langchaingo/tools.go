// Package langchaingo offers the tools of MCP servers to models of github.com/tmc/langchaingo.
package langchaingo

import (
	"context"
	"encoding/json"

	"github.com/tmc/langchaingo/llms"

	"github.com/dovetail-go/dovetail/bridge/llm"
)

// Tools returns the tools of a session or bridge for llms.WithTools.
func Tools(ctx context.Context, from llm.Tools) ([]llms.Tool, error) {
	list, err := from.Tools(ctx)
	if err != nil {
		return nil, err
	}
	tools := make([]llms.Tool, len(list))
	for i := range list {
		tools[i] = llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name: list[i].Name, Description: list[i].Description, Parameters: llm.Parameters(&list[i]),
		}}
	}
	return tools, nil
}

// Answer makes the calls of a choice of the model, and returns the messages to append to the conversation: that of the
// model, and one with the result of each call. There are none if the model has made no call.
func Answer(ctx context.Context, from llm.Tools, choice *llms.ContentChoice) ([]llms.MessageContent, error) {
	calls := make([]llm.Call, len(choice.ToolCalls))
	said := llms.MessageContent{Role: llms.ChatMessageTypeAI}
	for i, call := range choice.ToolCalls {
		calls[i] = llm.Call{ID: call.ID, Name: call.FunctionCall.Name, Arguments: json.RawMessage(call.FunctionCall.Arguments)}
		said.Parts = append(said.Parts, call)
	}
	if len(calls) == 0 {
		return nil, nil
	}
	messages := []llms.MessageContent{said}
	for _, reply := range llm.Run(ctx, from, calls) {
		text, err := llm.Text(reply.Result)
		if err != nil {
			return nil, err
		}
		response := llms.ToolCallResponse{ToolCallID: reply.Call.ID, Name: reply.Call.Name, Content: text}
		messages = append(messages, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{response}})
	}
	return messages, nil
}
