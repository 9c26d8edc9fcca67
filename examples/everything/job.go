package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server"
)

type greetIn struct {
	Name string `json:"name"`
}

type computeIn struct {
	Seconds float64 `json:"seconds" jsonschema:"minimum=0,maximum=3600"`
	Label   string  `json:"label"`
}

type deleteIn struct {
	Filename string `json:"filename"`
}

// addJobs adds the tools that the suite's scenarios for the tasks extension call.
// This server does not have the extension, and answers them at once.
func addJobs(s *server.Server) {
	server.AddTool(s, server.Tool{Name: "greet", Description: "Greets."},
		func(_ context.Context, _ *server.Request, in greetIn) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	server.AddTool(s, server.Tool{Name: "slow_compute", Description: "Takes its time."},
		func(ctx context.Context, _ *server.Request, in computeIn) (string, error) {
			err := pause(ctx, time.Duration(in.Seconds*float64(time.Second)))
			return fmt.Sprintf("%s: computed for %v s", in.Label, in.Seconds), err
		})
	server.AddTool(s, server.Tool{Name: "failing_job", Description: "Fails, and says so to the model."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "", errors.New("the job failed")
		})
	server.AddTool(s, server.Tool{Name: "protocol_error_job", Description: "Fails with an error of the protocol."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the job broke"}
		})
	server.AddTool(s, server.Tool{Name: "confirm_delete", Description: "Asks before it deletes nothing."},
		func(_ context.Context, r *server.Request, in deleteIn) (string, error) {
			answer, err := server.Elicit[confirmation](r, "confirm", "Delete "+in.Filename+"?")
			return fmt.Sprintf("%s deleted: %t", in.Filename, answer.OK), err
		})
	server.AddTool(s, server.Tool{Name: "multi_input", Description: "Asks for two things at once."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			user, nameErr := server.Elicit[personName](r, "name", "What is your name?")
			answer, sureErr := server.Elicit[confirmation](r, "confirm", "Are you sure?")
			return fmt.Sprintf("%s is sure: %t", user.Name, answer.OK), errors.Join(nameErr, sureErr)
		})
	server.AddTool(s, server.Tool{Name: "test_tool_with_task", Description: "Asks, and then works."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			user, err := server.Elicit[personName](r, "user_name", "What is your name?")
			return "Worked for " + user.Name, err
		})
}
