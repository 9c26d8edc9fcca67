package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/server"
)

type leg struct {
	To   *string  `json:"to"`
	Via  []string `json:"via"`
	Next *leg     `json:"next"`
	Note *string  `json:"note,omitempty"`
}

// trips gives its results as a service.
type trips struct{}

type (
	tripIn   struct{ _ server.ToolTag }
	noTripIn struct{ _ server.ToolTag }
)

func (trips) Trip(context.Context, tripIn) (leg, error)      { return leg{Next: &leg{}}, nil }
func (trips) NoTrip(context.Context, noTripIn) (*leg, error) { return nil, nil }

// TestResultsFitTheirSchemas: what a type gives when its pointers and lists are nil is
// what its schema promises. MCP 2025-11-25, server/tools, "Output Schema": servers MUST
// provide structured results that conform to it.
func TestResultsFitTheirSchemas(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		here := "here"
		returns(s, "nothing", leg{})
		returns(s, "pointer", &leg{})
		returns(s, "full", leg{To: &here, Via: []string{"there"}, Next: &leg{To: &here}, Note: &here})
		returns(s, "map", map[string]leg(nil))
		server.AddService(s, trips{})
		session := connect(t, s, era)
		for tool, err := range session.Tools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if tool.Name == "no_trip" {
				continue
			}
			validator, err := schema.Compile(tool.OutputSchema, nil)
			if err != nil {
				t.Fatal(err)
			}
			result := call(t, session, tool.Name, `{}`)
			if err := validator.Validate(result.StructuredContent); err != nil || result.IsError {
				t.Errorf("%s gives %s, which does not fit %s: %v", tool.Name, result.StructuredContent, tool.OutputSchema, err)
			}
		}
	})
}

// TestNoResult: a nil pointer where a value is promised is a failure of the function,
// and not the value null.
func TestNoResult(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		returns[*leg](s, "none", nil)
		server.AddService(s, trips{})
		session := connect(t, s, era)
		for _, tool := range []string{"none", "no_trip"} {
			result := call(t, session, tool, `{}`)
			if !result.IsError || texts(result) != "the function gave no result" || result.StructuredContent != nil {
				t.Errorf("%s gives %s, %q", tool, result.StructuredContent, texts(result))
			}
		}
	})
}

type bytesGiver struct{}

func (bytesGiver) Trip(context.Context, tripIn) ([]byte, error) { return nil, nil }

// TestBytesAreNoResult: they do not say what they are.
func TestBytesAreNoResult(t *testing.T) {
	_, tool := server.NewTool(server.Tool{Name: "x"}, func(context.Context, *server.Request, struct{}) ([]byte, error) { return nil, nil })
	_, method := server.Service(bytesGiver{})
	for _, err := range []error{tool, method} {
		if err == nil || !strings.Contains(err.Error(), "mcp.Image") {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestArgumentsNothingCanBeReadInto are refused when the tool is registered, not when
// it is called.
func TestArgumentsNothingCanBeReadInto(t *testing.T) {
	_, err := server.NewTool(server.Tool{Name: "x"}, nothing[struct{ Content mcp.Content }])
	if err == nil || !strings.Contains(err.Error(), "Content") || !strings.Contains(err.Error(), "interface") {
		t.Errorf("the error is %v", err)
	}
}
