package features

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// step is the time between two reports of a tool.
const step = 50 * time.Millisecond

// addReports adds tools that send log messages and progress.
func addReports(s *server.Server) {
	server.AddTool(s, server.Tool{Name: "test_tool_with_logging", Description: "Logs three messages while it works."}, workLogging)
	server.AddTool(s, server.Tool{Name: "test_logging_tool", Description: "Logs one message if the caller asked for it."},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			r.Logger("diagnostics").InfoContext(ctx, "Diagnostic trace logging activated")
			return "Logging evaluated", nil
		})
	server.AddTool(s, server.Tool{Name: "test_log_levels", Description: "Logs one message of each of slog's levels, with attributes."},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			logger := r.Logger("levels")
			for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
				logger.Log(ctx, level, "message", "level", level.String())
			}
			return "Logged four messages", nil
		})
	server.AddTool(s, server.Tool{Name: "test_tool_with_progress", Description: "Reports progress three times."}, workReporting)
	server.AddTool(s, server.Tool{
		Name: "test_reconnection", Description: "Disconnects the client and continues.",
	}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		r.Detach(step)
		return "Reconnection test completed successfully.", pause(ctx, 2*step)
	})
}

func workLogging(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
	logger := r.Logger("")
	logger.InfoContext(ctx, "Tool execution started")
	for _, message := range []string{"Tool processing data", "Tool execution completed"} {
		if err := pause(ctx, step); err != nil {
			return "", err
		}
		logger.InfoContext(ctx, message)
	}
	return "Tool with logging executed successfully", nil
}

func workReporting(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
	const total = 100
	for done := 0; done <= total; done += total / 2 {
		if done > 0 {
			if err := pause(ctx, step); err != nil {
				return "", err
			}
		}
		if err := r.Progress(ctx, float64(done), total, fmt.Sprintf("Completed step %d of %d", done, total)); err != nil {
			return "", err
		}
	}
	return "Tool with progress executed successfully", nil
}

// waits counts the waiting and the canceled calls of test_wait.
type waits struct{ waiting, cancelled atomic.Int64 }

type waitCount struct {
	Waiting   int64 `json:"waiting"`
	Cancelled int64 `json:"cancelled"`
}

// addWaiting adds tools that end with a cancellation, a timeout, a panic or a protocol error.
func addWaiting(s *server.Server) {
	count := new(waits)
	server.AddTool(s, server.Tool{Name: "test_wait", Description: "Waits until the caller cancels the call."}, count.wait)
	server.AddResource(s, server.Resource{
		URI: "test://waits", Name: "waits", Description: "How many calls wait and how many were cancelled", MIMEType: "application/json",
	}, func(context.Context, *server.Request) (waitCount, error) {
		return waitCount{count.waiting.Load(), count.cancelled.Load()}, nil
	})
	server.AddTool(s, server.Tool{Name: "test_timeout", Description: "Takes longer than it may.", Timeout: step},
		func(ctx context.Context, _ *server.Request, _ struct{}) (string, error) {
			return "", pause(ctx, time.Minute)
		})
	server.AddTool(s, server.Tool{Name: "test_panic", Description: "Panics."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			panic("a secret that clients must not see")
		})
	server.AddTool(s, server.Tool{Name: "test_protocol_error", Description: "Fails with an error of the protocol."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "not like this", Data: []byte(`{"hint":"never"}`)}
		})
}

// wait reports progress once and waits until the call is canceled.
func (w *waits) wait(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	if err := r.Progress(ctx, 1, 0, "waiting"); err != nil {
		return "", err
	}
	<-ctx.Done()
	w.cancelled.Add(1)
	return "", context.Cause(ctx)
}

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

type deleteConfirmation struct {
	Confirm bool `json:"confirm"`
}

