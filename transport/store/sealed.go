package store

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/token"
)

// SealOverhead is by how many bytes a value that [Sealed] has encrypted is longer, at most. A
// store below Sealed must accept values of [MaxValue] + SealOverhead bytes, as all of this
// module do.
const SealOverhead = 256

// ErrForged means that a value has not been encrypted by [Sealed] with this key for this name,
// or has been changed.
var ErrForged = errors.New("store: the value is not authentic")

const (
	// maxSealedSegments is the maximum number of segments of an encrypted name: 8 of 22 bytes
	// fit into a name.
	maxSealedSegments = 8
	// hashSize is the size in bytes of the hash that replaces a segment.
	hashSize = 16
	// forgetDelay is how long after its time to live a watcher may forget the name of a value.
	forgetDelay = time.Minute
)

// Sealed returns a store that encrypts and authenticates all data before they reach inner, for
// operators who do not trust the engine of inner, or its backups, with sessions and arguments.
// All replicas need the same key, of at least 32 bytes from a random source. Close closes
// inner.
//
// Values, entries, jobs, messages and replies are encrypted with AES-256-GCM, and bound to their type and name: data
// that was moved to another key, stream, queue or subject does not open. An operation that meets such data returns
// [ErrForged]; a subscriber gets a message with Missed. Such data must not keep others from being read: Watch, Read and
// Follow yield ErrForged, with the key if the value had another content before, or the id of the entry, and go on; Pull
// removes the job. Each segment of a name is replaced by a keyed hash
// (HMAC-SHA-256) of the name up to its end, since names contain ids of sessions. Everything after the seventh segment
// is one hash.
//
// The engine still learns sizes, times, the number of segments, and which operations use the
// same name. It can delete data, repeat them, return an older value of the same key, and deliver
// entries of a stream in another order. Until what is stored has ended, an older value takes effect again: a decision about
// an equal call until its deadline, a task that has ended, a session that was closed.
//
// The key cannot be replaced: with another one, nothing that is stored is found. To use a new
// key, use an empty store, for example another prefix.
//
// Watch needs memory for each name that it has yielded. It yields the deletion of a key only if it
// has yielded a value of the key before.
func Sealed(inner Store, key []byte) (Store, error) {
	ring, err := token.NewRing(key)
	if err != nil {
		return nil, fmt.Errorf("store: sealing: %w", err)
	}
	names, err := hkdf.Key(sha256.New, key, nil, "names of a store", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("store: sealing: %w", err)
	}
	return &sealed{inner, ring, names}, nil
}

type sealed struct {
	inner Store
	ring  *token.Ring
	names []byte // the key of the hashes of names
}

// Close closes the inner store.
func (s *sealed) Close() error { return s.inner.Close() }

// name returns what replaces a name. kind tells the names of keys, streams, queues, jobs and
// subjects apart.
func (s *sealed) name(kind, name string) (string, error) {
	if err := CheckName(name); err != nil {
		return "", err
	}
	var hashed []byte
	for begin := 0; begin < len(name); {
		end := len(name)
		if i := strings.IndexByte(name[begin:], '/'); i >= 0 && strings.Count(name[:begin], "/") < maxSealedSegments-1 {
			end = begin + i
		}
		mac := hmac.New(sha256.New, s.names)
		mac.Write(token.Binding(kind, name[:end]))
		if begin > 0 {
			hashed = append(hashed, '/')
		}
		hashed = base64.RawURLEncoding.AppendEncode(hashed, mac.Sum(nil)[:hashSize])
		begin = end + 1
	}
	return string(hashed), nil
}

// open opens what has been sealed for a binding.
func (s *sealed) open(data, binding []byte) ([]byte, error) {
	opened, err := s.ring.OpenBytes(data, binding)
	if err != nil {
		return nil, ErrForged
	}
	return opened, nil
}

// A sealedValue is the content of a value. The name is for Watch, the time to live for when it
// may forget the name.
type sealedValue struct {
	key   string
	ttl   time.Duration
	value []byte
}

func (s *sealed) sealValue(name string, v sealedValue) []byte {
	content := make([]byte, 0, SealOverhead+len(v.value))
	content = binary.BigEndian.AppendUint64(content, uint64(v.ttl))
	content = appendNamed(content, v.key, v.value)
	return s.ring.SealBytes(content, token.Binding("value", name))
}

