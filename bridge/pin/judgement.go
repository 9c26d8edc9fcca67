package pin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A judgement is what becomes of a catalog, given what is pinned. It does not change.
type judgement struct {
	offered *server.Catalog
	pinned  *digests
	catalog *server.Catalog
	tools   map[string]*judged
}

// A judged tool is one that is offered, whether it is quarantined or not.
type judged struct {
	definition json.RawMessage
	digest     string
	err        error           // why there is no digest
	accepted   json.RawMessage // the definition that was accepted, if it has been seen
	pending    *Pending        // nil if it is as it was accepted
	isListed   bool
	refusing   *server.Entry // in its place if it is quarantined, in no list
}

// isOf says whether this is the judgement of a catalog by these pins.
func (j *judgement) isOf(offered *server.Catalog, pinned *digests) bool {
	return j != nil && j.offered == offered && j.pinned == pinned
}

// judge decides on each tool.
func (p *Provider) judge(before *judgement, offered *server.Catalog) *judgement {
	j := &judgement{offered: offered, pinned: p.pins.current.Load()}
	j.tools = make(map[string]*judged, offered.Len(mcp.KindTool))
	for e := range offered.All(mcp.KindTool) {
		j.add(e, before.tool(e.Name))
	}
	if p.options.TrustNew {
		p.trust(j)
	}
	for name, tool := range j.tools {
		p.decide(j, name, tool, before.tool(name))
		if !tool.isListed {
			tool.refusing = refusing(offered.Lookup(mcp.KindTool, name), tool.pending)
		}
	}
	accepted := offered.Map(func(e *server.Entry) *server.Entry {
		if e.Kind == mcp.KindTool && j.check(e.Name) != nil {
			return nil
		}
		return e
	})
	quarantined := server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
		if tool := j.tools[name]; kind == mcp.KindTool && tool != nil {
			return tool.refusing, nil
		}
		return nil, nil
	}})
	j.catalog = server.Merge(nil, server.Part{Owner: p.pins.alias, Catalog: accepted}, server.Part{Owner: p.pins.alias + ", quarantined", Catalog: quarantined})
	return j
}

// refusing returns the entry that answers calls of a quarantined tool. Its definition,
// which guards see, has only the name: nothing else of it has been accepted.
func refusing(e *server.Entry, pending *Pending) *server.Entry {
	refuses := &server.Entry{Target: e.Target}
	refuses.Definition = mcp.NewDefinition(fmt.Appendf(nil, `{"name":%s}`, jsonscan.AppendString(nil, e.Name)))
	refuses.Handle = func(context.Context, *mcp.Call) (mcp.Result, error) { return nil, pending.refusal() }
	return refuses
}

// tool returns what was found about a tool, nil if nothing was.
func (j *judgement) tool(name string) *judged {
	if j == nil {
		return nil
	}
	return j.tools[name]
}

// add notes a tool. The digest of the same bytes is not made again; why they had none may
// have been another tool.
func (j *judgement) add(e *server.Entry, before *judged) {
	tool := &judged{definition: e.Definition.JSON()}
	if before != nil && before.err == nil && bytes.Equal(before.definition, tool.definition) {
		tool.digest = before.digest
	} else if tool.err = checkName("tool", e.Name); tool.err == nil {
		tool.digest, tool.err = Digest(tool.definition)
	}
	j.tools[e.Name] = tool
}

// trust pins what is new.
func (p *Provider) trust(j *judgement) {
	seen := make(digests)
	for name, tool := range j.tools {
		if _, pinned := (*j.pinned)[name]; !pinned && tool.err == nil {
			seen[name] = tool.digest
		}
	}
	if len(seen) == 0 {
		return
	}
	var err error
	if j.pinned, err = p.pins.trust(seen); err != nil {
		p.options.Logger.Error("new tools cannot be pinned, and are quarantined", "server", p.pins.alias, "error", err)
		return
	}
	wake(p.trusted)
}

// decide holds a tool against what is pinned.
func (p *Provider) decide(j *judgement, name string, tool, before *judged) {
	was, isPinned := (*j.pinned)[name]
	if tool.err == nil && isPinned && was == tool.digest {
		tool.accepted, tool.isListed = tool.definition, true
		return
	}
	reason := New
	switch {
	case tool.err != nil:
		reason = Invalid
	case isPinned:
		reason = Changed
	}
	if before != nil {
		tool.accepted = before.accepted
	}
	tool.isListed = reason == Changed && p.options.OfferChanged
	tool.pending = &Pending{
		Server: p.pins.alias, Tool: name, Reason: reason, Was: was, Is: tool.digest,
		Before: tool.accepted, After: tool.definition, Err: tool.err,
	}
	if before == nil || before.pending == nil || before.digest != tool.digest || before.pending.Reason != reason {
		p.options.Logger.Warn("a tool has not been accepted as it is", "server", p.pins.alias, "tool", name,
			"reason", reason.String(), "quarantined", !tool.isListed, "was", was, "is", tool.digest)
	}
}

// pending are the tools that somebody has to look at.
func (j *judgement) pending() []Pending {
	var pending []Pending
	for _, name := range slices.Sorted(maps.Keys(j.tools)) {
		if tool := j.tools[name]; tool.pending != nil {
			pending = append(pending, *tool.pending)
		}
	}
	return pending
}

// check says whether a tool may be called.
func (j *judgement) check(name string) error {
	switch tool := j.tools[name]; {
	case tool == nil:
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("unknown tool: %.256q", name)}
	case !tool.isListed:
		return tool.pending.refusal()
	default:
		return nil
	}
}
