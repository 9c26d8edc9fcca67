package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Servers know which servers there are. A *[bridge.Bridge] does.
type Servers interface {
	// States says how the servers do, in their order.
	States() []bridge.State
}

// A ToolFunc calls a tool of a pseudo-server, by the name that callers of the gateway use:
// "skills__load". It returns one JSON value; nil is null. Its error's text is told to the
// caller.
type ToolFunc func(ctx context.Context, name string, arguments json.RawMessage) (json.RawMessage, error)

// DirectoryOptions configure a [Directory]. The zero value is good for a bridge.
type DirectoryOptions struct {
	// Servers know how the servers do whose entries the provider has. By default the
	// provider itself, if it does; set it where something is between, such as a provider of
	// package pin.
	Servers Servers
	// Launch says how a server is launched, for those who approve calls; see [Launch]. By
	// default nothing is said of it.
	Launch func(alias string) string
	// Trusted says whether what a server says of its tools, as tags and annotations, is
	// true. By default of none.
	Trusted func(alias string) bool
	// Pseudo are servers that are functions of this program, by their aliases. Their tools
	// can be called by every face of a [Gateway] and are in no list.
	Pseudo map[string]ToolFunc
}

// A Directory says what it is that callers see by a name. It may be used concurrently.
type Directory struct {
	provider server.Provider
	server   *server.Server // has the provider mounted, for calls
	opts     DirectoryOptions
}

// NewDirectory returns the directory of a provider; nil is one that offers nothing, for a
// [ToolServer] without servers of the operator's. The
// error names a pseudo-server that has the alias of a server, or none.
func NewDirectory(provider server.Provider, opts *DirectoryOptions) (*Directory, error) {
	if provider == nil {
		provider = &nothing{}
	}
	d := &Directory{provider: provider}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Servers == nil {
		d.opts.Servers, _ = provider.(Servers)
	}
	for alias := range d.opts.Pseudo {
		switch {
		case alias == "" || strings.Contains(alias, bridge.Separator) || strings.HasSuffix(alias, "_"):
			return nil, fmt.Errorf("gateway: the pseudo-server %q: an alias is not empty, without %s, and has no _ at its end", alias, bridge.Separator)
		case d.isServer(alias):
			return nil, fmt.Errorf("gateway: the pseudo-server %q would stand before a server with that alias", alias)
		}
	}
	d.server = server.New(mcp.Implementation{Name: "gateway"}, nil)
	return d, d.server.Mount(running{provider}, nil)
}

// nothing is a provider that offers nothing.
type nothing struct{ catalog server.Catalog }

func (n *nothing) Catalog() *server.Catalog { return &n.catalog }

func (n *nothing) Run(_ context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	return nil
}

// running is a provider that is run elsewhere.
type running struct{ server.Provider }

func (running) Run(_ context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	return nil
}

func (d *Directory) states() []bridge.State {
	if d.opts.Servers == nil {
		return nil
	}
	return d.opts.Servers.States()
}

func (d *Directory) isServer(alias string) bool {
	return slices.ContainsFunc(d.states(), func(s bridge.State) bool { return s.Alias == alias })
}

// knows says whether a name is one of the operator's servers.
func (d *Directory) knows(alias string) bool {
	_, pseudo := d.opts.Pseudo[alias]
	return pseudo || d.isServer(alias)
}

// takesCalls says whether a server runs, or would be started by a call.
func takesCalls(state bridge.State) bool {
	return state.Status == bridge.Ready || state.Status == bridge.Idle
}

func (d *Directory) runs(alias string) bool {
	return slices.ContainsFunc(d.states(), func(s bridge.State) bool { return s.Alias == alias && takesCalls(s) })
}

// pseudo finds the function of a pseudo-server's tool. A server that has got the alias
// meanwhile leaves neither of the two.
func (d *Directory) pseudo(exposed string) (alias, own string, fn ToolFunc) {
	alias, own, ok := strings.Cut(exposed, bridge.Separator)
	if fn = d.opts.Pseudo[alias]; !ok || own == "" || fn == nil || d.isServer(alias) {
		return "", "", nil
	}
	return alias, own, fn
}

// errUnknown is of what is not there.
var errUnknown = errors.New("there is no such thing")

// Locate says whose something is, and what is said of it, for [Enforcer].Locate. A server
// that the caller of a [ToolServer] has launched has a name that begins with [Launched]. The
// error is one of what is not there.
func (d *Directory) Locate(ctx context.Context, kind mcp.Kind, exposed string) (mcp.Target, error) {
	if r := runOf(ctx); r != nil && r.known == nil {
		return r.locate(kind, exposed)
	}
	e, err := d.find(kind, exposed)
	if err != nil {
		return mcp.Target{}, err
	}
	target := e.target
	target.Origin.Trusted = e.pseudo != nil || d.opts.Trusted != nil && d.opts.Trusted(target.Origin.Server)
	return target, nil
}

