package approval

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Journal records what becomes of requests. A [Guard] goes on only if it could: an error
// refuses the call. An entry with [EventExecuting] must outlive a crash, and all before it,
// when Append returns; [OpenJournal] makes one in a file. It is called concurrently.
type Journal interface {
	Append(e Entry) error
}

// An Entry is one line of a journal.
type Entry struct {
	Time  time.Time `json:"time"`
	Event Event     `json:"event"`
	// ID and Digest are the request's.
	ID     string `json:"id,omitempty"`
	Digest Digest `json:"digest,omitzero"`
	// Server, Launch, Tool, ToolDigest, Caller and Deadline are the request's. They are
	// set when it is asked.
	Server     string    `json:"server,omitempty"`
	Launch     string    `json:"launch,omitempty"`
	Tool       string    `json:"tool,omitempty"`
	ToolDigest string    `json:"toolDigest,omitempty"`
	Caller     string    `json:"caller,omitempty"`
	Deadline   time.Time `json:"deadline,omitzero"`
	// ArgumentsDigest is that of the arguments when it is asked, and Arguments their exact
	// text if [Options.RecordArguments] is set.
	ArgumentsDigest Digest `json:"argumentsDigest,omitzero"`
	Arguments       string `json:"arguments,omitempty"`
	// By is who approved or rejected.
	By string `json:"by,omitempty"`
	// Reason is a person's, or what went wrong.
	Reason string `json:"reason,omitempty"`
}

// repairText makes all texts valid UTF-8. JSON has no other bytes: a line with one
// would not be read back as it was written.
func (e *Entry) repairText() {
	for _, text := range []*string{
		(*string)(&e.Event), &e.ID, &e.Server, &e.Launch, &e.Tool, &e.ToolDigest, &e.Caller, &e.Arguments, &e.By, &e.Reason,
	} {
		*text = strings.ToValidUTF8(*text, "\uFFFD")
	}
}

// An Event is what happened to a request.
type Event string

// The events. A request is asked, then approved, then executing and at last executed or
// failed; or it ends as rejected, expired or withdrawn before it is executing.
const (
	EventAsked     Event = "asked"
	EventApproved  Event = "approved"
	EventRejected  Event = "rejected"
	EventExpired   Event = "expired"   // nobody answered in time
	EventWithdrawn Event = "withdrawn" // its caller has gone, or it could not go on
	EventExecuting Event = "executing" // the call is made next
	EventExecuted  Event = "executed"  // the call has returned, a tool's own error included
	EventFailed    Event = "failed"    // the call has failed, or nobody knows how it ended
	// EventRecovered is of the journal itself: it was cut off in the middle of a line.
	EventRecovered Event = "recovered"
)

// A ledger follows the entries of a journal, and refuses those that must not be: above all
// an execution without an approval before it that is in time and has not been used.
type ledger map[string]*account

// An account is what is known of a request that has not ended.
type account struct {
	digest   Digest
	state    Event
	deadline time.Time
}

var errRefused = errors.New("approval: the journal refuses the entry")

func (l ledger) check(e *Entry) error {
	a := l[e.ID]
	refuse := func(reason string) error { return fmt.Errorf("%w: %s %q: %s", errRefused, e.Event, e.ID, reason) }
	if e.Event == EventRecovered {
		return nil
	}
	if e.Event == EventAsked {
		switch {
		case e.ID == "" || e.Digest.IsZero():
			return refuse("it names no request")
		case a != nil:
			return refuse("it has been asked")
		}
		return nil
	}
	if a == nil {
		return refuse("no such request is open")
	}
	if a.digest != e.Digest {
		return refuse("it was asked with another digest")
	}
	switch e.Event {
	case EventApproved:
		if a.state != EventAsked {
			return refuse("it is " + string(a.state))
		}
	case EventExecuting:
		switch {
		case a.state != EventApproved:
			return refuse("it is " + string(a.state))
		case !e.Time.Before(a.deadline):
			return refuse("the approval has expired")
		}
	case EventRejected, EventExpired, EventWithdrawn:
		if a.state == EventExecuting {
			return refuse("it is " + string(a.state))
		}
	case EventExecuted, EventFailed:
		if a.state != EventExecuting {
			return refuse("it is " + string(a.state))
		}
	default:
		return refuse("there is no such event")
	}
	return nil
}

// take follows an entry that has been checked.
func (l ledger) take(e *Entry) {
	switch e.Event {
	case EventAsked:
		l[e.ID] = &account{e.Digest, e.Event, e.Deadline}
	case EventApproved, EventExecuting:
		l[e.ID].state = e.Event
	case EventRecovered:
	default:
		delete(l, e.ID)
	}
}
