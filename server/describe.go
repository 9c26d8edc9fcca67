package server

import (
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/mcp"
)

// described is a description and the catalogue it was made from.
type described struct {
	from *Catalogue
	era.Description
}

// Describe says what the server is. The same catalogue has the same description.
func (c core) Describe() *era.Description {
	catalogue := c.provider.Catalogue()
	if d := c.description.Load(); d != nil && d.from == catalogue {
		return &d.Description
	}
	d := &described{from: catalogue, Description: era.Description{
		Info:         c.info,
		Capabilities: c.capabilities(catalogue),
		Instructions: c.options.Instructions,
		CacheHint:    c.cacheHint(),
	}}
	c.description.Store(d)
	return &d.Description
}

// cacheHint lets nobody share a list that is not the same for everybody.
func (s *Server) cacheHint() mcp.CacheHint {
	hint := s.options.CacheHint
	if s.provider.hides() {
		hint.Scope = mcp.CachePrivate
	}
	return hint
}

// capabilities are those declared, or those of what has been registered.
func (s *Server) capabilities(catalogue *Catalogue) mcp.ServerCapabilities {
	if s.options.Capabilities != nil {
		return *s.options.Capabilities
	}
	has := mcp.ServerCapabilities{Logging: &mcp.LoggingCapability{}}
	if len(catalogue.Tools) > 0 || catalogue.Partial {
		has.Tools = &mcp.ToolsCapability{ListChanged: true}
	}
	if len(catalogue.Prompts) > 0 || catalogue.Partial {
		has.Prompts = &mcp.PromptsCapability{ListChanged: true}
	}
	if len(catalogue.Resources)+len(catalogue.Templates) > 0 || catalogue.Partial {
		has.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: true}
	}
	if catalogue.Completes || catalogue.Partial {
		has.Completions = &mcp.CompletionsCapability{}
	}
	return has
}
