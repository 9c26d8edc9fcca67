package era

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Limits of a [Parking].
const (
	// MaxParked is how many calls may wait for answers of their callers.
	MaxParked = 1024
	// MaxParkedOfOne is how many of them may be one principal's.
	MaxParkedOfOne = 64
	// ParkedLifetime is how long one may wait for a caller that is to come back.
	ParkedLifetime = 5 * time.Minute
)

// A Parking holds the calls to legacy servers that are open while their callers are
// asked: such a server waits for the answer, and has done already what came before
// the question. It may serve any number of sessions.
type Parking struct {
	name string // of this one among all replicas

	mu    sync.Mutex
	calls map[space]*parked
	of    map[string]int // how many each principal has
}

// A space is for one server's part of one call.
type space struct{ call, asker string }

type parked struct {
	held      *heldCall
	principal string
	expiry    *time.Timer
}

// NewParking returns an empty one.
func NewParking() *Parking {
	return &Parking{name: rand.Text(), calls: make(map[space]*parked), of: make(map[string]int)}
}

func keptParking(how *Forwarding) string { return "parked " + how.Asker }

// put has a call wait for the answer to a question. It returns the question, or why
// the call cannot wait: then it is over.
func (p *Parking) put(h *heldCall, call *mcp.Call, how *Forwarding, question error) error {
	principal, at := call.Caller.Principal, space{call.ID(), how.Asker}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[at] != nil {
		h.cancel(errTwice)
		return maybeExecuted(call, errTwice)
	}
	if len(p.calls) >= MaxParked || p.of[principal] >= MaxParkedOfOne {
		h.cancel(errTooManyParked)
		return &jsonrpc.Error{Code: jsonrpc.InternalError, Message: errTooManyParked.Error(), Data: parkedData("TOO_MANY_QUESTIONS")}
	}
	entry := &parked{held: h, principal: principal}
	lifetime := ParkedLifetime
	if !call.Caller.Version.Modern() {
		lifetime = InputTimeout + time.Minute // the caller's call is open, and ends it
	}
	entry.expiry = time.AfterFunc(lifetime, func() {
		if p.remove(at, entry) {
			h.cancel(errParkedTooLong)
		}
	})
	p.calls[at] = entry
	p.of[principal]++
	call.Store(keptParking(how), jsonscan.AppendString(nil, p.name))
	call.OnDone(func() {
		p.remove(at, entry)
		h.cancel(errAbandoned)
	})
	return question
}

var (
	errTooManyParked = fmt.Errorf("too many calls wait for answers: at most %d of one user and %d in all", MaxParkedOfOne, MaxParked)
	errTwice         = errors.New("two calls to the same server wait for answers within one call")
	errParkedTooLong = fmt.Errorf("the question was not answered within %v", ParkedLifetime)
)

// take returns the open call that a run of a call goes on with; nil if it is the first.
func (p *Parking) take(call *mcp.Call, how *Forwarding) (*heldCall, error) {
	kept, ok := call.Load(keptParking(how))
	if !ok {
		return nil, nil
	}
	at := space{call.ID(), how.Asker}
	p.mu.Lock()
	entry := p.calls[at]
	p.mu.Unlock()
	if entry != nil && p.remove(at, entry) {
		return entry.held, nil
	}
	var name string
	if err := json.Unmarshal(kept, &name); err == nil && name != p.name {
		return nil, &jsonrpc.Error{
			Code:    jsonrpc.InvalidParams,
			Message: "the call waits for its answers at another replica, and cannot go on here: send the answers there, or make the call again from its beginning",
			Data:    parkedData("CALL_ELSEWHERE"),
		}
	}
	return nil, &jsonrpc.Error{
		Code:    jsonrpc.InvalidParams,
		Message: "the call does not wait for these answers any more: they came too late, or twice",
		Data:    parkedData("CALL_NOT_WAITING"),
	}
}

func parkedData(kind string) json.RawMessage { return json.RawMessage(`{"type":"` + kind + `"}`) }

// remove says whether the entry was still there.
func (p *Parking) remove(at space, entry *parked) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[at] != entry {
		return false
	}
	entry.expiry.Stop()
	delete(p.calls, at)
	if p.of[entry.principal]--; p.of[entry.principal] == 0 {
		delete(p.of, entry.principal)
	}
	return true
}
