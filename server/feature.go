package server

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// features is what a server implements. A new extension is one more line here, and one more in kinds if it has entries of
// its own.
var features = []*feature{
	&toolFeature,
	&promptFeature,
	&resourceFeature,
	&completionFeature,
	&loggingFeature,
	&skillFeature,
	&eventFeature,
	&blockingFeature,
	&taskFeature, // tasks publish events: they are stopped first
}

// kinds describes each kind of entry.
var kinds = [...]entryKind{
	mcp.KindTool:             {list: "tools", named: true, variants: true, changed: func(f *mcp.SubscriptionFilter) bool { return f.ToolsListChanged }},
	mcp.KindPrompt:           {list: "prompts", named: true, variants: true, changed: func(f *mcp.SubscriptionFilter) bool { return f.PromptsListChanged }},
	mcp.KindResource:         {list: "resources", variants: true},
	mcp.KindResourceTemplate: {list: "resourceTemplates", matchesURIs: true, variants: true},
	mcp.KindSkill:            {list: "skills", matchesURIs: true},
	mcp.KindEvent: {
		list: "events", named: true, changed: func(f *mcp.SubscriptionFilter) bool { return f.EventsListChanged },
		refusal: mcp.CodeForbidden,
	},
}

const kindCount = mcp.Kind(len(kinds))

// An entryKind describes the entries of one kind.
type entryKind struct {
	list        string // the member of the result that lists the entries
	named       bool   // entries have names, which a mount may prefix, and otherwise URIs
	variants    bool   // several entries can have one name, for different callers
	matchesURIs bool   // entries can match the URIs of resources that are in no list
	// changed reports whether a subscription includes changes of the list. nil: the list changes together with the list of
	// resources.
	changed func(f *mcp.SubscriptionFilter) bool
	refusal jsonrpc.Code // the code of an error by which a guard refuses a call; 0: [jsonrpc.InternalError]
}

// A feature is an extension, or a part of the core protocol.
type feature struct {
	methods []method
	// needed reports whether the capability is declared for a catalog. If more is true, entries of any kind may still
	// appear. nil: it is always declared.
	needed func(c *Catalog, more bool) bool
	// declare adds the capability.
	declare func(has *mcp.ServerCapabilities)
	// offered reports whether the server has the methods. It is not asked about a call that is for an entry. nil: it has
	// them always.
	offered func(s *Server) bool
	// watch begins to report the changes that a subscription asks for, and removes from its filter what does not exist or
	// is hidden. An error rejects the subscription. nil: the feature reports changes of lists only.
	watch func(s *Server, ctx context.Context, call *mcp.Call, to *subscription) error
	// start begins the feature's work in the background, when the server has started. It must not block, and does nothing
	// after stop. stop begins no more work. The function that it returns ends the work, and waits until that has ended or
	// ctx ends; it is called when no call is running. nil: the feature has no work in the background.
	start func(s *Server)
	stop  func(s *Server) (wait func(ctx context.Context) error)
}

// A method describes the calls of one method.
type method struct {
	name string
	list mcp.Kind // the kind of entries that the method lists; 0: it is not the method of a list
	// kinds are the kinds of entries that a call can be for. None: a call is for no single entry.
	kinds []mcp.Kind
	// target returns the kind and the quoted name of the entry that a call is for. nil: the first of kinds, and the
	// member name or uri of the params.
	target func(call *mcp.Call) (kind mcp.Kind, name []byte, err error)
	// lookup finds the entry of a name. nil: [Catalog.Lookup].
	lookup func(c *Catalog, name string) *Entry
	// unknown returns the error for an entry that does not exist, or is hidden. nil: [mcp.ResourceNotFound].
	unknown func(call *mcp.Call, kind mcp.Kind, name string) error
	// handle answers a call that is not answered by a list, or by the Handle of its entry.
	handle func(s *Server, ctx context.Context, call *mcp.Call, entry *Entry) (mcp.Result, error)
	// optional means that handle is called without an entry too.
	optional bool
	session  bool // the method belongs to the session, and is here for its scopes

	offered func(s *Server) bool // the field of the feature
}

// newMethods returns the methods of all features by their names.
func newMethods(features []*feature) map[string]*method {
	all := make(map[string]*method)
	for _, f := range features {
		for _, m := range f.methods {
			m.offered = f.offered
			all[m.name] = &m
		}
	}
	return all
}

