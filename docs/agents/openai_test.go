package agents_test

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/bridge/llm"
)

// openAI runs a prompt with the Chat Completions API of OpenAI, and returns the answer of the model.
func openAI(ctx context.Context, api endpoint, tools llm.Tools, prompt string) (string, error) {
	list, err := tools.Tools(ctx)
	if err != nil {
		return "", err
	}
	messages := []any{map[string]string{"role": "user", "content": prompt}}
	for range maxTurns {
		request := map[string]any{"model": api.model, "messages": messages, "tools": llm.OpenAITools(list)}
		var answer struct {
			Choices [1]struct{ Message json.RawMessage }
		}
		if err := post(ctx, api.url+"/v1/chat/completions", "Authorization", "Bearer "+api.key, request, &answer); err != nil {
			return "", err
		}
		var message struct {
			Content string
			Calls   []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		if err := json.Unmarshal(answer.Choices[0].Message, &message); err != nil {
			return "", err
		}
		if len(message.Calls) == 0 {
			return message.Content, nil
		}
		var calls []llm.Call
		for _, call := range message.Calls {
			calls = append(calls, llm.Call{ID: call.ID, Name: call.Function.Name, Arguments: json.RawMessage(call.Function.Arguments)})
		}
		messages = append(messages, answer.Choices[0].Message)
		for _, reply := range llm.OpenAIReplies(llm.Run(ctx, tools, calls), nil) {
			messages = append(messages, reply)
		}
	}
	return "", errTurns
}
