package main

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newDesk is a server with two others in it, and with a tool of its own. Its middleware
// surrounds what is mounted, too.
func newDesk(now func() time.Time, calls *log.Logger) (*server.Server, error) {
	desk := server.New(mcp.Implementation{Name: "desk", Title: "A desk", Version: "1.0.0"}, &server.Options{
		Instructions: "The tools of the clock begin with clock_, those of the notes with notes_.",
		Middleware:   []mcp.Middleware{logged(calls)},
	})
	server.AddTool(desk, server.Tool{Name: "tidy", Description: "Tidies the desk."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "The desk is tidy.", nil })
	return desk, errors.Join(
		desk.Mount(newClock(now).Provider(), &server.MountOptions{Prefix: "clock_"}),
		desk.Mount(newNotes().Provider(), &server.MountOptions{Prefix: "notes_"}),
	)
}

// logged says what is called by whom, and how it ended.
func logged(calls *log.Logger) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			result, err := next(ctx, call)
			who := "somebody"
			if info := call.Caller.Info; info != nil {
				who = info.Name
			}
			outcome := "answered"
			if _, asks := mcp.AsInputRequired(err); asks {
				outcome = "asked back"
			} else if err != nil {
				outcome = err.Error()
			}
			calls.Printf("%s: %s %s: %s", who, call.Method(), call.Member("name"), outcome)
			return result, err
		}
	}
}