// capabilities returns the declared capabilities. If more is true, entries of any kind may still
// appear.
func (s *Server) capabilities(c *Catalog, more bool) (has mcp.ServerCapabilities) {
	if s.options.Capabilities != nil {
		return *s.options.Capabilities
	}
	for _, f := range s.features {
		if f.needed == nil || f.needed(c, more) {
			f.declare(&has)
		}
	}
	return has
}

// declareExtension adds the settings of an extension.
func declareExtension(has *mcp.ServerCapabilities, extension, settings string) {
	if has.Extensions == nil {
		has.Extensions = make(map[string]json.RawMessage, 1)
	}
	has.Extensions[extension] = json.RawMessage(settings)
}

// loggingFeature is a capability only: messages are part of other calls, and the level one of the session.
var loggingFeature = feature{declare: func(has *mcp.ServerCapabilities) { has.Logging = &mcp.EmptyObject{} }}

// target returns the kind and the quoted name of the entry that a call is for. The kind is 0 if
// the call is for no single entry.
func (s *Server) target(call *mcp.Call) (kind mcp.Kind, name []byte, err error) {
	m := s.methods[call.Method()]
	switch {
	case m == nil || m.session || len(m.kinds) == 0:
		return 0, nil, nil
	case m.target != nil:
		return m.target(call)
	}
	kind = m.kinds[0]
	member := "uri"
	if kinds[kind].named {
		member = "name"
	}
	if name = call.Member(member); jsonscan.KindOf(name) != jsonscan.String {
		return 0, nil, invalidParams("%s must be a string", member)
	}
	return kind, name, nil
}

// invoke answers a call with a list, the handler of its method, or the result of its entry. entry is what the call is for,
// or nil.
func (s *Server) invoke(ctx context.Context, call *mcp.Call, entry *Entry) (mcp.Result, error) {
	m := s.methods[call.Method()]
	switch {
	case m == nil || m.session, entry == nil && m.offered != nil && !m.offered(s):
		return nil, methodNotFound(call.Method())
	case entry == nil && len(m.kinds) > 0 && !m.optional:
		return nil, s.unknownName(call)
	case m.list != 0:
		return s.list(ctx, call, m.list)
	case m.handle != nil:
		return m.handle(s, ctx, call, entry)
	}
	if entry.blocking && call.Get(blockingKey{}) == nil {
		call.Set(blockingKey{}, s)
	}
	result, err := entry.Handle(ctx, call)
	if kept, ok := result.(*mcp.Task); ok && err == nil {
		return s.sealTask(ctx, call, entry, kept)
	}
	return result, err
}

// unknownName returns the error for an entry that does not exist, or is hidden.
func (s *Server) unknownName(call *mcp.Call) error {
	kind, name, _ := s.target(call)
	if name == nil { // a subscription
		return mcp.ResourceNotFound(call.URI())
	}
	if unknown := s.methods[call.Method()].unknown; unknown != nil {
		return unknown(call, kind, jsonscan.Unquote(name))
	}
	return mcp.ResourceNotFound(jsonscan.Unquote(name))
}

// unknownEntry is the error for the name of a tool or prompt.
func unknownEntry(_ *mcp.Call, kind mcp.Kind, name string) error {
	return invalidParams("unknown %v: %.256q", kind, name)
}

// Scopes returns the OAuth scopes that a call needs, for the entry, for the mounts that the call
// comes through, and for the servers. name is the name of the tool or prompt, the URI of the
// resource, skill or directory, or the prompt or template of a completion. Scopes returns nil for other methods, and
// [Options].Scopes for an unknown name. The caller must not change the result.
//
// The server does not enforce scopes. That is done by the authentication in front of it, for
// example oauth.Protect with this method as CallScopes.
func (s *Server) Scopes(method, name string) []string {
	m := s.methods[method]
	if m == nil || len(m.kinds) == 0 {
		return nil
	}
	catalog := s.Catalog()
	for _, kind := range m.kinds {
		e := catalog.Lookup(kind, name)
		if m.lookup != nil {
			e = m.lookup(catalog, name)
		}
		if e != nil {
			return e.Scopes
		}
	}
	return s.options.Scopes
}
