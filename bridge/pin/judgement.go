package pin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/server"
)

// A judgement is what becomes of a catalogue, given what is pinned. It does not change.
type judgement struct {
	offered   *server.Catalogue
	pinned    *digests
	catalogue server.Catalogue
	tools     map[string]*judged
}

// A judged tool is one that is offered, whether it is quarantined or not.
type judged struct {
	definition json.RawMessage
	digest     string
	err        error           // why there is no digest
	accepted   json.RawMessage // the definition that was accepted, if it has been seen
	pending    *Pending        // nil if it is as it was accepted
	isListed   bool
}

// isOf says whether this is the judgement of a catalogue by these pins.
func (j *judgement) isOf(offered *server.Catalogue, pinned *digests) bool {
	return j != nil && j.offered == offered && j.pinned == pinned
}

// judge decides on each tool.
func (p *Provider) judge(before *judgement, offered *server.Catalogue) *judgement {
	j := &judgement{offered: offered, pinned: p.pins.current.Load(), catalogue: *offered}
	j.tools = make(map[string]*judged, len(offered.Tools))
	for _, l := range offered.Tools {
		j.add(l, before.tool(l.Name))
	}
	if p.options.TrustNew {
		p.trust(j)
	}
	for name, tool := range j.tools {
		p.decide(j, name, tool, before.tool(name))
	}
	j.catalogue.Tools = slices.DeleteFunc(slices.Clone(offered.Tools), func(l server.Listed) bool {
		return !j.tools[l.Name].isListed
	})
	return j
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
func (j *judgement) add(l server.Listed, before *judged) {
	tool := &judged{definition: l.JSON}
	if before != nil && before.err == nil && bytes.Equal(before.definition, l.JSON) {
		tool.digest = before.digest
	} else if tool.err = checkName("tool", l.Name); tool.err == nil {
		tool.digest, tool.err = Digest(l.JSON)
	}
	if twin := j.tools[l.Name]; twin != nil && (twin.err != nil || tool.err != nil || twin.digest != tool.digest) {
		tool.digest, tool.err = "", errTwice
	}
	j.tools[l.Name] = tool
}

var errTwice = errors.New("it is listed twice, with two definitions")

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

// checkRaw is check of a name as a call has it.
func (j *judgement) checkRaw(name json.RawMessage) error {
	if jsonscan.KindOf(name) != jsonscan.String {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "name must be a string"}
	}
	if bytes.IndexByte(name, '\\') < 0 {
		if tool := j.tools[string(name[1:len(name)-1])]; tool != nil && tool.isListed {
			return nil // nothing is copied for a look-up
		}
	}
	return j.check(jsonscan.Unquote(name))
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
