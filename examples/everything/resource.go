package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const recordTemplate = "test://template/{id}/data"

type recordVars struct {
	ID string `json:"id"`
}

type record struct {
	ID           string `json:"id"`
	TemplateTest bool   `json:"templateTest"`
	Data         string `json:"data"`
}

// addResources adds resources: text, binary, by a template, and one that
// changes.
func addResources(s *server.Server) {
	const text = "This is the content of the static text resource."
	server.AddResource(s, server.Resource{
		URI: "test://static-text", Name: "static-text", Title: "Static Text Resource",
		Description: "A static text resource for testing", MIMEType: "text/plain", Size: new(int64(len(text))),
		Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: new(0.5)},
	}, func(context.Context, *server.Request) (string, error) { return text, nil })
	server.AddResource(s, server.Resource{
		URI: "test://static-binary", Name: "static-binary", Title: "Static Binary Resource",
		Description: "A static binary resource (image) for testing", MIMEType: "image/png",
	}, func(context.Context, *server.Request) ([]byte, error) { return pixel, nil })
	server.AddTemplate(s, server.Template{
		URITemplate: recordTemplate, Name: "template", Title: "Resource Template",
		Description: "A resource template with parameter substitution", MIMEType: "application/json",
	}, func(_ context.Context, _ *server.Request, vars recordVars) (record, error) {
		return record{ID: vars.ID, TemplateTest: true, Data: "Data for ID: " + vars.ID}, nil
	})
	addWatched(s)
}

// addWatched adds a resource to subscribe to, and the tool that changes it.
func addWatched(s *server.Server) {
	const uri = "test://watched-resource"
	var revision atomic.Int64
	server.AddResource(s, server.Resource{
		URI: uri, Name: "watched-resource", Title: "Watched Resource",
		Description: "A resource that can be subscribed to", MIMEType: "text/plain",
	}, func(context.Context, *server.Request) (string, error) {
		return fmt.Sprintf("Watched resource content, revision %d", revision.Load()), nil
	})
	server.AddTool(s, server.Tool{Name: "test_trigger_resource_update", Description: "Changes the watched resource."},
		func(context.Context, *server.Request, struct{}) (int64, error) {
			revision := revision.Add(1)
			s.ResourceUpdated(uri)
			return revision, nil
		})
}
