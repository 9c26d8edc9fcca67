package redis

import (
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/transport/store"
)

// A stream of the log is a stream of Redis. An entry has the fields d (data) and p (the id of
// the entry before it, or nothing if it is the first of the stream). The newest entry is never
// trimmed, but expires with the stream. The ids of all streams increase together.

// appendScript appends ARGV[1] to the stream KEYS[1], which has at most ARGV[2] entries of an
// age of at most ARGV[3] milliseconds. KEYS[2] is the last id of all streams. It returns the
// id, and publishes it on the channel ARGV[4].
//
//nolint:dupword // each end ends another block
var appendScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ms, seq = now, 1
local last = redis.call('GET', KEYS[2])
if last then
  local lastms, lastseq = string.match(last, '^(%d+)-(%d+)$')
  lastms, lastseq = tonumber(lastms), tonumber(lastseq)
  ms, seq = math.max(now, lastms), (lastseq + 1) % 1048576
  if ms == lastms and seq == 0 then ms = ms + 1 end
end
local id = string.format('%.0f-%.0f', ms, seq)
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local previous = newest[1] and newest[1][1] or ''
redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[2], id, 'd', ARGV[1], 'p', previous)
redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f-0', now - ARGV[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], id)
redis.call('PUBLISH', ARGV[4], id)
return id
`)

// readScript reads up to ARGV[4] entries of the stream KEYS[1], from the id ARGV[1] on. Entries
// with an age of more than ARGV[3] milliseconds are not stored any more. It returns whether
// the entry ARGV[2] is stored, the id of the newest entry, and the entries.
var readScript = redis.NewScript(`
local time = redis.call('TIME')
local oldest = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[3]
local function stored(id) return tonumber(string.match(id, '^%d+')) >= oldest end
local from = ARGV[1]
if not stored(from) then from = string.format('%.0f-0', oldest) end
local found = stored(ARGV[2]) and #redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2]) or 0
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
return {found, newest[1] and newest[1][1] or '', redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', ARGV[4])}
`)

// sequenceBits is how many bits of an id are the second part of the id of Redis. The rest is
// the first part, the time in milliseconds since 1970.
const sequenceBits = 20

// formatID returns the id of Redis.
func formatID(id uint64) string {
	return fmt.Sprintf("%d-%d", id>>sequenceBits, id&(1<<sequenceBits-1))
}

// parseID returns the id that has an id of Redis. An empty one has 0.
func parseID(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	first, second, _ := strings.Cut(text, "-")
	ms, err := strconv.ParseUint(first, 10, 64-sequenceBits)
	if err != nil {
		return 0, fmt.Errorf("%w: id: %w", errFormat, err)
	}
	sequence, err := strconv.ParseUint(second, 10, sequenceBits)
	if err != nil {
		return 0, fmt.Errorf("%w: id: %w", errFormat, err)
	}
	return ms<<sequenceBits | sequence, nil
}

// Append implements [store.Log].
func (s *Store) Append(ctx context.Context, stream string, data []byte) (id uint64, err error) {
	err = s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := checkSize(data); err != nil {
			return err
		}
		text, err := appendScript.Run(ctx, c, []string{s.key("log", stream), s.prefix + "log"},
			data, s.limits.LogEntries, s.limits.LogAge.Milliseconds(), s.key("log", stream)).Text()
		if err != nil {
			return err
		}
		id, err = parseID(text)
		return err
	}, stream)
	return id, err
}

// Drop implements [store.Log].
func (s *Store) Drop(ctx context.Context, stream string) error {
	return s.do(ctx, func(ctx context.Context, c *redis.Client) error { return c.Del(ctx, s.key("log", stream)).Err() }, stream)
}

// A page is a part of a stream.
type page struct {
	found   bool   // whether the entry before the page is stored
	newest  uint64 // the newest entry of the stream, or 0
	entries []entry
}

// An entry is an entry of a stream with the one before it, or 0.
type entry struct {
	store.Entry
	previous uint64
}

// page reads entries of a stream.
func (s *Store) page(ctx context.Context, stream string, after uint64) (p page, err error) {
	if after == math.MaxUint64 {
		return p, s.do(ctx, func(context.Context, *redis.Client) error { return nil }, stream)
	}
	err = s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		reply, err := readScript.Run(ctx, c, []string{s.key("log", stream)},
			formatID(after+1), formatID(after), s.limits.LogAge.Milliseconds(), readChunk).Slice()
		if err != nil {
			return err
		}
		p, err = parsePage(reply)
		return err
	}, stream)
	return p, err
}

// parsePage returns the page of a reply of readScript.
func parsePage(reply []any) (p page, err error) {
	if len(reply) != 3 {
		return p, fmt.Errorf("%w: a reply has %d parts, expected 3", errFormat, len(reply))
	}
	found, _ := reply[0].(int64)
	newest, _ := reply[1].(string)
	entries, _ := reply[2].([]any)
	p.found = found > 0
	if p.newest, err = parseID(newest); err != nil {
		return p, err
	}
	for _, each := range entries {
		parts, _ := each.([]any)
		if len(parts) != 2 {
			return p, fmt.Errorf("%w: an entry has %d parts, expected 2", errFormat, len(parts))
		}
		text, _ := parts[0].(string)
		fields, _ := parts[1].([]any)
		if len(fields) != 4 {
			return p, fmt.Errorf("%w: an entry has %d fields and values, expected 4", errFormat, len(fields))
		}
		data, _ := fields[1].(string)
		previous, _ := fields[3].(string)
		var e entry
		if e.ID, err = parseID(text); err != nil {
			return p, err
		}
		if e.previous, err = parseID(previous); err != nil {
			return p, err
		}
		e.Data = []byte(data)
		p.entries = append(p.entries, e)
	}
	return p, nil
}

// Read implements [store.Log].
func (s *Store) Read(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for {
			p, err := s.page(ctx, stream, after)
			if err == nil && after > 0 && !p.found {
				err = store.ErrPurged
			}
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			for _, e := range p.entries {
				if err := s.ended(ctx); err != nil {
					yield(store.Entry{}, err)
					return
				}
				if !yield(e.Entry, nil) {
					return
				}
				after = e.ID
			}
			if len(p.entries) < readChunk {
				return
			}
		}
	}
}

// Follow implements [store.Log].
func (s *Store) Follow(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		f := &follower{wake: make(chan struct{}, 1), age: s.limits.LogAge, position: after}
		channel := s.key("log", stream)
		err := store.CheckName(stream)
		if err == nil {
			err = s.join(ctx, channel, f)
		}
		if err != nil {
			yield(store.Entry{}, err)
			return
		}
		defer s.hub.leave(ctx, channel, f)
		for first := true; ; {
			appended := f.firstAppended()
			p, err := s.page(ctx, stream, f.position)
			switch {
			case err != nil && (s.ended(ctx) != nil || !isTemporary(err)):
				yield(store.Entry{}, err)
				return
			case err != nil:
				if err := s.retry(ctx, nil, retryDelay); err != nil {
					yield(store.Entry{}, err)
					return
				}
				continue
			case first && after > 0 && !p.found, !first && f.misses(p, appended):
				yield(store.Entry{}, store.ErrPurged)
				return
			}
			for _, e := range p.entries {
				if err := s.ended(ctx); err != nil {
					yield(store.Entry{}, err)
					return
				}
				if !yield(e.Entry, nil) {
					return
				}
			}
			f.advance(p)
			first = false
			if len(p.entries) == readChunk {
				continue
			}
			if err := s.retry(ctx, f.wake, 0); err != nil {
				yield(store.Entry{}, err)
				return
			}
		}
	}
}

// A follower is one call of Follow.
type follower struct {
	wake chan struct{}
	age  time.Duration // of entries

	mu       sync.Mutex
	position uint64    // the last entry that has been yielded, or the newest one at the start
	appended uint64    // the first entry known to follow position, or 0
	latest   uint64    // the last entry known to exist
	lost     time.Time // entries since then may be unknown; zero if all are known
}

func (f *follower) message(payload string) {
	id, err := parseID(payload)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latest = id
	if id > f.position && f.appended == 0 {
		f.appended = id
	}
	signal(f.wake)
}

func (f *follower) interrupted(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost.IsZero() {
		f.lost = since
	}
	signal(f.wake)
}

// firstAppended returns the first entry known to follow position, or 0.
func (f *follower) firstAppended() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.appended
}

// misses reports whether entries between position and the entries of a page have been deleted. appended is what firstAppended
// returned before the page was read: an entry that was appended since then is in the next page.
func (f *follower) misses(p page, appended uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(p.entries) == 0 {
		return p.newest > f.position || p.newest == 0 && appended > 0
	}
	first := p.entries[0]
	if p.found || f.position > 0 && first.previous == f.position {
		return false
	}
	// The entry at position has expired with its stream, or has been dropped. The message of the first entry may come after
	// the page. An entry that was appended since the connection was lost has not reached its age if that is not long ago.
	expired := first.previous == 0 && (f.appended == first.ID || f.appended == 0 && (f.lost.IsZero() || time.Since(f.lost) < f.age))
	return !expired
}

// advance sets the position to the end of a page.
func (f *follower) advance(p page) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(p.entries); n > 0 {
		f.position = p.entries[n-1].ID
	} else if p.newest > 0 {
		f.position = p.newest
	}
	if f.appended <= f.position { // one that follows it is still the first
		f.appended = 0
		if f.latest > f.position {
			f.appended = f.latest
		}
	}
	if len(p.entries) < readChunk {
		f.lost = time.Time{}
	}
}
