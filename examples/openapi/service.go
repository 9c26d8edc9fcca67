package main

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// maxBody bounds a request body, in bytes.
const maxBody = 64 << 10

// newService returns the REST service. It uses nothing of MCP.
func newService(key string) http.Handler {
	notes := new(store)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /notes", func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		if err != nil || limit < 1 {
			limit = 20
		}
		answer(w, http.StatusOK, map[string][]note{"notes": notes.list(r.URL.Query()["tag"], limit)})
	})
	mux.HandleFunc("POST /notes", func(w http.ResponseWriter, r *http.Request) {
		if n, ok := readNote(w, r); ok {
			answer(w, http.StatusCreated, notes.add(n))
		}
	})
	mux.HandleFunc("GET /notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		n, ok := notes.get(r.PathValue("id"))
		if !ok {
			http.Error(w, "note not found", http.StatusNotFound)
			return
		}
		answer(w, http.StatusOK, n)
	})
	mux.HandleFunc("PUT /notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		n, ok := readNote(w, r)
		if !ok {
			return
		}
		if n, ok = notes.replace(r.PathValue("id"), n); !ok {
			http.Error(w, "note not found", http.StatusNotFound)
			return
		}
		answer(w, http.StatusOK, n)
	})
	mux.HandleFunc("DELETE /notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !notes.remove(r.PathValue("id")) {
			http.Error(w, "note not found", http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, _ *http.Request) {
		notes.reset()
		w.WriteHeader(http.StatusNoContent)
	})
	return guarded(key, mux)
}

// guarded refuses requests without the key.
func guarded(key string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("X-Key")), []byte(key)) != 1 {
			http.Error(w, "the header X-Key has no valid key", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func readNote(w http.ResponseWriter, r *http.Request) (n note, ok bool) {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&n)
	if err != nil || n.Text == "" {
		http.Error(w, "a note is a JSON object with a text", http.StatusBadRequest)
		return n, false
	}
	return n, true
}

func answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}

// A note is a text with tags.
type note struct {
	ID   int      `json:"id"`
	Text string   `json:"text"`
	Tags []string `json:"tags,omitempty"`
}

// A store keeps notes in memory. The zero value is an empty store.
type store struct {
	mu    sync.Mutex
	notes []note // by id
	last  int    // the last id in use
}

// list returns the first notes that have all of the tags.
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

// index returns the position of a note, or -1.
func (s *store) index(id string) int {
	return slices.IndexFunc(s.notes, func(n note) bool { return strconv.Itoa(n.ID) == id })
}
