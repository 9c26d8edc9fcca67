package server

import (
	"encoding/json"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/dovetail-go/dovetail/mcp"
)

// A DeclinedError says that the person did not answer a question.
type DeclinedError struct {
	// Key is the question's.
	Key string
	// Action is what the person did instead: decline or cancel.
	Action mcp.ElicitAction
}

// Error says what the person did.
func (e *DeclinedError) Error() string {
	return fmt.Sprintf("the user chose to %s the question %q", e.Action, e.Key)
}

// Elicit asks the person behind the client to fill in T: a struct of strings, numbers,
// booleans and lists of strings to choose from (with an enum), or one of these. Until
// the answer is there it returns an error that the function must return; then the
// function runs again. A person who does not answer is a *[DeclinedError] error. The key
// names the question among those of this call. A form must not ask for secrets:
// [ElicitURL] can. MCP 2025-11-25, client/elicitation.
func Elicit[T any](r *Request, key, message string) (T, error) {
	var answer T
	form, err := formOf[T](r.server)
	if err != nil {
		return answer, err
	}
	content, err := r.elicit(key, &mcp.ElicitParams{Mode: mcp.ElicitForm, Message: message, RequestedSchema: form.requested})
	if err != nil {
		return answer, err
	}
	answer, err = form.decode(content)
	if err != nil {
		return answer, invalidParams("the answer to %q: %v", key, err)
	}
	return answer, nil
}

// ElicitForm is [Elicit] for a form that no Go type describes, with titled options
// for example. It returns what the person has filled in, which fits the form.
func ElicitForm(r *Request, key, message string, form *mcp.ElicitSchema) (json.RawMessage, error) {
	requested, err := form.AppendJSON(nil)
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

// ElicitURL asks the person behind the client to visit a URL, and returns once
// the client says that the person has agreed to. What happens there the client
// does not tell. MCP 2025-11-25, client/elicitation.
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

// Sample asks the client's model. MCP 2025-11-25, client/sampling; deprecated in
// 2026-07-28.
func Sample(r *Request, key string, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	result := new(mcp.CreateMessageResult)
	if err := r.ask(key, mcp.MethodCreateMessage, params, result); err != nil {
		return nil, err
	}
	return result, nil
}

// Roots asks for the directories that the client has opened to the server. MCP
// 2025-11-25, client/roots; deprecated in 2026-07-28.
func Roots(r *Request, key string) ([]mcp.Root, error) {
	var result mcp.ListRootsResult
	// It has no parameters, but there are clients that want an object.
	if err := r.ask(key, mcp.MethodRootsList, mcp.Raw("{}"), &result); err != nil {
		return nil, err
	}
	return result.Roots, nil
}

// ask returns the client's answer to a question, once it is there.
func (r *Request) ask(key, method string, params mcp.Result, into json.Unmarshaler) error {
	question := mcp.InputRequest{Method: method}
	if params != nil {
		encoded, err := params.AppendJSON(nil)
		if err != nil {
			return err
		}
		question.Params = encoded
	}
	answer, err := r.call.Input(key, question)
	if err != nil {
		return err
	}
	if err := into.UnmarshalJSON(answer); err != nil {
		return invalidParams("the answer to %q: %v", key, err)
	}
	return nil
}

// Once runs fn in the first run of a call and keeps its result for the later
// ones, so that what stands before a question happens once. The result travels
// as JSON, sealed, with the client: keep it small. An error is not kept. A client
// that sends the same round twice makes what follows it happen twice.
func Once[T any](r *Request, key string, fn func() (T, error)) (T, error) {
	key = "once/" + key
	var value T
	if kept, ok := r.call.Load(key); ok {
		err := jsonv2.Unmarshal(kept, &value)
		return value, err
	}
	value, err := fn()
	if err != nil {
		return value, err
	}
	kept, err := encode(value)
	if err != nil {
		return value, fmt.Errorf("keeping the result of %q: %w", key, err)
	}
	r.call.Store(key, kept)
	return value, nil
}
