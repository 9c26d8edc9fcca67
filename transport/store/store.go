package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// A Store is state that the replicas of a server share. Its operations are safe for concurrent use. Each takes a
// context, and none waits longer than the limit that the implementation documents, except [KV.Watch], [Log.Follow] and
// [Queue.Pull], which wait until their context ends. An operation that fails because the engine cannot be reached
// returns an error that is not an error of this package. The operation may or may not have taken effect.
//
// Keys, prefixes, streams, queues, ids of jobs and subjects have names that [CheckName]
// accepts. An operation with another name fails.
//
// An iterator that yields an error, such as the error of its context, ends after it, unless the error is [ErrForged].
type Store interface {
	KV
	Log
	Queue
	Bus
	// Close ends all operations with [ErrClosed] and waits for the subscribers' calls of handle in progress. It
	// may be called several times. A store is closed by the code that has made it.
	io.Closer
}

// MaxValue is the size in bytes of values, entries, jobs and messages that every implementation accepts. An
// implementation may refuse a larger value with [ErrTooLarge]. See also [SealOverhead].
const MaxValue = 512 << 10

// Errors of operations, to be compared with [errors.Is].
var (
	// ErrNotFound means that no value has the key.
	ErrNotFound = errors.New("store: the key does not exist")
	// ErrExists means that another value has the key.
	ErrExists = errors.New("store: the key exists")
	// ErrConflict means that the value of the key has another revision, or does not exist.
	ErrConflict = errors.New("store: the value has been changed")
	// ErrPurged means that entries after the requested one are no longer stored.
	ErrPurged = errors.New("store: the entries after the requested one are no longer stored")
	// ErrLost means that the job is no longer held by the worker: its lease has expired, or
	// it has been acknowledged.
	ErrLost = errors.New("store: the job is no longer held")
	// ErrNoResponder means that the subject of a request has no subscriber. It may also mean that the subscriber ended
	// before it replied.
	ErrNoResponder = errors.New("store: there is no subscriber")
	// ErrTooLarge means that a value exceeds the limit of the implementation.
	ErrTooLarge = errors.New("store: the value is too large")
	// ErrFull means that the store has no room for the value.
	ErrFull = errors.New("store: the store is full")
	// ErrClosed means that the store has been closed.
	ErrClosed = errors.New("store: the store is closed")
)

// KV contains values with keys.
type KV interface {
	// Get returns the value of a key, or [ErrNotFound].
	Get(ctx context.Context, key string) (Item, error)
	// Create stores a value under a new key, or returns [ErrExists]. The value is deleted
	// after ttl, rounded up to whole seconds; with 0 it does not expire. A negative ttl is an
	// error.
	Create(ctx context.Context, key string, value []byte, ttl time.Duration) (revision uint64, err error)
	// Update replaces the value that has a revision, or returns [ErrConflict]. Its time to
	// live begins again, as for Create.
	Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (newRevision uint64, err error)
	// Delete deletes the value that has a revision, or returns [ErrConflict]. With revision
	// 0 it deletes any value, and succeeds if there is none.
	Delete(ctx context.Context, key string, revision uint64) error
	// Watch yields the values whose keys begin with the segments of prefix, in any order, and
	// then each change to one of them, until ctx ends. The key that is equal to prefix is one
	// of them. Changes that follow one another quickly may be yielded as one. The changes of
	// one key have increasing revisions. In a cluster, a first value may be older than what Get
	// returns; the newer one follows. An expiry is not yielded. After an interruption it
	// yields what has changed in the meantime.
	Watch(ctx context.Context, prefix string) iter.Seq2[Item, error]
}

// An Item is a value of a [KV].
type Item struct {
	Key      string
	Value    []byte // owned by the receiver
	Revision uint64 // greater than 0; each change of a key has a greater one
	Deleted  bool   // the value has been deleted; set by Watch only
}

// Log contains streams of entries, bounded by [Limits]. Entries are deleted oldest first.
type Log interface {
	// Append adds an entry to a stream, which it creates if necessary. The ids of a stream
	// increase, with gaps, even if the stream is dropped in between.
	Append(ctx context.Context, stream string, data []byte) (id uint64, err error)
	// Read yields the entries of a stream after the one with an id, oldest first, and ends
	// with the newest. With after 0, it begins with the oldest that is stored, if any. It
	// yields only [ErrPurged] if the entry with that id is not stored, since later ones may
	// have been deleted too.
	Read(ctx context.Context, stream string, after uint64) iter.Seq2[Entry, error]
	// Follow is like Read, but waits for new entries until ctx ends. It yields [ErrPurged]
	// when entries have been deleted before it has yielded them, and omits none without it.
	// It keeps waiting when the last entry that it has yielded is deleted.
	Follow(ctx context.Context, stream string, after uint64) iter.Seq2[Entry, error]
	// Drop deletes a stream.
	Drop(ctx context.Context, stream string) error
}

// An Entry is an entry of a stream of a [Log].
type Entry struct {
	ID   uint64
	Data []byte // owned by the receiver
}

