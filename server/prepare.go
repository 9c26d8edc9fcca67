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

// A preparation changes the arguments of a tool's calls, once, before the guards of the outermost server that offers the tool; see
// [Tool].Prepare.
type preparation struct {
	schema  json.RawMessage // the input schema of the tool
	prepare func(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error)
}

// of returns the preparation of the calls of an entry: none if a copy has another schema, since it has other arguments.
func (p *preparation) of(e *Entry) *preparation {
	if p == nil || e.Definition == nil || !bytes.Equal(e.Definition.InputSchema(), p.schema) {
		return nil
	}
	return p
}

// A prepared is the value of a call under the key of its preparation.
type prepared struct {
	arguments json.RawMessage // that the function gets
	err       error
}

// done returns what the preparation has made of the arguments of a call, or nil.
func (p *preparation) done(call *mcp.Call) *prepared {
	if made, ok := call.Get(p).(*prepared); ok && bytes.Equal(made.arguments, call.Member("arguments")) {
		return made
	}
	return nil
}

// before returns a handler that passes calls on with prepared arguments. After an error, the call is passed on with
// the arguments that were sent, so that the guards decide before its caller gets the error.
func (p *preparation) before(next mcp.Handler) mcp.Handler {
	if p == nil || next == nil {
		return next
	}
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if p.done(call) != nil { // by an outer server
			return next(ctx, call)
		}
		changed, err := p.apply(ctx, call)
		if err != nil {
			changed = call
		}
		changed.Set(p, &prepared{bytes.Clone(changed.Member("arguments")), err}) // of a call that may outlast this run
		return next(ctx, changed)
	}
}

// failure returns the error of the preparation of a call.
func (p *preparation) failure(call *mcp.Call) error {
	if p == nil {
		return nil
	}
	if made := p.done(call); made != nil {
		return made.err
	}
	return nil
}

// apply returns the call with prepared arguments. Arguments that are no object are left for validation to refuse.
func (p *preparation) apply(ctx context.Context, call *mcp.Call) (*mcp.Call, error) {
	sent := orEmptyObject(call.Member("arguments"))
	if jsonscan.KindOf(sent) != jsonscan.Object {
		return call, nil
	}
	var arguments json.RawMessage
	err := callRecovered(func() (err error) {
		arguments, err = p.prepare(ctx, sent)
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
func (t *Tool) preparation() (*preparation, error) {
	prepare := t.Prepare
	if !t.Lenient {
		if prepare == nil {
			return nil, nil
		}
		return &preparation{t.InputSchema, prepare}, nil
	}
	validator, err := schema.Compile(t.InputSchema, nil)
	if err != nil {
		return nil, err
	}
	return &preparation{t.InputSchema, func(ctx context.Context, arguments json.RawMessage) (_ json.RawMessage, err error) {
		if prepare != nil {
			if arguments, err = prepare(ctx, arguments); err != nil {
				return nil, err
			}
		}
		return validator.Coerce(arguments)
	}}, nil
}
