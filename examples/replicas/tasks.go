package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const (
	taskWorkers = 12                     // each with one task at a time
	jobTime     = 300 * time.Millisecond // of one execution
)

// jobRestarts are the tools that run as tasks, and how often their functions are executed again when their
// replica ends.
var jobRestarts = [...]struct {
	tool     string
	restarts int
}{{"job", 2}, {"job-once", 0}}

type jobIn struct {
	Call string `json:"call"`
	Ask  bool   `json:"ask"`
}

func addJobs(s *server.Server) {
	for _, job := range jobRestarts {
		server.AddTool(s, server.Tool{Name: job.tool, Task: server.TaskRequired, TTL: time.Hour, MaxRestarts: job.restarts}, runJob)
	}
}

func runJob(ctx context.Context, r *server.Request, in jobIn) (string, error) {
	value, err := server.Once(r, "value", func() (string, error) { return visitLedger(ctx, http.MethodGet, "") })
	if err != nil {
		return "", err
	}
	if in.Ask {
		if err := askIfSure(r, in.Call); err != nil {
			return "", err
		}
	}
	if err := execute(ctx, in.Call+"?"+value); err != nil {
		return "", err
	}
	if err := wait(ctx, jobTime); err != nil {
		return "", err
	}
	return "done " + in.Call, nil
}

// runTask calls a tool that runs as a task. As soon as the client has got the id of the task, it asks for the
// outcome until it knows it.
func (l *load) runTask(ctx context.Context, name string) {
	session, err := l.connect(ctx, client.Modern, name, user, nil)
	if err != nil {
		l.counts.lose("%s cannot connect: %v", name, err)
		return
	}
	defer session.Close()
	kind := len(name) % len(jobRestarts)
	c := call{id: name, client: name, restarts: jobRestarts[kind].restarts}
	var id, text string
	for id == "" { // what was certainly not executed is repeated
		l.counts.begin(c)
		text, err = client.CallAs[string](ctx, session, jobRestarts[kind].tool, jobIn{name, name[len(name)-1] == '0'}, &client.CallOptions{
			OnTask: func(task *mcp.Task) {
				l.counts.count(&l.counts.tasks)
				id, c.isTask = task.TaskID, true
			},
		})
		failure, incomplete := errors.AsType[*jsonrpc.CallError](err)
		busy, refused := errors.AsType[*jsonrpc.Error](err)
		isRepeated := incomplete && failure.Delivery != jsonrpc.MaybeExecuted || refused && busy.Code == jsonrpc.Busy
		if ctx.Err() != nil || !isRepeated {
			break
		}
		time.Sleep(retry)
	}
	task := session.Task(id)
	for id != "" && isUnknown(err) && ctx.Err() == nil {
		time.Sleep(retry)
		text, err = client.WaitAs[string](ctx, task, nil)
	}
	switch {
	case ctx.Err() != nil:
		l.counts.lose("task %s has no outcome: %v", name, err)
	case err != nil:
		l.counts.fail(c, err)
	default:
		l.counts.answer(name, text, 0)
		l.checkTask(ctx, id, name)
	}
}

// isUnknown reports whether the outcome of a task is unknown, because its server could not be reached.
func isUnknown(err error) bool {
	_, unknown := errors.AsType[*jsonrpc.CallError](err)
	return unknown
}

// checkTask checks that another user does not get a task that has ended.
func (l *load) checkTask(ctx context.Context, id, name string) {
	stranger, err := l.connect(ctx, client.Modern, "stranger", "bob", nil)
	if err != nil {
		l.counts.lose("a stranger cannot connect: %v", err)
		return
	}
	defer stranger.Close()
	if got, err := stranger.Task(id).Get(ctx); err == nil {
		l.counts.lose("a stranger gets the task %s: %v", name, got)
	}
}
