package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

var errNoAnswer = errors.New("the test has no answer to this question")

// setAnswers sets the handlers of questions.
func (c *connection) setAnswers(o *client.Options) {
	c.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler) // the test fails instead
	}
	if c.options.NoQuestions {
		if len(c.options.Answers) > 0 || o.Elicit != nil || o.Sample != nil {
			c.Fatalf("servertest: Options.NoQuestions excludes Answers, Client.Elicit and Client.Sample")
		}
		return
	}
	elicit, sample := o.Elicit, o.Sample
	if elicit == nil {
		o.ElicitURLs = true
	}
	if sample == nil {
		o.SampleTools = true
	}
	o.Elicit = func(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		if answer, ok := c.options.Answers[params.Message]; ok {
			return c.elicited(params, answer)
		}
		if elicit != nil {
			return elicit(ctx, params)
		}
		c.Errorf("servertest: Options.Answers has no answer to %q, with the form %s%s", params.Message, params.RequestedSchema, params.URL)
		return nil, errNoAnswer
	}
	o.Sample = func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		message := lastText(params)
		if answer, ok := c.options.Answers[message]; ok {
			return c.sampled(message, answer)
		}
		if sample != nil {
			return sample(ctx, params)
		}
		c.Errorf("servertest: Options.Answers has no answer of the model to %q", message)
		return nil, errNoAnswer
	}
}

// elicited returns the answer to an elicitation.
func (c *connection) elicited(params *mcp.ElicitParams, answer any) (*mcp.ElicitResult, error) {
	switch answer := answer.(type) {
	case func() any:
		return c.elicited(params, answer())
	case mcp.ElicitAction:
		return &mcp.ElicitResult{Action: answer}, nil
	case *mcp.ElicitResult:
		return answer, nil
	}
	content, err := json.Marshal(answer)
	if err == nil && !isForm(answer) {
		var field string
		if field, err = onlyField(params.RequestedSchema); err == nil {
			content, err = json.Marshal(map[string]json.RawMessage{field: content})
		}
	}
	if err != nil {
		err = fmt.Errorf("servertest: the answer to %q: %w", params.Message, err)
		c.Error(err)
		return nil, err
	}
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, nil
}

// isForm reports whether a value is a whole form.
func isForm(answer any) bool {
	t := reflect.TypeOf(answer)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t != nil && (t.Kind() == reflect.Struct || t.Kind() == reflect.Map || t == reflect.TypeFor[json.RawMessage]())
}

// onlyField returns the name of the field of a form that has one.
func onlyField(form json.RawMessage) (string, error) {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(form, &s); err != nil {
		return "", fmt.Errorf("the question has no form: %w", err)
	}
	if len(s.Properties) != 1 {
		return "", fmt.Errorf("the form has %d fields, so the answer must be a struct or a map", len(s.Properties))
	}
	for name := range s.Properties {
		return name, nil
	}
	return "", nil
}

// sampled returns the answer of the model.
func (c *connection) sampled(message string, answer any) (*mcp.CreateMessageResult, error) {
	switch answer := answer.(type) {
	case func() any:
		return c.sampled(message, answer())
	case string:
		return &mcp.CreateMessageResult{
			Role: mcp.RoleAssistant, Model: "servertest", StopReason: mcp.StopEndTurn,
			Content: mcp.SamplingContent{&mcp.TextContent{Text: answer}},
		}, nil
	case *mcp.CreateMessageResult:
		return answer, nil
	}
	err := fmt.Errorf("servertest: the answer of the model to %q is a %T, expected a string or an *mcp.CreateMessageResult", message, answer)
	c.Error(err)
	return nil, err
}

// lastText returns the last text of the last message to the model.
func lastText(params *mcp.CreateMessageParams) (text string) {
	if len(params.Messages) == 0 {
		return ""
	}
	for _, content := range params.Messages[len(params.Messages)-1].Content {
		if t, ok := content.(*mcp.TextContent); ok {
			text = t.Text
		}
	}
	return text
}
