package approval

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Journal records the events of requests; [OpenJournal] opens one in a file.
type Journal interface {
	// Append adds an entry. An error refuses the call. When Append returns after an entry with
	// "executing", this entry and all earlier ones must survive a crash. Append is called
	// concurrently.
	Append(e Entry) error
}

// An Entry is one event in a journal.
type Entry struct {
	Time time.Time `json:"time"`
	// Event is "asked", "approved", "rejected", "expired" (no answer arrived in time), "withdrawn" (the caller
	// disconnected while the request was open, or the request failed), "executing" (the call begins), "executed" (it
	// has returned a result or a tool error), "failed" (it has failed, or its result is unknown), "paused" (it waits
	// for its caller, or for the replica that continues it), "resumed" (it continues at this replica) or
	// "recovered" (an incomplete last line of the journal was removed).
	Event string `json:"event"`
	// ID and Digest are copied from the request.
	ID     string `json:"id,omitempty"`
	Digest Digest `json:"digest,omitzero"`
	// Server, Launch, Tool, ToolDigest, Caller, Script and Deadline are copied from the request. They are set for "asked"
	// and "resumed" only.
	Server     string    `json:"server,omitempty"`
	Launch     string    `json:"launch,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	ToolDigest string    `json:"toolDigest,omitempty"`
	Caller     string    `json:"caller,omitempty"`
	Script     string    `json:"script,omitempty"`
	Deadline   time.Time `json:"deadline,omitzero"`
	// ArgumentsDigest is set for the same events, and Arguments also requires
	// [Options.RecordArguments].
	ArgumentsDigest Digest `json:"argumentsDigest,omitzero"`
	Arguments       string `json:"arguments,omitempty"`
	// Replica is [Options.Replica] of the process that handles the call. The person may have
	// decided at another one.
	Replica string `json:"replica,omitempty"`
	// By names the person who approved or rejected, also if the approval was remembered.
	By string `json:"by,omitempty"`
	// Reason is the reason that the person gave, or describes a failure.
	Reason string `json:"reason,omitempty"`
	// RememberedUntil is set for "approved" if the approval is remembered: until then it is
	// also valid for equal calls; see [Options].Remember.
	RememberedUntil time.Time `json:"rememberedUntil,omitzero"`
	// RememberedFrom is set for "approved" if no approver was asked, because an approval
	// was remembered. It is the id of the request that was approved, which may be in the journal of
	// another replica.
	RememberedFrom string `json:"rememberedFrom,omitempty"`
	// Given is when that approval was given.
	Given time.Time `json:"given,omitzero"`
}

// repairText makes all texts valid UTF-8, so that reading a line returns what was written.
func (e *Entry) repairText() {
	for _, text := range []*string{
		&e.Event, &e.ID, &e.Server, &e.Launch, &e.Tool, &e.ToolDigest, &e.Caller, &e.Script, &e.Arguments, &e.Replica, &e.By, &e.Reason, &e.RememberedFrom,
	} {
		*text = strings.ToValidUTF8(*text, "\uFFFD")
	}
}

// The events of an [Entry]. A request is asked, approved, executing, and finally executed or failed. Before it is executing, it may
// also end as rejected, expired or withdrawn. A call that asks its caller is paused, and nothing is recorded if the
// caller never answers, or makes a different call. The replica that continues it records that it is asked again or, if
// it has been approved, resumed.
const (
	eventAsked     = "asked"
	eventApproved  = "approved"
	eventRejected  = "rejected"
	eventExpired   = "expired"   // no answer arrived in time
	eventWithdrawn = "withdrawn" // the caller disconnected while the request was open, or the request failed
	eventExecuting = "executing" // the call begins
	eventExecuted  = "executed"  // the call has returned a result or a tool error
	eventFailed    = "failed"    // the call has failed, or its result is unknown
	eventPaused    = "paused"    // the call waits for its caller, or for the replica that continues it
	eventResumed   = "resumed"   // the approved call continues after a pause, at this replica
	eventRecovered = "recovered" // of the journal: an incomplete last line was removed
)

// A stateMachine tracks open requests by id, and refuses invalid transitions: above all an
// execution that follows neither an approval that is in time and unused, nor "resumed".
type stateMachine map[string]*requestState

type requestState struct {
	digest   Digest
	event    string // the last one
	deadline time.Time
}

var errRefused = errors.New("approval: the journal refuses the entry")

// check returns an error if an entry is not a valid transition.
func (m stateMachine) check(e *Entry) error {
	state := m[e.ID]
	refuse := func(reason string) error { return fmt.Errorf("%w: %s %q: %s", errRefused, e.Event, e.ID, reason) }
	if e.Event == eventRecovered {
		return nil
	}
	if e.Event == eventAsked || e.Event == eventResumed { // the approval may be in the journal of another replica
		switch {
		case e.ID == "" || e.Digest.IsZero():
			return refuse("the id or digest is missing")
		case state != nil:
			return refuse("the request exists")
		}
		return nil
	}
	if state == nil {
		return refuse("there is no such open request")
	}
	if state.digest != e.Digest {
		return refuse("the digest differs")
	}
	var valid bool
	switch e.Event {
	case eventApproved:
		valid = state.event == eventAsked
	case eventExecuting:
		valid = state.event == eventApproved
	case eventRejected, eventExpired, eventWithdrawn:
		valid = state.event != eventExecuting
	case eventPaused:
		valid = state.event == eventAsked || state.event == eventExecuting
	case eventExecuted, eventFailed:
		valid = state.event == eventExecuting
	default:
		return refuse("unknown event")
	}
	if !valid {
		return refuse("the request is " + state.event)
	}
	if e.Event == eventExecuting && !e.Time.Before(state.deadline) {
		return refuse("the approval has expired")
	}
	return nil
}

// apply makes the transition of an entry that has been checked.
func (m stateMachine) apply(e *Entry) {
	switch e.Event {
	case eventAsked:
		m[e.ID] = &requestState{e.Digest, e.Event, e.Deadline}
	case eventResumed:
		m[e.ID] = &requestState{e.Digest, eventExecuting, e.Deadline}
	case eventApproved, eventExecuting:
		m[e.ID].event = e.Event
	case eventRecovered:
	default:
		delete(m, e.ID)
	}
}
