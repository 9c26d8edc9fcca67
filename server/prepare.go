package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
)

// A preparation changes the arguments of a tool's calls; see [Tool].Prepare.
type preparation func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)

// failedPreparation is the key of the error of a preparation in the values of a call.
type failedPreparation struct{}

// before returns a handler that passes calls on with prepared arguments. After an error, the call is passed on with
// the arguments that were sent, so that the guards decide before its caller gets the error.
func (p preparation) before(next mcp.Handler) mcp.Handler {
	if p == nil || next == nil {
		return next
	}
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		prepared, err := p.apply(ctx, call)
		if err != nil {
			call.Set(failedPreparation{}, err)
			prepared = call
		}
		return next(ctx, prepared)
	}
}

// failure returns the error of the preparation of a call.
func (p preparation) failure(call *mcp.Call) error {
	if p == nil {
		return nil
	}
	err, _ := call.Get(failedPreparation{}).(error)
	return err
}

// apply returns the call with prepared arguments. Arguments that are no object are left for validation to refuse.
func (p preparation) apply(ctx context.Context, call *mcp.Call) (*mcp.Call, error) {
	sent := orEmptyObject(call.Member("arguments"))
	if jsonscan.KindOf(sent) != jsonscan.Object {
		return call, nil
	}
	var arguments json.RawMessage
	err := callRecovered(func() (err error) {
		arguments, err = p(ctx, sent)
		return err
	})
	switch _, panicked := errors.AsType[*panicError](err); {
	case err != nil && !panicked && !isProtocolError(err):
		return nil, &FunctionError{Arguments: true, Err: err}
	case err != nil, bytes.Equal(arguments, sent):
		return call, err
	case jsonscan.KindOf(arguments) != jsonscan.Object:
		return nil, fmt.Errorf("the function Prepare must return a JSON object, not %v", jsonscan.KindOf(arguments))
	}
	params, err := jsonscan.Splice(nil, call.Params(), jsonscan.Edit{Name: "arguments", Value: arguments})
	if err != nil {
		return nil, err
	}
	changed, err := call.Enter(call.Target(), params, nil)
	if err == nil {
		err = changed.ArgumentsError()
	}
	if err != nil {
		return nil, fmt.Errorf("the function Prepare must return valid JSON: %v", err) //nolint:errorlint // the caller did not send it
	}
	return changed, nil
}

// preparation returns what changes the arguments of calls, or nil.
func (t *Tool) preparation() (preparation, error) {
	if !t.Lenient {
		return t.Prepare, nil
	}
	validator, err := schema.Compile(t.InputSchema, nil)
	if err != nil {
		return nil, err
	}
	prepare := t.Prepare
	return func(ctx context.Context, arguments json.RawMessage) (_ json.RawMessage, err error) {
		if prepare != nil {
			if arguments, err = prepare(ctx, arguments); err != nil {
				return nil, err
			}
		}
		return validator.Coerce(arguments)
	}, nil
}
