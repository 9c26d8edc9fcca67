package memory

import (
	"context"
	"errors"
)

// ErrNotFound says that there is no record with that key.
var ErrNotFound = errors.New("memory: not found")

// A Kind is what the records of a [Collection] are.
type Kind string

// The kinds of records.
const (
	// Conversations are snapshots, JSON text, by their ids.
	Conversations Kind = "conversations"
	// Facts are texts about one user, by their keys.
	Facts Kind = "facts"
)

// A Collection is where a record lies. Collections share nothing: the same key in
// two of them names two records. One exists as long as it has records.
type Collection struct {
	// Owner is the principal whose memory it is, "" for callers that are not
	// authenticated.
	Owner string
	Kind  Kind
	// User is whose facts these are, "" for conversations.
	User string
}

// A Record is what a store keeps. Strings are UTF-8, and come back byte for byte.
type Record struct {
	// Key is 1 to [Options].MaxName bytes without control characters.
	Key string `json:"key"`
	// Value may be empty, and may hold any character.
	Value string `json:"value"`
}

// A Query chooses records of a collection.
type Query struct {
	// Prefix is what the keys begin with.
	Prefix string
	// After is a key, which need not be there: only those behind it are wanted.
	After string
	// Limit is how many records are wanted, the first ones; 0 means all.
	Limit int
	// Values says that the values are wanted; without it they are empty.
	Values bool
}

// A Store keeps records. Its methods may be called concurrently; each happens as a
// whole or not at all, and what has returned is seen by all that begin later. When
// ctx has ended before anything was changed, they return its error.
//
// memorytest.Run tests a store.
type Store interface {
	// Save keeps a record, in place of the one with its key if there is one. A
	// store that has no room for it returns a *[FullError] and keeps what it had.
	Save(ctx context.Context, in Collection, record Record) error

	// Load returns a record's value, or [ErrNotFound].
	Load(ctx context.Context, in Collection, key string) (string, error)

	// Delete drops a record and says whether there was one.
	Delete(ctx context.Context, in Collection, key string) (bool, error)

	// List returns the records that a query chooses, in the order of the bytes of
	// their keys.
	List(ctx context.Context, in Collection, query Query) ([]Record, error)
}
