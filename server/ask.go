package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server/internal/unasked"
)

// A DeclinedError is the error of a question that the user did not answer.
type DeclinedError struct {
	// Key identifies the question.
	Key string
	// Action is what the user did: decline or cancel.
	Action mcp.ElicitAction
}

// Error contains the action and the key.
func (e *DeclinedError) Error() string {
	return fmt.Sprintf("the user chose to %s the question %q", e.Action, e.Key)
}

// Elicit asks the user of the client to fill in a T. T is a string, number, boolean, a list of
// strings with an enum, or a struct of these. The form of a T that is not a struct has one member,
// "value". key identifies the question among the questions of the call, and must be the same in each run.
//
// Until there is an answer, Elicit returns an error, which the function must return. The client is
// asked, and then the function runs again from its first line: code before the question runs again,
// with its side effects. [Once] prevents that. If the function returns something else, the question
// is never asked, and [Options].Logger gets a warning. A call may ask in 10 rounds, in all versions
// of the protocol; then it fails. In a tool with [Tool].Blocking, Elicit waits for the answer instead, or
// until the context of the function ends, and returns the cause.
//
// If the user declines or cancels, the error is a *[DeclinedError]. An answer that does not fit T is
// a *[jsonrpc.Error] with [jsonrpc.InvalidParams]. Members that the form does not have are ignored,
// and null for an optional member means that it is absent. If the client cannot be asked, the error
// is a *[jsonrpc.Error] with [mcp.CodeMissingClientCapability]. Elicit does not block, except in a tool with
// [Tool].Blocking, and may be called concurrently with other keys.
//
// A form must not ask for secrets; use [ElicitURL] for that. MCP 2025-11-25, client/elicitation.
func Elicit[T any](r *Request, key, message string) (T, error) {
	var answer T
	if err := r.elicitInto(key, message, &answer); err != nil {
		var none T
		return none, err
	}
	return answer, nil
}

// elicitInto is [Elicit] for a pointer to a value of any type.
func (r *Request) elicitInto(key, message string, into any) error {
	if r == nil {
		return errNoCaller
	}
	form, err := formOf(r.server, reflect.TypeOf(into).Elem())
	if err != nil {
		return err
	}
	content, err := r.elicit(key, &mcp.ElicitParams{Mode: mcp.ElicitForm, Message: message, RequestedSchema: form.requested})
	if err != nil {
		return err
	}
	if err := form.decode(content, into); err != nil {
		return invalidParams("the answer to %q: %v", key, err)
	}
	return nil
}

// ElicitForm is [Elicit] for a form without a Go type, for example with titled options. It returns
// the answer as JSON that fits the form; see [mcp.ElicitSchema.Check] for other members and for null.
func ElicitForm(r *Request, key, message string, form *mcp.ElicitSchema) (json.RawMessage, error) {
	requested, err := form.MarshalJSON()
	if err != nil {
		return nil, err
	}
	content, err := r.elicit(key, &mcp.ElicitParams{Mode: mcp.ElicitForm, Message: message, RequestedSchema: requested})
	if err != nil {
		return nil, err
	}
	if err := form.Check(content); err != nil {
		return nil, invalidParams("the answer to %q: %v", key, err)
	}
	return content, nil
}

// ElicitURL asks the user of the client to visit a URL. It returns nil when the user has agreed to,
// and otherwise an error as [Elicit] does. The client does not report what happens at the URL. MCP
// 2025-11-25, client/elicitation.
func ElicitURL(r *Request, key, message, url string) error {
	_, err := r.elicit(key, &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: message, URL: url})
	return err
}

func (r *Request) elicit(key string, params *mcp.ElicitParams) (json.RawMessage, error) {
	var result mcp.ElicitResult
	if err := r.ask(key, mcp.MethodElicit, params, &result); err != nil {
		return nil, err
	}
	switch result.Action {
	case mcp.ElicitAccept:
		return result.Content, nil
	case mcp.ElicitDecline, mcp.ElicitCancel:
		return nil, &DeclinedError{Key: key, Action: result.Action}
	}
	return nil, invalidParams("the answer to %q: action must be accept, decline or cancel", key)
}

// defaultMaxTokens is the MaxTokens of a question to a model that sets none. The protocol demands a number.
const defaultMaxTokens = 1024

// Sample asks the client's model; [mcp.SamplingPrompt] is the shortest form of a question. MaxTokens is 1024 by
// default. Errors are as in [Elicit]. MCP 2025-11-25, client/sampling; deprecated in 2026-07-28.
func Sample(r *Request, key string, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	if params.MaxTokens == 0 {
		bounded := *params
		bounded.MaxTokens = defaultMaxTokens
		params = &bounded
	}
	result := new(mcp.CreateMessageResult)
	if err := r.ask(key, mcp.MethodCreateMessage, params, result); err != nil {
		return nil, err
	}
	return result, nil
}

