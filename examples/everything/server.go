package main

import (
	"context"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newServer is the whole server. Each group of features has a file of its own.
func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "everything", Title: "Everything", Version: "1.0.0"}, &server.Options{
		Instructions: "Every tool here tries one feature of the protocol.",
		CacheHint:    mcp.CacheHint{TTLMs: time.Minute.Milliseconds(), Scope: mcp.CachePublic},
	})
	addContent(s)
	addSchemas(s)
	addReports(s)
	addQuestions(s)
	addForms(s)
	addRounds(s)
	addChanges(s)
	addWaiting(s)
	addJobs(s)
	addResources(s)
	addPrompts(s)
	addCompletions(s)
	return s
}

// pause waits, unless the call ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
