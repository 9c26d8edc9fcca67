package memory

import (
	"cmp"
	"fmt"
)

// Defaults of [Limits].
const (
	// DefaultConversations is how many conversations an owner may have.
	DefaultConversations = 1000
	// DefaultFacts is how many facts about one user an owner may have.
	DefaultFacts = 200
	// DefaultOwnerBytes is how much one owner may keep.
	DefaultOwnerBytes = 32 << 20
	// DefaultTotalBytes is how much all owners together may keep.
	DefaultTotalBytes = 256 << 20
)

// Limits bound what a store keeps. Zero fields mean the defaults; negative ones, no
// bound. Bytes are counted by [Size].
type Limits struct {
	// Conversations is how many conversations an owner may have. Default
	// [DefaultConversations].
	Conversations int
	// Facts is how many facts about one user an owner may have; get_user_facts
	// gives them all at once. Default [DefaultFacts].
	Facts int
	// OwnerBytes is how much one owner may keep, so that nobody uses up the room
	// of all. Default [DefaultOwnerBytes].
	OwnerBytes int64
	// TotalBytes is how much all owners together may keep. Default
	// [DefaultTotalBytes].
	TotalBytes int64
}

// recordOverhead is counted for bookkeeping, so that the limits hold however small
// records are and however many collections they are spread over.
const recordOverhead = 256

// Size is what a record counts for in bytes: its texts, and 256 for bookkeeping.
func Size(in Collection, record Record) int64 {
	return int64(recordOverhead + len(in.Owner) + len(in.User) + len(record.Key) + len(record.Value))
}

// Usage is how much there is of what [Limits] bound.
type Usage struct {
	// Records are those of one collection.
	Records int
	// OwnerBytes are those of the collection's owner, TotalBytes those of all.
	OwnerBytes, TotalBytes int64
}

// Admit is for stores: it says whether a collection may grow, by 0 or 1 records and
// the difference in bytes of old and new. It returns a *[FullError] if not. What does
// not grow is always admitted, even where limits have been lowered. A nil *Limits are
// the defaults.
func (l *Limits) Admit(in Collection, have Usage, records int, bytes int64) error {
	var limits Limits
	if l != nil {
		limits = *l
	}
	count, counted := cmp.Or(limits.Conversations, DefaultConversations), "conversations"
	if in.Kind == Facts {
		count, counted = cmp.Or(limits.Facts, DefaultFacts), "facts about one user"
	}
	for _, bound := range []struct {
		of          string
		limit       int64
		have, added int64
	}{
		{counted, int64(count), int64(have.Records), int64(records)},
		{"bytes in one memory", cmp.Or(limits.OwnerBytes, DefaultOwnerBytes), have.OwnerBytes, bytes},
		{"bytes in all memories together", cmp.Or(limits.TotalBytes, DefaultTotalBytes), have.TotalBytes, bytes},
	} {
		if bound.limit >= 0 && bound.added > 0 && bound.have > bound.limit-bound.added {
			return &FullError{Of: bound.of, Limit: bound.limit}
		}
	}
	return nil
}

// A FullError says that a store has no room for a record.
type FullError struct {
	// Of is what there is too much of.
	Of string
	// Limit is how much of it there may be.
	Limit int64
}

// Error says what a caller can do.
func (e *FullError) Error() string {
	return fmt.Sprintf("the memory is full: it holds at most %d %s; delete some first", e.Limit, e.Of)
}