// Roots asks for the directories that the client has opened to the server. Errors are as in
// [Elicit]. MCP 2025-11-25, client/roots; deprecated in 2026-07-28.
func Roots(r *Request, key string) ([]mcp.Root, error) {
	var result mcp.ListRootsResult
	// It has no parameters, but there are clients that want an object.
	if err := r.ask(key, mcp.MethodRootsList, mcp.Raw("{}"), &result); err != nil {
		return nil, err
	}
	return result.Roots, nil
}

// ask returns the client's answer to a question, or the error that asks it.
func (r *Request) ask(key, method string, params mcp.Result, into json.Unmarshaler) error {
	question := mcp.InputRequest{Method: method}
	if params != nil {
		encoded, err := params.AppendJSON(nil)
		if err != nil {
			return err
		}
		question.Params = encoded
	}
	if r == nil {
		return errNoCaller
	}
	answer, err := r.call.Input(key, question)
	if err != nil {
		if _, asks := mcp.AsInputRequired(err); asks {
			r.addOpen(key)
		}
		return err
	}
	if err := into.UnmarshalJSON(answer); err != nil {
		return invalidParams("the answer to %q: %v", key, err)
	}
	return nil
}

var errNoCaller = errors.New("a nil *server.Request has no caller to ask; package servertest makes a request that has one")

// An openQuestion is an element of the list of questions without an answer in this run.
type openQuestion struct {
	key  string
	next *openQuestion
}

// addOpen adds a question to the list. It may be called concurrently.
func (r *Request) addOpen(key string) {
	for {
		last := r.opened.Load()
		if r.opened.CompareAndSwap(last, &openQuestion{key, last}) {
			return
		}
	}
}

// warnUnasked logs the questions of a run that are never asked, because the function has returned err
// instead of their errors.
func (r *Request) warnUnasked(ctx context.Context, err error) {
	opened := r.opened.Load()
	if opened == nil || ctx.Err() != nil {
		return
	}
	if _, asks := mcp.AsInputRequired(err); asks {
		return // questions that err does not contain are asked in a later round
	}
	var keys []string
	for ; opened != nil; opened = opened.next {
		keys = append(keys, opened.key)
	}
	slices.Reverse(keys)
	kind, name := describeTarget(r.call)
	const text = "a question was not asked: the function must return the error of Elicit, Sample or Roots"
	r.logger().WarnContext(ctx, text, "questions", keys, "kind", kind, "name", name, "returned", err)
	unasked.Report(ctx, fmt.Sprintf("%v %q: %s: %q", kind, name, text, keys))
}

// Once calls fn in the first run of a call and returns the stored result in later runs, so that a
// side effect before a question happens once. The function of a tool with [Tool].Blocking needs it only if its task may
// begin again. key identifies the result among the results of the call.
//
// The result is encoded as JSON, and the client carries it, encrypted, between the runs; keep it
// small. If fn returns an error, Once returns it and stores nothing. Other errors say that the
// result cannot be encoded or decoded. If a client sends the same answers twice, the code after the
// question runs twice. Once must not be called concurrently with the same key.
func Once[T any](r *Request, key string, fn func() (T, error)) (T, error) {
	if r == nil {
		return fn()
	}
	key = "once/" + key
	var value T
	if kept, ok := r.call.Load(key); ok {
		err := jsonvalue.Unmarshal(kept, &value)
		return value, err
	}
	value, err := fn()
	if err != nil {
		return value, err
	}
	kept, err := jsonvalue.Marshal(value)
	if err != nil {
		return value, fmt.Errorf("encoding the result of Once %q: %w", key, err)
	}
	r.call.Store(key, kept)
	return value, nil
}

// A form is the schema of a question, and the decoder of its answer. A form is a flat object of primitive
// values and choices. MCP 2025-11-25, client/elicitation.
type form struct {
	decoder   *schema.TypeDecoder
	requested json.RawMessage
	single    reflect.Type // a struct with the value as its only field; nil if the value is a struct itself
}

// decode decodes an answer into the value that into points to. A form is flat: validating it waits only for answers of many
// kilobytes, and not for long.
func (f *form) decode(content json.RawMessage, into any) error {
	if f.single == nil {
		return f.decoder.Decode(context.Background(), content, into)
	}
	answer := reflect.New(f.single)
	if err := f.decoder.Decode(context.Background(), content, answer.Interface()); err != nil {
		return err
	}
	reflect.ValueOf(into).Elem().Set(answer.Elem().Field(0))
	return nil
}

// formOf returns the form of a type. The server, if there is one, caches it.
func formOf(s *Server, of reflect.Type) (*form, error) {
	if s == nil {
		return newForm(nil, of)
	}
	if known, ok := s.forms.Load(of); ok {
		return known.(*form), nil
	}
	made, err := newForm(s, of)
	if err != nil {
		return nil, fmt.Errorf("a form of %v: %w", of, err)
	}
	s.forms.Store(of, made)
	return made, nil
}

