package agents_test

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/bridge/llm"
)

// gemini runs a prompt with the Gemini API, and returns the answer of the model.
func gemini(ctx context.Context, api endpoint, tools llm.Tools, prompt string) (string, error) {
	list, err := tools.Tools(ctx)
	if err != nil {
		return "", err
	}
	declarations := []any{map[string]any{"functionDeclarations": llm.GeminiTools(list)}}
	contents := []any{map[string]any{"role": "user", "parts": []any{map[string]string{"text": prompt}}}}
	for range maxTurns {
		request := map[string]any{"contents": contents, "tools": declarations}
		var answer struct {
			Candidates [1]struct{ Content json.RawMessage }
		}
		if err := post(ctx, api.url+"/v1beta/models/"+api.model+":generateContent", "X-Goog-Api-Key", api.key, request, &answer); err != nil {
			return "", err
		}
		var content struct {
			Parts []struct {
				Text         string
				FunctionCall *struct {
					ID, Name string
					Args     json.RawMessage
				}
			}
		}
		if err := json.Unmarshal(answer.Candidates[0].Content, &content); err != nil {
			return "", err
		}
		var text string
		var calls []llm.Call
		for _, part := range content.Parts {
			text += part.Text
			if call := part.FunctionCall; call != nil {
				calls = append(calls, llm.Call{ID: call.ID, Name: call.Name, Arguments: call.Args})
			}
		}
		if len(calls) == 0 {
			return text, nil
		}
		contents = append(contents, answer.Candidates[0].Content,
			map[string]any{"role": "user", "parts": llm.GeminiReplies(llm.Run(ctx, tools, calls), nil)})
	}
	return "", errTurns
}