func (s *sealed) openValue(name string, data []byte) (v sealedValue, err error) {
	content, err := s.open(data, token.Binding("value", name))
	if err != nil {
		return v, err
	}
	size, err := binary.Decode(content, binary.BigEndian, (*int64)(&v.ttl))
	if err != nil {
		return v, ErrForged
	}
	v.key, v.value, err = cutNamed(content[size:])
	return v, err
}

// appendNamed appends a name and data to content.
func appendNamed(content []byte, name string, data []byte) []byte {
	content = append(content, byte(len(name))) // a name has at most 200 bytes
	content = append(content, name...)
	return append(content, data...)
}

// cutNamed returns what appendNamed has appended.
func cutNamed(content []byte) (name string, data []byte, err error) {
	if len(content) == 0 || len(content) <= int(content[0]) {
		return "", nil, ErrForged
	}
	end := 1 + int(content[0])
	return string(content[1:end]), content[end:], nil
}

func (s *sealed) Get(ctx context.Context, key string) (Item, error) {
	name, err := s.name("key", key)
	if err != nil {
		return Item{}, err
	}
	item, err := s.inner.Get(ctx, name)
	if err != nil {
		return Item{}, err
	}
	v, err := s.openValue(name, item.Value)
	if err != nil {
		return Item{}, err
	}
	return Item{Key: key, Value: v.value, Revision: item.Revision}, nil
}

func (s *sealed) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	name, err := s.name("key", key)
	if err != nil {
		return 0, err
	}
	return s.inner.Create(ctx, name, s.sealValue(name, sealedValue{key, ttl, value}), ttl)
}

func (s *sealed) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	name, err := s.name("key", key)
	if err != nil {
		return 0, err
	}
	return s.inner.Update(ctx, name, s.sealValue(name, sealedValue{key, ttl, value}), revision, ttl)
}

func (s *sealed) Delete(ctx context.Context, key string, revision uint64) error {
	name, err := s.name("key", key)
	if err != nil {
		return err
	}
	return s.inner.Delete(ctx, name, revision)
}