// addJobs adds the tools for the suite's scenarios of the tasks extension.
func addJobs(s *server.Server) {
	server.AddTool(s, server.Tool{Name: "greet", Description: "Greets."},
		func(_ context.Context, _ *server.Request, in greetIn) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	server.AddTool(s, server.Tool{Name: "slow_compute", Description: "Takes its time.", Task: server.TaskOptional},
		func(ctx context.Context, _ *server.Request, in computeIn) (string, error) {
			err := pause(ctx, time.Duration(in.Seconds*float64(time.Second)))
			return fmt.Sprintf("%s: computed for %v s", in.Label, in.Seconds), err
		})
	server.AddTool(s, server.Tool{Name: "failing_job", Description: "Fails, and says so to the model.", Task: server.TaskRequired},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "", errors.New("the job failed")
		})
	server.AddTool(s, server.Tool{Name: "protocol_error_job", Description: "Fails with an error of the protocol.", Task: server.TaskOptional},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "", &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the job broke"}
		})
	server.AddTool(s, server.Tool{Name: "confirm_delete", Description: "Asks before it deletes nothing.", Task: server.TaskOptional},
		func(_ context.Context, r *server.Request, in deleteIn) (string, error) {
			answer, err := server.Elicit[deleteConfirmation](r, "confirm", "Delete "+in.Filename+"?")
			return fmt.Sprintf("%s deleted: %t", in.Filename, answer.Confirm), err
		})
	server.AddTool(s, server.Tool{Name: "multi_input", Description: "Asks for two things at once.", Task: server.TaskOptional},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			user, nameErr := server.Elicit[personName](r, "name", "What is your name?")
			answer, sureErr := server.Elicit[deleteConfirmation](r, "confirm", "Are you sure?")
			return fmt.Sprintf("%s is sure: %t", user.Name, answer.Confirm), errors.Join(nameErr, sureErr)
		})
	server.AddTool(s, server.Tool{Name: "test_tool_with_task", Description: "Asks, and then works."},
		func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
			user, err := server.Elicit[personName](r, "user_name", "What is your name?")
			if err == nil {
				err = r.Call().BecomeTask(mcp.TaskRequest{})
			}
			return "Worked for " + user.Name, err
		})
}

// addChanges adds tools that add and remove an entry of all replicas while clients are connected.
func (all *Replicas) addChanges(s *server.Server) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.present == nil {
		all.present = make(map[string]bool)
	}
	all.servers = append(all.servers, s)

	tool, err := server.NewTool(server.Tool{Name: "test_dynamic_tool", Description: "Added and removed by a tool."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "Still here", nil })
	all.addToggle(s, "test_trigger_tool_change", tool, err, func(s *server.Server) { s.Remove(mcp.KindTool, "test_dynamic_tool") })

	prompt, err := server.NewPrompt(server.Prompt{Name: "test_dynamic_prompt", Description: "Added and removed by a tool."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "Still here", nil })
	all.addToggle(s, "test_trigger_prompt_change", prompt, err, func(s *server.Server) { s.Remove(mcp.KindPrompt, "test_dynamic_prompt") })

	resource, err := server.NewResource(server.Resource{URI: "test://dynamic-resource", Description: "Added and removed by a tool."},
		func(context.Context, *server.Request) (string, error) { return "Still here", nil })
	all.addToggle(s, "test_trigger_resource_change", resource, err, func(s *server.Server) { s.Remove(mcp.KindResource, "test://dynamic-resource") })
}

// addToggle adds a tool that alternately adds and removes an entry.
func (all *Replicas) addToggle(s *server.Server, name string, entry *server.Entry, err error, remove func(*server.Server)) {
	if err != nil {
		panic(err)
	}
	server.AddTool(s, server.Tool{Name: name, Description: "Adds the dynamic entry, or removes it."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			all.mu.Lock()
			defer all.mu.Unlock()
			present := !all.present[name]
			all.present[name] = present
			var errs []error
			for _, s := range all.servers {
				if present {
					errs = append(errs, s.Replace(entry))
				} else {
					remove(s)
				}
			}
			return "Mutation triggered", errors.Join(errs...)
		})
}
