package jsonrpc

import (
	"context"
	"sync"
)

// inFlight is all that changes in a connection's life. Every change goes
// through one of its methods, under its lock; these hold afterwards:
//
//   - an id is in incoming exactly while its call runs and may be answered;
//   - an id is in outgoing exactly while somebody waits for its answer;
//   - after end, outgoing is empty and takes nothing in, and neither does incoming;
//   - idle, when somebody waits for it, is closed as soon as nothing runs.
type inFlight struct {
	mu       sync.Mutex
	incoming map[ID]*incomingCall
	outgoing map[ID]chan *Response
	lastID   int64
	calls    int // of the peer that run, those among them that have been cancelled
	settled  int // calls that have run, and are being answered
	running  int // goroutines, those of calls among them
	idle     chan struct{}
	ended    error
}

// start counts one more goroutine.
func (s *inFlight) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
}

// finish counts one goroutine less.
func (s *inFlight) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.closeIfIdle()
}

// finishCall is finish for a call that was settled.
func (s *inFlight) finishCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled--
	s.running--
	s.closeIfIdle()
}

func (s *inFlight) closeIfIdle() {
	if s.running == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// whenIdle returns a channel that is closed when nothing runs.
func (s *inFlight) whenIdle() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.closeIfIdle()
	return idle
}

type admission int

const (
	admitted admission = iota
	tooLate            // nobody waits for a call that begins after the end
	duplicate
	tooMany
)

// admit takes a call in and counts its goroutine. A call that has run leaves its place
// before it is answered, since who gets the answer may call again at once. Answers have a
// limit of their own, for peers that take none.
func (s *inFlight) admit(call *incomingCall, limit int) admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return tooLate
	}
	id := call.req.ID
	if _, taken := s.incoming[id]; taken {
		return duplicate
	}
	if s.calls >= limit || s.settled-spareAnswers >= limit {
		return tooMany
	}
	if s.incoming == nil {
		s.incoming = make(map[ID]*incomingCall)
	}
	s.incoming[id] = call
	call.alone = s.calls == 0
	s.calls++
	s.running++
	return admitted
}

// settle ends a call that has run and says whether it is still to be answered.
func (s *inFlight) settle(call *incomingCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.settled++
	if s.incoming[call.req.ID] != call {
		return false
	}
	delete(s.incoming, call.req.ID)
	return true
}

// cancel takes the call with that id out, so that it is not answered.
func (s *inFlight) cancel(id ID) *incomingCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.incoming[id]
	delete(s.incoming, id)
	return call
}

// await gives an id to an own call, whose answer will come through the channel.
// The channel has room for one and is closed instead when none will come.
func (s *inFlight) await(answer chan *Response, limit int) (ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return ID{}, s.ended
	}
	if len(s.outgoing) >= limit {
		return ID{}, errTooManyPending
	}
	s.lastID++
	id := IntID(s.lastID)
	if s.outgoing == nil {
		s.outgoing = make(map[ID]chan *Response)
	}
	s.outgoing[id] = answer
	return id, nil
}

// forget stops waiting; it says whether anybody still waited.
func (s *inFlight) forget(id ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waiting := s.outgoing[id]
	delete(s.outgoing, id)
	return waiting
}

// deliver hands an answer to who waits for it; nobody may.
func (s *inFlight) deliver(resp *Response) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, waiting := s.outgoing[resp.ID]
	if waiting {
		delete(s.outgoing, resp.ID)
		answer <- resp
	}
	return waiting
}

// end fails everything that waits for an answer, now and later.
func (s *inFlight) end(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return
	}
	s.ended = reason
	for id, answer := range s.outgoing {
		delete(s.outgoing, id)
		close(answer)
	}
}

func (s *inFlight) endedWith() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// An incomingCall is a call of the peer that runs.
type incomingCall struct {
	route  *Route // that it came by
	req    *Request
	ctx    context.Context // ends when the call is cancelled or has been answered
	cancel context.CancelCauseFunc
	batch  *batch // nil: answered on its own
	alone  bool   // no other call of the peer ran when it came
}
