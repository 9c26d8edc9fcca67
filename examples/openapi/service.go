package main

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strconv"
)

// maxBody is how much of a request the service reads, in bytes.
const maxBody = 64 << 10

// newService is the REST service. It knows nothing of MCP.
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
			http.Error(w, "there is no such note", http.StatusNotFound)
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
			http.Error(w, "there is no such note", http.StatusNotFound)
			return
		}
		answer(w, http.StatusOK, n)
	})
	mux.HandleFunc("DELETE /notes/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !notes.remove(r.PathValue("id")) {
			http.Error(w, "there is no such note", http.StatusNotFound)
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

// guarded asks for the key.
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