// Describe says what a tool call is for, for [Gate]: the server as its
// caller knows it and how it is launched, the tool's name there, and the digest of its
// definition, as far as that is known of a server that the caller has launched. The error is one
// of a call that is for nothing that is there, or whose tool has no digest, or of a run that a
// [ToolServer] refuses; so nobody is asked about it. Where only approval is asked for, Launch says
// so. With [ToolServerOptions.VerifyFirst] it is here that a server is started.
func (d *Directory) Describe(ctx context.Context, call *mcp.Call) (approval.Target, error) {
	r := runOf(ctx)
	if r == nil {
		return d.describe(call)
	}
	if err := r.admit(ctx); err != nil {
		return approval.Target{}, err
	}
	describe := d.describe
	if r.launch != nil {
		describe = r.describe
	}
	target, err := describe(call)
	if err == nil && r.onlyAsked {
		target = markOnlyAsked(target)
	}
	return target, err
}

func (d *Directory) describe(call *mcp.Call) (approval.Target, error) {
	kind, exposed := subjectOf(call)
	if kind != mcp.KindTool || call.Method() != mcp.MethodToolsCall {
		return approval.Target{}, approval.Errorf(approval.Failed, "only tool calls can be approved")
	}
	e, err := d.find(kind, exposed)
	if err != nil {
		return approval.Target{}, approval.Errorf(approval.Failed, "there is no tool %s", jsonscan.Quote(exposed))
	}
	target := approval.Target{Server: e.target.Origin.Server, Tool: e.target.Origin.Name}
	if e.pseudo != nil {
		return target, nil
	}
	if d.opts.Launch != nil {
		target.Launch = d.opts.Launch(target.Server)
	}
	target.ToolDigest, err = pin.Digest(e.listed)
	return target, err
}

// has says whether there is a tool that callers see by a name.
func (d *Directory) has(exposed string) bool {
	_, err := d.find(mcp.KindTool, exposed)
	return !errors.Is(err, errUnknown)
}

// lists says whether there is a tool or prompt of that name in a list: others have as many names
// as callers like.
func (d *Directory) lists(kind mcp.Kind, exposed string) bool {
	_, ok := d.now().entries[entryKey{kind, exposed}]
	return ok && (kind == mcp.KindTool || kind == mcp.KindPrompt)
}

// declares says whether a tool declares what its structured content is.
func (d *Directory) declares(exposed string) bool {
	e, err := d.find(mcp.KindTool, exposed)
	if err != nil || e.listed == nil {
		return false
	}
	listed, err := jsonscan.ReadObject(e.listed)
	return err == nil && jsonscan.KindOf(listed.Get("outputSchema")) == jsonscan.Object
}

// find finds what callers see by a name.
func (d *Directory) find(kind mcp.Kind, exposed string) (*entry, error) {
	t := d.now()
	if e, ok := t.entries[entryKey{kind, exposed}]; ok {
		return e, nil
	}
	if alias, own, fn := d.pseudo(exposed); fn != nil && kind == mcp.KindTool {
		return &entry{target: mcp.Target{Kind: kind, Name: exposed, Origin: mcp.Origin{Server: alias, Name: own}}, pseudo: fn}, nil
	}
	if kind == mcp.KindResource { // one that a template matches
		if e := t.catalog.Lookup(kind, exposed); e != nil {
			return &entry{target: mcp.Target{Kind: kind, Name: exposed, Origin: mcp.Origin{Server: e.Origin.Server, Name: exposed}}}, nil
		}
	}
	return nil, errUnknown
}

// exposed is the name by which callers see a server's tool. One that is not there is called
// what it would be, which is not ok if that is another's name.
func (d *Directory) exposed(alias, own string) (name string, ok bool) {
	t := d.now()
	if name, ok := t.names[ownName{alias, own}]; ok {
		return name, true
	}
	name = bridge.Name(alias, own)
	if _, pseudo := d.opts.Pseudo[alias]; pseudo {
		name = alias + bridge.Separator + own
	}
	_, taken := t.entries[toolKey(name)]
	return name, !taken
}

// subjectOf says what a call is about, "" if that cannot be told.
func subjectOf(call *mcp.Call) (kind mcp.Kind, exposed string) {
	var name json.RawMessage
	switch call.Method() {
	case mcp.MethodToolsCall:
		kind, name = mcp.KindTool, call.Member("name")
	case mcp.MethodPromptsGet:
		kind, name = mcp.KindPrompt, call.Member("name")
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe:
		kind, name = mcp.KindResource, call.Member("uri")
	case mcp.MethodComplete:
		if kind, name = mcp.KindPrompt, call.Member("ref", "name"); name == nil {
			kind, name = mcp.KindResourceTemplate, call.Member("ref", "uri")
		}
	}
	if jsonscan.KindOf(name) != jsonscan.String {
		return kind, ""
	}
	return kind, jsonscan.Unquote(name)
}
