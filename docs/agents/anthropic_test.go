package agents_test

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/bridge/llm"
)

// anthropic runs a prompt with the Messages API of Anthropic, and returns the answer of the model.
func anthropic(ctx context.Context, api endpoint, tools llm.Tools, prompt string) (string, error) {
	list, err := tools.Tools(ctx)
	if err != nil {
		return "", err
	}
	messages := []any{map[string]any{"role": "user", "content": prompt}}
	for range maxTurns {
		request := map[string]any{"model": api.model, "max_tokens": 4096, "messages": messages, "tools": llm.AnthropicTools(list)}
		var answer struct{ Content json.RawMessage }
		if err := post(ctx, api.url+"/v1/messages", "X-Api-Key", api.key, request, &answer); err != nil {
			return "", err
		}
		var blocks []struct {
			Type, Text, ID, Name string
			Input                json.RawMessage
		}
		if err := json.Unmarshal(answer.Content, &blocks); err != nil {
			return "", err
		}
		var text string
		var calls []llm.Call
		for _, block := range blocks {
			switch block.Type {
			case "text":
				text += block.Text
			case "tool_use":
				calls = append(calls, llm.Call{ID: block.ID, Name: block.Name, Arguments: block.Input})
			}
		}
		if len(calls) == 0 {
			return text, nil
		}
		messages = append(messages,
			map[string]any{"role": "assistant", "content": answer.Content},
			map[string]any{"role": "user", "content": llm.AnthropicReplies(llm.Run(ctx, tools, calls), nil)})
	}
	return "", errTurns
}
