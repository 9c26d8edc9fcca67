package frontend

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// ToolParams returns the params of tools/call, with the arguments as they are.
func ToolParams(name string, arguments json.RawMessage) json.RawMessage {
	params := jsonscan.AppendString(append(make([]byte, 0, len(name)+len(arguments)+32), `{"name":`...), name)
	return append(append(append(params, `,"arguments":`...), arguments...), '}')
}

// Serve has a server answer a request, for the principal of ctx. The result is encoded.
func (f *Frontend) Serve(ctx context.Context, s *server.Server, method string, params json.RawMessage) (json.RawMessage, *Failure) {
	request, err := jsonrpc.NewRequest(jsonrpc.IntID(1), method, params)
	if err != nil {
		return nil, FailureOf(err)
	}
	call := mcp.NewCall(request, &mcp.Caller{Principal: transport.Principal(ctx)}, nil)
	result, err := s.Serve(ctx, &call)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = context.Cause(ctx) // which tells a call that took too long from one without a client
		}
		return nil, CallFailureOf(&call, err)
	}
	if raw, ok := result.(mcp.Raw); ok {
		return json.RawMessage(raw), nil
	}
	encoded, err := result.AppendJSON(nil)
	if err != nil {
		failed := FailureOf(err)
		failed.Message += ", reference " + f.log("a result could not be encoded", err)
		return nil, failed
	}
	return encoded, nil
}
