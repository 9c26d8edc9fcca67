package console

import (
	"context"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
)

// decided keeps the decision of the policy, and what it was about.
func (r *Recorder) decided(ctx context.Context, q *policy.Request, d policy.Decision) {
	w := rowOf(ctx)
	if w == nil {
		return
	}
	about := *q
	about.Arguments = nil
	r.change(w, func() {
		w.decision, w.decided = d, true
		r.release(w)
		if r.hold(w, about.Target.Definition) {
			w.request = &about
		}
	})
}

// hold keeps the definition of a called entry, if there is room, until the row is displaced. A server may change its definitions
// often, so they are not free. The mutex is held.
func (r *Recorder) hold(w *row, d *mcp.Definition) bool {
	if r.byID[w.id] != w {
		return false
	}
	if d == nil {
		return true
	}
	size := len(d.JSON())
	if r.definitions[d] == 0 {
		if r.definitionSize+size > maxDefinitions {
			return false
		}
		r.definitionSize += size
	}
	r.definitions[d]++
	return true
}

// release gives back what hold has kept. The mutex is held.
func (r *Recorder) release(w *row) {
	if w.request == nil {
		return
	}
	d := w.request.Target.Definition
	w.request = nil
	if d == nil {
		return
	}
	if r.definitions[d]--; r.definitions[d] == 0 {
		delete(r.definitions, d)
		r.definitionSize -= len(d.JSON())
	}
}

// A decisionOf is the answer of an approver, in a frame.
type decisionOf struct {
	At       int64  `json:"at"`
	By       string `json:"by"`
	Approved bool   `json:"approved"`
	Reason   string `json:"reason,omitempty"`
	// Remembered says that the approver has answered an earlier request, at At.
	Remembered bool `json:"remembered,omitempty"`
}

func (a *answer) shown() *decisionOf {
	if a == nil {
		return nil
	}
	return &decisionOf{a.At.UnixMicro(), a.By, a.Approved, a.Reason, a.Remembered}
}
