// Package calculator has the tools with which the adapters are tested.
package calculator

import (
	"context"
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type addIn struct {
	A int `json:"a" jsonschema:"first summand"`
	B int `json:"b" jsonschema:"second summand"`
}

// Connect returns the tools of a server in this process: add, save, which asks the user and has no parameters, and fail.
// The user accepts.
func Connect(t *testing.T) llm.Tools {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "calculator", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."},
		func(_ context.Context, _ *server.Request, in addIn) (int, error) { return in.A + in.B, nil })
	server.AddTool(s, server.Tool{Name: "save", Description: "Save the last sum."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			if _, err := server.Elicit[bool](r, "save", "Save it?"); err != nil {
				return "", err
			}
			return "saved", nil
		})
	server.AddTool(s, server.Tool{Name: "fail"},
		func(context.Context, *server.Request, struct{}) (int, error) { return 0, errors.New("out of paper") })
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"value":true}`)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return llm.SessionTools(session)
}
