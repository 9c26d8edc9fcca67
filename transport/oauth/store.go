package oauth

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// A TokenStore keeps a client's tokens and registrations. Values are secrets. Methods
// are called concurrently, though not for the same key by one client.
type TokenStore interface {
	// Load returns the value that was saved last under a key, "" if there is none.
	Load(ctx context.Context, key string) (Secret, error)
	// Save keeps a value, which is at most a few hundred KiB. The empty value forgets
	// what there was.
	Save(ctx context.Context, key string, value Secret) error
}

// A MemoryStore is a [TokenStore] that forgets everything with the process. Its methods
// may be called concurrently. Use [NewMemoryStore].
type MemoryStore struct {
	mu     sync.Mutex
	values *map[string]Secret // behind a pointer, for fmt not to print it
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore { return &MemoryStore{values: &map[string]Secret{}} }

// Load returns the value of a key.
func (s *MemoryStore) Load(_ context.Context, key string) (Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (*s.values)[key], nil
}

// Save keeps a value, or forgets it.
func (s *MemoryStore) Save(_ context.Context, key string, value Secret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value == "" {
		delete(*s.values, key)
	} else {
		(*s.values)[key] = value
	}
	return nil
}

// Format tells nothing of what the store holds.
func (s *MemoryStore) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "oauth.MemoryStore") }