func (s *sealed) Watch(ctx context.Context, prefix string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		name, err := s.name("key", prefix)
		if err != nil {
			yield(Item{}, err)
			return
		}
		if strings.Count(prefix, "/") >= maxSealedSegments-1 {
			name = name[:strings.LastIndexByte(name, '/')] // the last hash is the hash of a whole name
		}
		watched := watchedNames{}
		for item, err := range s.inner.Watch(ctx, name) {
			if err != nil {
				yield(Item{}, err)
				return
			}
			if item.Deleted {
				key, ok := watched.names[item.Key]
				if !ok {
					continue
				}
				delete(watched.names, item.Key)
				item.Key, item.Value = key.name, nil
			} else {
				v, err := s.openValue(item.Key, item.Value)
				if err != nil {
					if !yield(Item{Key: watched.names[item.Key].name, Revision: item.Revision}, err) {
						return
					}
					continue
				}
				if v.key != prefix && !strings.HasPrefix(v.key, prefix+"/") {
					continue
				}
				watched.add(item.Key, v)
				item.Key, item.Value = v.key, v.value
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

// watchedNames are the names of the values that a Watch has yielded, by their encrypted names: a
// deletion has no value that contains the name.
type watchedNames struct {
	names map[string]watchedName
	limit int // the number of names at which the names of expired values are deleted
}

type watchedName struct {
	name  string
	until time.Time // zero if the value does not expire
}

func (w *watchedNames) add(encrypted string, v sealedValue) {
	if len(w.names) >= w.limit {
		for encrypted, watched := range w.names {
			if !watched.until.IsZero() && time.Now().After(watched.until) {
				delete(w.names, encrypted)
			}
		}
		if w.names == nil {
			w.names = map[string]watchedName{}
		}
		w.limit = 64 + 2*len(w.names)
	}
	watched := watchedName{name: v.key}
	if v.ttl > 0 {
		watched.until = time.Now().Add(min(v.ttl, longest) + forgetDelay)
	}
	w.names[encrypted] = watched
}

func (s *sealed) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	name, err := s.name("stream", stream)
	if err != nil {
		return 0, err
	}
	return s.inner.Append(ctx, name, s.ring.SealBytes(data, token.Binding("entry", name)))
}

func (s *sealed) Read(ctx context.Context, stream string, after uint64) iter.Seq2[Entry, error] {
	return s.entries(stream, func(name string) iter.Seq2[Entry, error] { return s.inner.Read(ctx, name, after) })
}

func (s *sealed) Follow(ctx context.Context, stream string, after uint64) iter.Seq2[Entry, error] {
	return s.entries(stream, func(name string) iter.Seq2[Entry, error] { return s.inner.Follow(ctx, name, after) })
}

// entries opens the entries of a stream.
func (s *sealed) entries(stream string, read func(name string) iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		name, err := s.name("stream", stream)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		binding := token.Binding("entry", name)
		for entry, err := range read(name) {
			if err != nil {
				yield(Entry{}, err)
				return
			}
			entry.Data, err = s.open(entry.Data, binding)
			if !yield(entry, err) {
				return
			}
		}
	}
}

func (s *sealed) Drop(ctx context.Context, stream string) error {
	name, err := s.name("stream", stream)
	if err != nil {
		return err
	}
	return s.inner.Drop(ctx, name)
}

func (s *sealed) Push(ctx context.Context, queue, id string, data []byte) error {
	name, err := s.name("queue", queue)
	if err != nil {
		return err
	}
	job, err := s.name("job\x00"+queue, id)
	if err != nil {
		return err
	}
	content := appendNamed(make([]byte, 0, SealOverhead+len(data)), id, data)
	return s.inner.Push(ctx, name, job, s.ring.SealBytes(content, token.Binding("job", name, job)))
}

func (s *sealed) Pull(ctx context.Context, queue string) (*Job, error) {
	name, err := s.name("queue", queue)
	if err != nil {
		return nil, err
	}
	inner, err := s.inner.Pull(ctx, name)
	if err != nil {
		return nil, err
	}
	job := &Job{Queue: queue, Attempt: inner.Attempt, Lease: inner, HeldFor: inner.HeldFor}
	content, err := s.open(inner.Data, token.Binding("job", name, inner.ID))
	if err == nil {
		job.ID, job.Data, err = cutNamed(content)
	}
	if err != nil {
		// The name of the queue is made with the key, so nobody else can open the job. It would be delivered again after
		// each lease.
		_ = s.inner.Ack(ctx, inner)
		return nil, err
	}
	inner.Data = nil // the worker needs only the lease
	return job, nil
}

func (s *sealed) Extend(ctx context.Context, job *Job) error {
	inner, ok := job.Lease.(*Job)
	if !ok {
		return ErrLost
	}
	return s.inner.Extend(ctx, inner)
}

func (s *sealed) Ack(ctx context.Context, job *Job) error {
	inner, ok := job.Lease.(*Job)
	if !ok {
		return ErrLost
	}
	return s.inner.Ack(ctx, inner)
}

func (s *sealed) Nak(ctx context.Context, job *Job, delay time.Duration) error {
	inner, ok := job.Lease.(*Job)
	if !ok {
		return ErrLost
	}
	return s.inner.Nak(ctx, inner, delay)
}

func (s *sealed) Publish(ctx context.Context, subject string, data []byte) error {
	name, err := s.name("subject", subject)
	if err != nil {
		return err
	}
	return s.inner.Publish(ctx, name, s.ring.SealBytes(data, token.Binding("message", name)))
}

func (s *sealed) Subscribe(ctx context.Context, subject string, handle func(context.Context, Message)) (func(), error) {
	name, err := s.name("subject", subject)
	if err != nil {
		return nil, err
	}
	return s.inner.Subscribe(ctx, name, func(ctx context.Context, m Message) {
		handle(ctx, s.openMessage(name, m))
	})
}

// openMessage opens a message. A forged one counts as missed, since it may replace another.
func (s *sealed) openMessage(name string, m Message) Message {
	if m.Missed {
		return m
	}
	kind := "message"
	if m.Reply != nil {
		kind = "request"
	}
	data, err := s.open(m.Data, token.Binding(kind, name))
	if err != nil {
		return Message{Missed: true}
	}
	opened := Message{Data: data}
	if m.Reply != nil {
		binding := replyBinding(name, m.Data)
		opened.Reply = func(ctx context.Context, reply []byte) error {
			return m.Reply(ctx, s.ring.SealBytes(reply, binding))
		}
	}
	return opened
}

func (s *sealed) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	name, err := s.name("subject", subject)
	if err != nil {
		return nil, err
	}
	request := s.ring.SealBytes(data, token.Binding("request", name))
	reply, err := s.inner.Request(ctx, name, request)
	if err != nil {
		return nil, err
	}
	return s.open(reply, replyBinding(name, request))
}

// replyBinding binds a reply to one request: no two encrypted requests are equal.
func replyBinding(name string, request []byte) []byte {
	hash := sha256.Sum256(request)
	return token.Binding("reply", name, string(hash[:]))
}