// Queue contains jobs. Each is done by one worker at a time, and delivered again, to any
// worker, until a worker acknowledges it.
type Queue interface {
	// Push adds a job, unless one with the same id was added to the queue within
	// [DuplicateWindow].
	Push(ctx context.Context, queue, id string, data []byte) error
	// Pull waits for a job until ctx ends, and returns the oldest that is due. A job that is
	// delivered again may come before or after others. The worker holds the job for
	// [Limits.Lease], which begins again with each call of Extend.
	Pull(ctx context.Context, queue string) (*Job, error)
	// Extend begins the worker's lease again, or returns [ErrLost].
	Extend(ctx context.Context, job *Job) error
	// Ack deletes a job that has been done, or returns [ErrLost].
	Ack(ctx context.Context, job *Job) error
	// Nak returns a job to the queue, to be delivered after delay at the earliest, or returns
	// [ErrLost].
	Nak(ctx context.Context, job *Job, delay time.Duration) error
}

// DuplicateWindow is how long a [Queue] remembers the ids of jobs, at least.
const DuplicateWindow = 2 * time.Minute

// A Job is one delivery of a job of a [Queue].
type Job struct {
	Queue   string
	ID      string
	Data    []byte // owned by the worker
	Attempt int    // 1 for the first delivery
	Lease   any    // identifies the delivery, for the implementation
	// HeldFor is how long the worker holds the job after Pull, and at least after Extend; see [Limits.Lease]. An engine that cannot
	// tell how long the job was on its way makes it shorter.
	HeldFor time.Duration
}

// Bus carries messages between the replicas that are running. It stores nothing.
type Bus interface {
	// Publish sends a message to all subscribers of a subject.
	Publish(ctx context.Context, subject string, data []byte) error
	// Subscribe calls handle for each message of a subject, one after the other, in the order
	// in which each publisher sent them, until ctx ends or stop is called. It returns when
	// the subscription has effect. The context of handle ends with the subscription. stop waits
	// for a call of handle in progress; handle must not call it. A subscriber that is too slow
	// by more than 1,000 messages or 16 MiB loses messages.
	Subscribe(ctx context.Context, subject string, handle func(ctx context.Context, m Message)) (stop func(), err error)
	// Request sends a message to the subscribers of a subject and returns the first reply, or
	// [ErrNoResponder].
	Request(ctx context.Context, subject string, data []byte) ([]byte, error)
}

// A Message is a message of a [Bus].
type Message struct {
	Data []byte // owned by the subscriber
	// Reply sends the reply to a request. It is nil for other messages.
	Reply func(ctx context.Context, data []byte) error
	// Missed means that messages may have been lost before this one, which has no data: the
	// subscriber was too slow, or the engine could not be reached for some time.
	Missed bool
}

// Limits bounds what a store holds. Zero values mean the defaults.
type Limits struct {
	// LogAge is how long an entry of a stream is stored. It must be longer than webhooks are tried
	// again, which is 15 minutes by default. Default 30 minutes.
	LogAge time.Duration
	// LogEntries is the maximum number of entries of one stream. Default 10,000.
	LogEntries int
	// LogBytes is the maximum size in bytes of the entries of all streams. Default 64 MiB.
	// An engine that cannot bound the sum says so in its documentation.
	LogBytes int64
	// Lease is how long a worker holds a job of a queue. Default 30 seconds, minimum 1
	// second.
	Lease time.Duration
}

// Defaults of [Limits].
const (
	defaultLogAge     = 30 * time.Minute
	defaultLogEntries = 10_000
	defaultLogBytes   = 64 << 20
	defaultLease      = 30 * time.Second
)

// WithDefaults returns the limits with the defaults in place of zero values, for
// implementations of [Store]. It returns an error for a value out of range.
func (l Limits) WithDefaults() (Limits, error) {
	set(&l.LogAge, defaultLogAge)
	set(&l.LogEntries, defaultLogEntries)
	set(&l.LogBytes, defaultLogBytes)
	set(&l.Lease, defaultLease)
	if l.LogAge < time.Second || l.LogEntries < 1 || l.LogBytes < 1 || l.Lease < time.Second {
		return l, fmt.Errorf("store: limits out of range, expected LogAge and Lease of at least 1s, LogEntries and LogBytes of at least 1: %+v", l)
	}
	return l, nil
}

func set[T comparable](value *T, byDefault T) {
	var zero T
	if *value == zero {
		*value = byDefault
	}
}

// maxName is the maximum length of a name in bytes.
const maxName = 200

// CheckName returns an error unless a name consists of segments of ASCII letters, digits, "-"
// and "_", separated by "/", and has at most 200 bytes.
func CheckName(name string) error {
	valid := len(name) <= maxName
	previous := byte('/')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '/' && previous == '/':
			valid = false
		case c == '/', c == '-', c == '_', '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
		default:
			valid = false
		}
		previous = name[i]
	}
	if !valid || previous == '/' {
		return fmt.Errorf("store: %.200q is no name: expected segments of ASCII letters, digits, - and _, separated by /, of at most %d bytes", name, maxName)
	}
	return nil
}
