package main

import (
	"context"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// addChanges adds tools that change what the server offers while clients are
// connected. Each adds something, or takes it out if it is there.
func addChanges(s *server.Server) {
	tool, err := server.NewTool(server.Tool{Name: "test_dynamic_tool", Description: "Comes and goes."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "Still here", nil })
	addToggle(s, "test_trigger_tool_change", tool, err, func() { s.Remove(mcp.KindTool, "test_dynamic_tool") })

	prompt, err := server.NewPrompt(server.Prompt{Name: "test_dynamic_prompt", Description: "Comes and goes."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "Still here", nil })
	addToggle(s, "test_trigger_prompt_change", prompt, err, func() { s.Remove(mcp.KindPrompt, "test_dynamic_prompt") })

	resource, err := server.NewResource(server.Resource{URI: "test://dynamic-resource", Description: "Comes and goes."},
		func(context.Context, *server.Request) (string, error) { return "Still here", nil })
	addToggle(s, "test_trigger_resource_change", resource, err, func() { s.Remove(mcp.KindResource, "test://dynamic-resource") })
}

// addToggle adds the tool that adds an entry and takes it out by turns.
func addToggle(s *server.Server, name string, entry *server.Entry, err error, remove func()) {
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	there := false
	server.AddTool(s, server.Tool{Name: name, Description: "Adds what comes and goes, or takes it out."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			there = !there
			if there {
				return "Mutation triggered", s.Replace(entry)
			}
			remove()
			return "Mutation triggered", nil
		})
}
