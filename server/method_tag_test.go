package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A desk is a service whose methods carry metadata.
type desk struct{ metadata map[string]any }

func (d desk) Annotations() server.Annotations { return server.Annotations{Metadata: d.metadata} }

type (
	deskToolIn struct {
		_ server.ToolTag `name:"tool" metadata:"team=search, tier = 2 ,,note=a=b,empty=" tags:"front"`
	}
	deskPromptIn struct {
		_ server.PromptTag `name:"prompt" metadata:"team=search,tier=2,note=a=b,empty=" tags:"front"`
		X string           `json:"x"`
	}
	deskResourceIn struct {
		_ server.ResourceTag `uri:"desk:r" metadata:"team=search,tier=2,note=a=b,empty=" tags:"front"`
	}
	deskTemplateIn struct {
		_ server.ResourceTag `uri:"desk:t/{x}" metadata:"team=search,tier=2,note=a=b,empty=" tags:"front"`
		X string             `json:"x"`
	}
	deskWordIn struct {
		_     server.CompletionTag `prompt:"prompt" argument:"x"`
		Value string
	}
)

func (desk) Tool(context.Context, deskToolIn) (string, error)         { return "", nil }
func (desk) Prompt(context.Context, deskPromptIn) (string, error)     { return "", nil }
func (desk) Resource(context.Context, deskResourceIn) (string, error) { return "", nil }
func (desk) Template(context.Context, deskTemplateIn) (string, error) { return "", nil }
func (desk) Word(context.Context, deskWordIn) ([]string, error)       { return nil, nil }

// TestMethodMetadata: guards find what a method's tag says, which wins over what its
// service and its server say; clients are not told.
func TestMethodMetadata(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var seen string
		look := mcp.Guard{Name: "look", Check: func(_ context.Context, call *mcp.Call) error {
			seen = ""
			for _, key := range []string{"team", "tier", "note", "empty", "floor", "house", "none"} {
				seen += fmt.Sprintf("%s=%v ", key, call.Target().Metadata[key])
			}
			return nil
		}}
		s := newServer(&server.Options{Guards: []mcp.Guard{look}, Metadata: map[string]any{"team": "server", "floor": 1, "house": "white"}})
		server.AddService(s, desk{map[string]any{"team": "service", "floor": 2}})
		session := connect(t, s, era)
		for _, call := range []struct{ method, params string }{
			{mcp.MethodToolsCall, `{"name":"tool"}`},
			{mcp.MethodPromptsGet, `{"name":"prompt","arguments":{"x":""}}`},
			{mcp.MethodResourcesRead, `{"uri":"desk:r"}`},
			{mcp.MethodResourcesRead, `{"uri":"desk:t/1"}`},
			{mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"x","value":""}}`},
		} {
			seen = "nothing"
			_, err := raw(t, session, call.method, call.params)
			if want := "team=search tier=2 note=a=b empty= floor=2 house=white none=<nil> "; err != nil || seen != want {
				t.Errorf("%s %s: the guard finds %q, %v, want %q", call.method, call.params, seen, err, want)
			}
		}
		for _, method := range []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList} {
			if list, err := raw(t, session, method, `{}`); err != nil || !strings.Contains(list, `["front"]`) || strings.Contains(list, "search") {
				t.Errorf("%s says %s, %v", method, list, err)
			}
		}
	})
}

// Services with a tag that says nothing that could be meant.
type (
	unpaired   struct{}
	unpairedIn struct {
		_ server.ToolTag `metadata:"team=search,tier"`
	}
	unnamed   struct{}
	unnamedIn struct {
		_ server.PromptTag `metadata:"=search"`
	}
	twoTeams   struct{}
	twoTeamsIn struct {
		_ server.ToolTag `metadata:"team=search,team=stock"`
	}
	longLived   struct{}
	longLivedIn struct {
		_ server.ResourceTag `uri:"app:r" ttl:"30"`
	}
	backwards   struct{}
	backwardsIn struct {
		_ server.ResourceTag `uri:"app:{x}" ttl:"-1s"`
		X string             `json:"x"`
	}
	everybodys   struct{}
	everybodysIn struct {
		_ server.ResourceTag `uri:"app:r" cache:"shared"`
	}
	keptTool   struct{}
	keptToolIn struct {
		_ server.ToolTag `ttl:"1s"`
	}
)

func (unpaired) Run(context.Context, unpairedIn) error               { return nil }
func (unnamed) Run(context.Context, unnamedIn) (string, error)       { return "", nil }
func (twoTeams) Run(context.Context, twoTeamsIn) error               { return nil }
func (longLived) Run(context.Context, longLivedIn) (string, error)   { return "", nil }
func (backwards) Run(context.Context, backwardsIn) (string, error)   { return "", nil }
func (everybodys) Run(context.Context, everybodysIn) (string, error) { return "", nil }
func (keptTool) Run(context.Context, keptToolIn) error               { return nil }

// TestTagsThatMeanNothing are refused, with what would do.
func TestTagsThatMeanNothing(t *testing.T) {
	for _, test := range []struct {
		service any
		says    string
	}{
		{unpaired{}, `metadata must be pairs such as team=search, not "tier"`},
		{unnamed{}, `metadata must be pairs such as team=search, not "=search"`},
		{twoTeams{}, `metadata has two values of "team"`},
		{longLived{}, `ttl must be a duration such as 30s, not "30"`},
		{backwards{}, `ttl must be a duration such as 30s, not "-1s"`},
		{everybodys{}, `cache must be "private" or "public", not "shared"`},
		{keptTool{}, `the annotation has a tag "ttl"; accepted: name`},
	} {
		if _, err := server.Service(test.service); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%T: the error is %v, want it to say %s", test.service, err, test.says)
		}
	}
}
