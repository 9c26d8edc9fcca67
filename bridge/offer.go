package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// An offer is what is offered of a server: the entries of its lists as they stand there,
// but for what was chosen to be different.
type offer struct {
	catalogue server.Catalogue
	tools     map[string]string // the server's names by those here
	prompts   map[string]string
	resources map[string]bool // of all that are listed, whether they are offered
	templates map[string]bool
	matchers  []*uritemplate.Matcher
}

// newOffer chooses from the lists. What cannot be offered is told to refuse.
func newOffer(listed *server.Catalogue, opts *ProxyOptions, name func(string) string, refuse func(kind mcp.Kind, name string, err error)) *offer {
	o := &offer{
		tools: make(map[string]string), prompts: make(map[string]string),
		resources: make(map[string]bool), templates: make(map[string]bool),
	}
	o.catalogue.Completes, o.catalogue.Partial = listed.Completes, listed.Partial
	o.catalogue.Tools = o.named(mcp.KindTool, listed.Tools, o.tools, opts, name, refuse)
	o.catalogue.Prompts = o.named(mcp.KindPrompt, listed.Prompts, o.prompts, opts, name, refuse)
	o.catalogue.Resources = unique(mcp.KindResource, listed.Resources, o.resources, opts)
	o.catalogue.Templates = unique(mcp.KindResourceTemplate, listed.Templates, o.templates, opts)
	for _, l := range o.catalogue.Templates {
		o.addTemplate(l.Name)
	}
	return o
}

func (o *ProxyOptions) selects(kind mcp.Kind, name string) bool {
	return o.Select == nil || o.Select(kind, name)
}

// unique are resources or templates. Of two with one URI the first is offered.
func unique(kind mcp.Kind, listed []server.Listed, uris map[string]bool, opts *ProxyOptions) (offered []server.Listed) {
	for _, l := range listed {
		if _, twice := uris[l.Name]; twice {
			continue
		}
		uris[l.Name] = opts.selects(kind, l.Name)
		if uris[l.Name] {
			offered = append(offered, l)
		}
	}
	return offered
}

// named are tools or prompts under the names that they have here. Of two that would have
// the same none is offered: nobody must be called in place of another.
func (o *offer) named(kind mcp.Kind, listed []server.Listed, names map[string]string, opts *ProxyOptions, name func(string) string, refuse func(mcp.Kind, string, error)) (offered []server.Listed) {
	own := func(l server.Listed) string {
		if renamed, ok := opts.Rename[l.Name]; ok {
			return name(renamed)
		}
		return name(l.Name)
	}
	var selected []server.Listed
	uses := make(map[string]int)
	for _, l := range listed {
		if opts.selects(kind, l.Name) {
			selected = append(selected, l)
			uses[own(l)]++
		}
	}
	for _, l := range selected {
		here := own(l)
		if uses[here] > 1 {
			refuse(kind, l.Name, fmt.Errorf("another would have the name %.256q too", here))
			continue
		}
		entry, err := opts.entry(kind, l, here)
		if err != nil {
			refuse(kind, l.Name, err)
			continue
		}
		names[here] = l.Name
		offered = append(offered, server.Listed{Name: here, JSON: entry})
	}
	return offered
}

// entry is a list entry as it is offered here.
func (o *ProxyOptions) entry(kind mcp.Kind, l server.Listed, name string) (json.RawMessage, error) {
	var edits []jsonscan.Edit
	change := func(member, value string) {
		edits = append(edits, jsonscan.Edit{Name: member, Value: jsonscan.AppendString(nil, value)})
	}
	if name != l.Name {
		change("name", name)
	}
	if override := o.Override[l.Name]; kind == mcp.KindTool {
		if override.Title != "" {
			change("title", override.Title)
		}
		if override.Description != "" {
			change("description", override.Description)
		}
	}
	if len(edits) == 0 {
		return l.JSON, nil
	}
	return jsonscan.Splice(nil, l.JSON, edits...)
}

// addTemplate remembers how to match a template. Of one that cannot be matched here, the
// resources are read that are listed too.
func (o *offer) addTemplate(text string) {
	parsed, err := uritemplate.Parse(text)
	if err != nil {
		return
	}
	if matcher, err := parsed.Matcher(); err == nil {
		o.matchers = append(o.matchers, matcher)
	}
}

// listed is the entry of the tool that is called, nil if there is none.
func (o *offer) listed(call *mcp.Call) json.RawMessage {
	if call.Method() != mcp.MethodToolsCall {
		return nil
	}
	for _, l := range o.catalogue.Tools {
		if isText(call.Member("name"), l.Name) {
			return l.JSON
		}
	}
	return nil
}

// has says whether a resource is offered. One that is listed and was not selected is not,
// whatever templates there are.
func (o *offer) has(uri string) bool {
	if offered, listed := o.resources[uri]; listed {
		return offered
	}
	for _, matcher := range o.matchers {
		if _, ok := matcher.Match(uri); ok {
			return true
		}
	}
	return false
}

// completes says whether the variables of a template are completed, or of a resource
// that might be one.
func (o *offer) completes(uri string) bool { return o.templates[uri] || o.has(uri) }

// routes says whether calls go where they go in another offer.
func (o *offer) routes(as *offer) bool {
	return o.catalogue.Completes == as.catalogue.Completes && o.catalogue.Partial == as.catalogue.Partial &&
		maps.Equal(o.tools, as.tools) && maps.Equal(o.prompts, as.prompts) && maps.Equal(o.resources, as.resources)
}

// lookUp finds what has a name, which stands here as a call has it.
func lookUp[V any](named map[string]V, raw json.RawMessage) (value V, ok bool) {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return value, false
	}
	if bytes.IndexByte(raw, '\\') >= 0 {
		value, ok = named[jsonscan.Unquote(raw)]
		return value, ok
	}
	value, ok = named[string(raw[1:len(raw)-1])] // nothing is copied for a look-up
	return value, ok
}

// isText says whether a value, which need not be there, is a string with that text.
func isText(raw json.RawMessage, text string) bool {
	return jsonscan.KindOf(raw) == jsonscan.String && jsonscan.KeyIs(raw, text)
}

// changes are what is different between two catalogues.
func changes(before, now *server.Catalogue) []mcp.Change {
	var kinds []mcp.Change
	if !equal(before.Tools, now.Tools) {
		kinds = append(kinds, mcp.Change{Kind: mcp.KindTool})
	}
	if !equal(before.Prompts, now.Prompts) {
		kinds = append(kinds, mcp.Change{Kind: mcp.KindPrompt})
	}
	if !equal(before.Resources, now.Resources) || !equal(before.Templates, now.Templates) {
		kinds = append(kinds, mcp.Change{Kind: mcp.KindResource})
	}
	return kinds
}

func equal(a, b []server.Listed) bool {
	return slices.EqualFunc(a, b, func(a, b server.Listed) bool {
		return a.Name == b.Name && bytes.Equal(a.JSON, b.JSON)
	})
}
