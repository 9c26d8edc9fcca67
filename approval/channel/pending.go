package channel

import (
	"cmp"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/approval"
)

// A pendingRequest is a request without an answer. It is guarded by the channel's lock.
type pendingRequest struct {
	id      string
	key     string // of its record in the store, "" without a store
	frame   []byte
	order   int
	shown   map[*connection]struct{} // the connections that it was sent to, which may answer it
	open    bool                     // it has no answer
	seen    bool                     // it has been sent to an approver
	outcome chan outcome             // of capacity 1
}

// isShownTo reports whether a connection may answer the request.
func (o *pendingRequest) isShownTo(conn *connection) bool {
	_, ok := o.shown[conn]
	return ok
}

// notify informs all approvers that the request was sent to, except one, that it is decided or, if
// d is nil, withdrawn.
func (o *pendingRequest) notify(d *decision, except *connection) {
	frame := notificationFrame(methodWithdrawn, o.id, "", d)
	for conn := range o.shown {
		if conn != except {
			conn.notify(frame)
		}
	}
}

type outcome struct {
	answer approval.Answer
	err    error
}

// pendingRequests contains the pending requests.
type pendingRequests struct {
	byID map[string]*pendingRequest
	last int
}

func newPendingRequests() pendingRequests {
	return pendingRequests{byID: make(map[string]*pendingRequest)}
}

func (s *pendingRequests) add(id string, frame []byte) (*pendingRequest, error) {
	if s.byID[id] != nil {
		return nil, errPending
	}
	s.last++
	o := &pendingRequest{id: id, frame: frame, order: s.last, open: true, shown: make(map[*connection]struct{}), outcome: make(chan outcome, 1)}
	s.byID[id] = o
	return o, nil
}

// remove removes a request and reports whether it was pending.
func (s *pendingRequests) remove(o *pendingRequest) bool {
	if s.byID[o.id] != o {
		return false
	}
	delete(s.byID, o.id)
	o.open = false
	return true
}

// withdraw removes a request, informs its approvers, and reports whether it was pending. d is the
// decision, nil for none.
func (s *pendingRequests) withdraw(o *pendingRequest, d *decision) bool {
	if !s.remove(o) {
		return false
	}
	o.notify(d, nil)
	return true
}

// fail fails all requests.
func (s *pendingRequests) fail(err error) {
	for _, o := range s.byID {
		o.outcome <- outcome{err: err}
		o.open = false
	}
	clear(s.byID)
}

// inOrder returns the requests, oldest first.
func (s *pendingRequests) inOrder() []*pendingRequest {
	return slices.SortedFunc(maps.Values(s.byID), func(a, b *pendingRequest) int { return cmp.Compare(a.order, b.order) })
}
