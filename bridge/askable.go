package bridge

import "github.com/dovetail-go/dovetail/mcp"

// askable is what a caller can be asked. A server of the legacy era is told when a
// session is opened, and nothing else that a caller declares matters to it.
type askable struct {
	roots, form, url                           bool
	sampling, samplingTools, samplingInContext bool
}

// everything is what the session for lists can be asked, so that the server shows all
// that it has.
var everything = askable{roots: true, form: true, url: true, sampling: true, samplingTools: true}

func askableOf(can *mcp.ClientCapabilities) askable {
	a := askable{roots: can.Roots != nil}
	if e := can.Elicitation; e != nil {
		a.form, a.url = e.Form != nil || e.URL == nil, e.URL != nil // neither means forms
	}
	if s := can.Sampling; s != nil {
		a.sampling, a.samplingTools, a.samplingInContext = true, s.Tools != nil, s.Context != nil
	}
	return a
}

func (a askable) capabilities() *mcp.ClientCapabilities {
	can := new(mcp.ClientCapabilities)
	if a.roots {
		can.Roots = &mcp.RootsCapability{}
	}
	if a.form || a.url {
		can.Elicitation = &mcp.ElicitationCapability{Form: object(a.form), URL: object(a.url)}
	}
	if a.sampling {
		can.Sampling = &mcp.SamplingCapability{Tools: object(a.samplingTools), Context: object(a.samplingInContext)}
	}
	return can
}

func object(there bool) *mcp.EmptyObject {
	if !there {
		return nil
	}
	return &mcp.EmptyObject{}
}
