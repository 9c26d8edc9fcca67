package approval

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// A grant follows a request from the question to the end of its call, through all runs of
// that.
type grant struct {
	request *Request
	digest  Digest // of the request as it was asked
	of      callOf
	key     string // of the mark that the call keeps

	// What follows is guarded by grants.mu, and changed by the run that goes on only.
	approved bool      // and executing
	running  bool      // a run goes on
	run      int       // of the call, counted from 1
	until    time.Time // when the caller must have come back; set between runs
}

// A callOf names a call of a tool: its id, and the tool with its server.
type callOf struct{ id, server, tool string }

// grants are those of a guard.
type grants struct {
	maxOpen, maxPerCaller int

	mu         sync.Mutex
	open       map[callOf]*grant
	callers    map[string]int // how many are open of each
	remembered map[Digest]remembered
}

// remembered is an approval that is good for further requests.
type remembered struct {
	answer Answer
	until  time.Time
}

func newGrants(opts *Options) *grants {
	return &grants{
		maxOpen: opts.MaxOpen, maxPerCaller: opts.MaxPerCaller,
		open: make(map[callOf]*grant), callers: make(map[string]int), remembered: make(map[Digest]remembered),
	}
}

// begin opens a grant.
func (s *grants) begin(g *grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open[g.of] != nil:
		return Spent
	case len(s.open) >= s.maxOpen:
		return Errorf(TooMany, "at most %d requests may be open", s.maxOpen)
	case s.callers[g.request.Caller] >= s.maxPerCaller:
		return Errorf(TooMany, "at most %d requests of one caller may be open", s.maxPerCaller)
	}
	g.running, g.run = true, 1
	s.open[g.of] = g
	s.callers[g.request.Caller]++
	return nil
}

// resume takes up the grant of a call that has come back, if the run before it is the last
// one that there was.
func (s *grants) resume(of callOf, kept mark, now time.Time) (*grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.open[of]
	if g == nil || g.running || g.request.ID != kept.Request || g.run != kept.Run || !now.Before(g.until) {
		return nil, Spent
	}
	g.running = true
	g.run++
	return g, nil
}

// pause leaves a grant to the caller, who is to come back.
func (s *grants) pause(g *grant, until time.Time) mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.running, g.until = false, until
	return mark{g.request.ID, g.run}
}

// spend notes that the call is made.
func (s *grants) spend(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g.approved = true
}

// end closes a grant that a run has.
func (s *grants) end(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(g)
}

// drop closes a grant unless a run goes on, and says whether it did.
func (s *grants) drop(g *grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[g.of] != g || g.running {
		return false
	}
	s.remove(g)
	return true
}

func (s *grants) remove(g *grant) {
	delete(s.open, g.of)
	if s.callers[g.request.Caller]--; s.callers[g.request.Caller] == 0 {
		delete(s.callers, g.request.Caller)
	}
}

// overdue closes and returns the grants whose callers have not come back in time.
func (s *grants) overdue(now time.Time) (list []*grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.open {
		if !g.running && !now.Before(g.until) {
			s.remove(g)
			list = append(list, g)
		}
	}
	return list
}

// remember keeps an approval. When there are too many it is not kept: the next call is
// asked about.
func (s *grants) remember(subject Digest, a Answer, now, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.remembered) >= maxRemembered {
		for subject, r := range s.remembered {
			if !now.Before(r.until) {
				delete(s.remembered, subject)
			}
		}
	}
	if len(s.remembered) < maxRemembered {
		s.remembered[subject] = remembered{a, until}
	}
}

// recall returns an approval that is still good.
func (s *grants) recall(subject Digest, now time.Time) (Answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.remembered[subject]
	if !ok {
		return Answer{}, false
	}
	if !now.Before(r.until) {
		delete(s.remembered, subject)
		return Answer{}, false
	}
	return r.answer, true
}

// A mark is what a call keeps between its runs: its request, and which run was the last.
type mark struct {
	Request string `json:"request"`
	Run     int    `json:"run"`
}

func (m mark) json() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"request":%q,"run":%d}`, m.Request, m.Run))
}
