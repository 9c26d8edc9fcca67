package main

import (
	"slices"
	"strconv"
	"sync"
)

// A note is what the service keeps.
type note struct {
	ID   int      `json:"id"`
	Text string   `json:"text"`
	Tags []string `json:"tags,omitempty"`
}

// A store keeps notes in memory. Its zero value is empty.
type store struct {
	mu    sync.Mutex
	notes []note // by id
	last  int    // the last id that was given
}

// list returns the first notes that have all tags.
func (s *store) list(tags []string, limit int) []note {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []note{}
	for _, n := range s.notes {
		missing := func(tag string) bool { return !slices.Contains(n.Tags, tag) }
		if len(found) < limit && !slices.ContainsFunc(tags, missing) {
			found = append(found, n)
		}
	}
	return found
}

func (s *store) add(n note) note {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	n.ID = s.last
	s.notes = append(s.notes, n)
	return n
}

func (s *store) get(id string) (note, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.index(id); i >= 0 {
		return s.notes[i], true
	}
	return note{}, false
}

func (s *store) replace(id string, n note) (note, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(id)
	if i < 0 {
		return note{}, false
	}
	n.ID = s.notes[i].ID
	s.notes[i] = n
	return n, true
}

func (s *store) remove(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.index(id)
	if i < 0 {
		return false
	}
	s.notes = slices.Delete(s.notes, i, i+1)
	return true
}

func (s *store) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = nil
}

// index is where the note of that id is, -1 if there is none.
func (s *store) index(id string) int {
	return slices.IndexFunc(s.notes, func(n note) bool { return strconv.Itoa(n.ID) == id })
}
