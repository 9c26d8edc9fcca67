package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// A Store keeps records. Package memorytest tests implementations.
//
//  1. Methods may be called concurrently.
//  2. Each operation is atomic, and operations that start after it has returned see its effect.
//  3. An operation whose ctx has ended before it has changed anything returns the context's error.
type Store interface {
	// Save saves a record and replaces one with the same key. If there is no room for it,
	// Save changes nothing and returns a *[FullError].
	Save(ctx context.Context, in Collection, record Record) error

	// Load returns the value of a record, or [ErrNotFound].
	Load(ctx context.Context, in Collection, key string) (string, error)

	// Delete deletes a record and reports whether it existed.
	Delete(ctx context.Context, in Collection, key string) (bool, error)

	// List returns the records that a query selects, in byte order of their keys.
	List(ctx context.Context, in Collection, query Query) ([]Record, error)
}

// ErrNotFound says that there is no record with the key.
var ErrNotFound = errors.New("memory: not found")

// A Kind is the kind of the records of a [Collection].
type Kind string

// The kinds of records.
const (
	// Conversations are snapshots as JSON, by id.
	Conversations Kind = "conversations"
	// Facts are texts about one user, by key.
	Facts Kind = "facts"
)

// A Collection identifies a set of records with unique keys. It exists as long as it has
// records.
type Collection struct {
	// Owner is the principal that owns the records, empty for callers that are not
	// authenticated.
	Owner string
	Kind  Kind
	// User is the user whom facts are about, empty for conversations.
	User string
}

// A Record is one entry of a collection. Stores return its strings, which are UTF-8, byte for
// byte.
type Record struct {
	// Key has 1 to [Options].MaxName bytes and no control characters.
	Key string `json:"key"`
	// Value may be empty and may contain any characters.
	Value string `json:"value"`
}

// A Query selects records of a collection.
type Query struct {
	// Prefix selects keys that begin with it.
	Prefix string
	// After selects keys greater than it. No record with this key need exist.
	After string
	// Limit is the maximum number of records, 0 meaning all.
	Limit int
	// Values requests the values. Without it they are empty.
	Values bool
}

// Defaults of [Limits].
const (
	defaultConversations = 1000
	defaultFacts         = 200
	defaultOwnerBytes    = 32 << 20
	defaultTotalBytes    = 256 << 20
)

// Limits bound what a store keeps. A zero field means its default, a negative field no limit.
// [Size] counts the bytes.
type Limits struct {
	// Conversations is the maximum per owner. Default 1000.
	Conversations int
	// Facts is the maximum per owner and user; get_user_facts returns all of them in one
	// result. Default 200.
	Facts int
	// OwnerBytes is the maximum per owner. Default 32 MiB.
	OwnerBytes int64
	// TotalBytes is the maximum of all owners together. Default 256 MiB.
	TotalBytes int64
}

// recordOverhead covers the bookkeeping of a store, so that the limits also bound many small
// records and collections.
const recordOverhead = 256

// Size returns the bytes that a record counts for: its strings and 256 bytes for bookkeeping.
func Size(in Collection, record Record) int64 {
	return int64(recordOverhead + len(in.Owner) + len(in.User) + len(record.Key) + len(record.Value))
}

// Usage is the current amount of what [Limits] bound.
type Usage struct {
	// Records is the number of records of one collection.
	Records int
	// OwnerBytes counts the collection's owner, TotalBytes all owners.
	OwnerBytes, TotalBytes int64
}

// Admit returns a *[FullError] if a collection must not grow. Stores call it before they save
// a record: records is 1 for a new record and 0 for a replaced one, bytes is the difference of
// the sizes. A change that does not grow is always admitted, even above a limit that was
// lowered. A nil *Limits means the defaults.
func (l *Limits) Admit(in Collection, have Usage, records int, bytes int64) error {
	var limits Limits
	if l != nil {
		limits = *l
	}
	count, counted := cmp.Or(limits.Conversations, defaultConversations), "conversations"
	if in.Kind == Facts {
		count, counted = cmp.Or(limits.Facts, defaultFacts), "facts about one user"
	}
	for _, bound := range []struct {
		of          string
		limit       int64
		have, added int64
	}{
		{counted, int64(count), int64(have.Records), int64(records)},
		{"bytes in one memory", cmp.Or(limits.OwnerBytes, defaultOwnerBytes), have.OwnerBytes, bytes},
		{"bytes in all memories together", cmp.Or(limits.TotalBytes, defaultTotalBytes), have.TotalBytes, bytes},
	} {
		if bound.limit >= 0 && bound.added > 0 && bound.have > bound.limit-bound.added {
			return &FullError{Of: bound.of, Limit: bound.limit}
		}
	}
	return nil
}

// A FullError says that a store has no room for a record.
type FullError struct {
	// Of is the unit of Limit, such as "conversations".
	Of string
	// Limit is the limit that was reached.
	Limit int64
}

// Error names the limit and says what to do.
func (e *FullError) Error() string {
	return fmt.Sprintf("the memory is full: it holds at most %d %s; delete some first", e.Limit, e.Of)
}
