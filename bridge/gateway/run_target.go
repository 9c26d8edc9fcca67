package gateway

import (
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
)

// Launched begins what a policy knows a server by that a caller of a [ToolServer] has launched:
// a caller that calls it files has launched the server launched:files, which no rule about the
// operator's server files is about.
const Launched = "launched:"

var errChangedRun = approval.Errorf(approval.Changed, "the call is not the one that was to be run")

// locate says what is called at a server that the caller has launched. What such a server says
// of its tools would not be trusted, and is not asked for.
func (r *run) locate(kind mcp.Kind, exposed string) (mcp.Target, error) {
	switch {
	case kind != mcp.KindTool || exposed != r.exposed:
		return mcp.Target{}, errChangedRun
	case r.launch == nil:
		return mcp.Target{}, errUnknown
	}
	return mcp.Target{Kind: kind, Name: exposed, Origin: mcp.Origin{Server: Launched + r.server, Name: r.tool}}, nil
}

// describe says what is called at a server that the caller has launched.
func (r *run) describe(call *mcp.Call) (approval.Target, error) {
	if kind, exposed := subjectOf(call); kind != mcp.KindTool || exposed != r.exposed {
		return approval.Target{}, errChangedRun
	}
	target := approval.Target{Server: r.server, Launch: r.launch.text, Tool: r.tool}
	if d := r.definition(); d != nil {
		target.ToolDigest = d.digest
	}
	return target, nil
}

// onlyAsked begins what an approver is shown where nothing will be run. With it the question is
// another one, so that an answer which is remembered is none to a run.
const onlyAsked = "(only approval is asked for, nothing will be run) "

func markOnlyAsked(t approval.Target) approval.Target {
	t.Launch = onlyAsked + strings.TrimPrefix(t.Launch, onlyAsked)
	return t
}
