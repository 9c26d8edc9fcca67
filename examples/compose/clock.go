package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// newClock is a server that knows the time. It knows nothing of the desk.
func newClock(now func() time.Time) *server.Server {
	s := server.New(mcp.Implementation{Name: "clock", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{
		Name: "now", Description: "Tells the time in a zone.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)},
	}, func(_ context.Context, _ *server.Request, in struct {
		Zone string `json:"zone,omitempty" jsonschema:"default=UTC" jsonschema_description:"such as Europe/Rome"`
	}) (string, error) {
		zone, err := time.LoadLocation(in.Zone)
		if err != nil {
			return "", fmt.Errorf("there is no zone %q", in.Zone)
		}
		return now().In(zone).Format(time.RFC3339), nil
	})
	server.AddPrompt(s, server.Prompt{Name: "meeting", Description: "Finds a time for people in different zones."},
		func(_ context.Context, _ *server.Request, in struct {
			Zones string `json:"zones" jsonschema_description:"with commas"`
		}) (string, error) {
			return "Suggest a time for a meeting of people in " + in.Zones + ", at which nobody sleeps.", nil
		})
	server.AddCompletion(s, server.Completion{Prompt: "meeting", Argument: "zones"},
		func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
			zones := []string{"America/New_York", "Asia/Tokyo", "Europe/Rome", "UTC"}
			return slices.DeleteFunc(zones, func(zone string) bool { return !strings.HasPrefix(zone, typed) }), nil
		})
	return s
}
