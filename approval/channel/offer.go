package channel

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/approval"
)

// An offer is a request that waits for an answer. Its fields are guarded by the channel's
// lock.
type offer struct {
	id      string
	frame   []byte
	order   int
	shown   *connection  // the connection that may answer it; nil before it was written
	open    bool         // it waits for an answer
	seen    bool         // it has been shown to somebody
	outcome chan outcome // of the one answer; there is room
}

type outcome struct {
	answer approval.Answer
	err    error
}

// offers are the open ones.
type offers struct {
	byID map[string]*offer
	last int
}

func (s *offers) add(id string, frame []byte) (*offer, error) {
	if s.byID[id] != nil {
		return nil, errors.New("channel: the request has been asked already")
	}
	s.last++
	o := &offer{id: id, frame: frame, order: s.last, open: true, outcome: make(chan outcome, 1)}
	s.byID[id] = o
	return o, nil
}

// remove says whether the offer was still open.
func (s *offers) remove(o *offer) bool {
	if s.byID[o.id] != o {
		return false
	}
	delete(s.byID, o.id)
	o.open = false
	return true
}

// fail closes all.
func (s *offers) fail(err error) {
	for _, o := range s.byID {
		o.outcome <- outcome{err: err}
		o.open = false
	}
	clear(s.byID)
}

// inOrder are the open ones, the oldest first.
func (s *offers) inOrder() []*offer {
	return slices.SortedFunc(maps.Values(s.byID), func(a, b *offer) int { return cmp.Compare(a.order, b.order) })
}