// newForm returns the form of a type. Its decoder ignores members that are not in the form, since the schema that the
// client gets allows them.
func newForm(s *Server, of reflect.Type) (*form, error) {
	f := &form{}
	fields, err := schema.ForType(of)
	if err != nil {
		return nil, err
	}
	if !isObject(fields) {
		f.single = reflect.StructOf([]reflect.StructField{{Name: "Value", Type: of, Tag: `json:"value"`}})
		of = f.single
		if fields, err = schema.ForType(of); err != nil {
			return nil, err
		}
	}
	if f.requested, err = requestedSchema(fields); err != nil {
		return nil, err
	}
	f.decoder, err = schema.NewTypeDecoder(of, &schema.DecoderOptions{Schema: f.requested, Memory: memoryOf(s)})
	return f, err
}

// isObject reports whether a schema allows objects only.
func isObject(of json.RawMessage) bool {
	root, err := jsonscan.ReadObject(of)
	return err == nil && string(root.Get("type")) == `"object"`
}

// requestedSchema returns a schema for a client. It rejects schemas that a client cannot show as a
// form.
func requestedSchema(of json.RawMessage) (json.RawMessage, error) {
	requested, err := jsonscan.Splice(nil, of, jsonscan.Edit{Name: "additionalProperties"})
	if err != nil {
		return nil, err
	}
	parsed, err := mcp.ParseElicitSchema(requested)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, formTypes)
	}
	for _, field := range parsed.Fields {
		switch s := field.Schema.(type) {
		case *mcp.UnknownSchema:
			return nil, fmt.Errorf("field %q: %s", field.Name, formTypes)
		case *mcp.EnumSchema:
			if len(s.Options) == 0 {
				return nil, fmt.Errorf("field %q: a list needs an enum; %s", field.Name, formTypes)
			}
		}
	}
	return requested, nil
}

const formTypes = "a form holds strings, numbers, booleans and lists of strings to choose from"

// Limits of sampling.
const (
	// maxSampleAttempts is how often SampleAs asks.
	maxSampleAttempts = 3
	// maxSampleTurns is how often SampleLoop asks.
	maxSampleTurns = 10
)

// SampleAs asks the client's model for a T. The prompt contains the JSON Schema of T. The answer is
// validated and decoded; a code fence around it is removed. If the answer does not fit, SampleAs
// sends the reason and asks again, at most twice. Then the error contains the last reason. Other
// errors are as in [Elicit].
func SampleAs[T any](r *Request, key string, params *mcp.CreateMessageParams) (T, error) {
	var value T
	if err := r.sampleInto(key, params, &value); err != nil {
		var none T
		return none, err
	}
	return value, nil
}

// sampleInto is [SampleAs] for a pointer to a value of any type.
func (r *Request) sampleInto(key string, params *mcp.CreateMessageParams, into any) error {
	if r == nil {
		return errNoCaller
	}
	value := reflect.ValueOf(into).Elem()
	decoder, err := schema.NewTypeDecoder(value.Type(), &schema.DecoderOptions{Memory: memoryOf(r.server)})
	if err != nil {
		return fmt.Errorf("a sample of %v: %w", value.Type(), err)
	}
	attempt := *params
	attempt.SystemPrompt = strings.TrimSpace(params.SystemPrompt +
		"\n\nAnswer with one JSON value and nothing else. It must be valid by this JSON Schema:\n" + string(decoder.Schema()))
	attempt.Messages = slices.Clone(params.Messages)
	for i := range maxSampleAttempts {
		var answer *mcp.CreateMessageResult
		if answer, err = Sample(r, fmt.Sprintf("%s/%d", key, i+1), &attempt); err != nil {
			return err
		}
		text := answer.Text()
		value.SetZero()
		if err = decoder.Decode(context.Background(), json.RawMessage(trimFence(text)), into); err == nil {
			return nil
		}
		attempt.Messages = append(attempt.Messages,
			mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.SamplingContent{mcp.Text(text)}},
			mcp.SamplingMessage{Role: mcp.RoleUser, Content: mcp.SamplingContent{mcp.Text("Your answer does not fit: " + err.Error() + ". Answer again, with the JSON value only.")}})
	}
	return fmt.Errorf("the model's last answer does not fit %v: %w", value.Type(), err)
}

// trimFence removes one code fence around a text.
func trimFence(text string) string {
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

// SampleLoop asks the client's model, calls the tools that the model chooses, and sends their
// results, until the model chooses no tool. It asks at most ten times. params.Tools are the tools
// that the model may choose. call calls one tool; the model gets the text of its error. SampleLoop
// may call it again for the same use in later runs of the function; [Once] prevents that. The
// client must have declared sampling.tools (since 2025-11-25). Errors are as in [Elicit].
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
	return nil, errors.New("the model still calls tools after the last turn")
}

// runToolUses calls the tools that a model has chosen.
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
			return nil, err // for example a question
		}
		if err != nil {
			result.Content, result.IsError = mcp.ContentList{mcp.Text(err.Error())}, true
		}
		results = append(results, result)
	}
	return results, nil
}
