package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

const (
	// maxSampleAttempts is how often SampleAs asks in all.
	maxSampleAttempts = 3
	// maxSampleTurns is how often SampleLoop lets the model call tools.
	maxSampleTurns = 10
)

// SampleAs asks the client's model for a value of T: the schema of T goes with the
// prompt, and the answer, with or without a code fence around it, is validated and
// decoded. A model whose answer does not fit is told why and asked again, twice at
// most; then the error says what was wrong. Like [Sample] it asks in rounds.
func SampleAs[T any](r *Request, key string, params *mcp.CreateMessageParams) (T, error) {
	var value T
	decoder, err := schema.NewDecoder[T](nil)
	if err != nil {
		return value, fmt.Errorf("a sample of %v: %w", reflect.TypeFor[T](), err)
	}
	attempt := *params
	attempt.SystemPrompt = strings.TrimSpace(params.SystemPrompt +
		"\n\nAnswer with one JSON value and nothing else. It must be valid by this JSON Schema:\n" + string(decoder.Schema()))
	attempt.Messages = slices.Clone(params.Messages)
	for i := range maxSampleAttempts {
		var answer *mcp.CreateMessageResult
		if answer, err = Sample(r, fmt.Sprintf("%s/%d", key, i+1), &attempt); err != nil {
			return value, err
		}
		text := sampledText(answer)
		if value, err = decoder.Decode(json.RawMessage(unfenced(text))); err == nil {
			return value, nil
		}
		attempt.Messages = append(attempt.Messages,
			mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.SamplingContent{mcp.Text(text)}},
			mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text("This does not fit: " + err.Error() + ". Answer again, with the JSON value only.")}})
	}
	return value, fmt.Errorf("the model's answer does not fit %v, also when asked again: %w", reflect.TypeFor[T](), err)
}

// sampledText is the text of what a model has said.
func sampledText(result *mcp.CreateMessageResult) string {
	var b strings.Builder
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

// unfenced is a text without the one code fence around it that models like.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	rest, fenced := strings.CutPrefix(text, "```")
	if !fenced {
		return text
	}
	_, rest, _ = strings.Cut(rest, "\n")
	rest, closed := strings.CutSuffix(strings.TrimSpace(rest), "```")
	if !closed {
		return text
	}
	return strings.TrimSpace(rest)
}

// SampleLoop asks the client's model, runs the tools that it wishes to call, and asks
// again with what they said, until it is done: at most ten times. params.Tools are what
// the model may call; call runs one, and an error of it is told to the model. It may
// run again for a use that it has run before, as all of a function may that asks;
// [Once] keeps what must happen once. The client must have declared sampling.tools (since
// 2025-11-25).
func SampleLoop(ctx context.Context, r *Request, key string, params *mcp.CreateMessageParams, call func(ctx context.Context, use *mcp.ToolUseContent) (mcp.ContentList, error)) (*mcp.CreateMessageResult, error) {
	turn := *params
	turn.Messages = slices.Clone(params.Messages)
	for i := range maxSampleTurns {
		answer, err := Sample(r, fmt.Sprintf("%s/%d", key, i+1), &turn)
		if err != nil {
			return nil, err
		}
		results, err := runToolUses(ctx, answer.Content, call)
		if err != nil || len(results) == 0 {
			return answer, err
		}
		turn.Messages = append(turn.Messages,
			mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: answer.Content},
			mcp.SamplingMessage{Role: mcp.RoleUser, Content: results})
		if err := mcp.ValidateSampling(turn.Messages); err != nil {
			return nil, fmt.Errorf("the model's answer: %w", err)
		}
	}
	return nil, errors.New("the model goes on calling tools")
}

// runToolUses runs what a model wishes to call.
func runToolUses(ctx context.Context, said mcp.SamplingContent, call func(context.Context, *mcp.ToolUseContent) (mcp.ContentList, error)) (mcp.SamplingContent, error) {
	var results mcp.SamplingContent
	for _, content := range said {
		use, ok := content.(*mcp.ToolUseContent)
		if !ok {
			continue
		}
		result := &mcp.ToolResultContent{ToolUseID: use.ID}
		var err error
		if result.Content, err = call(ctx, use); isProtocolError(err) {
			return nil, err // a question of the tool, for example
		}
		if err != nil {
			result.Content, result.IsError = mcp.ContentList{mcp.Text(err.Error())}, true
		}
		results = append(results, result)
	}
	return results, nil
}
