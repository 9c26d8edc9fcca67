package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// pageEntries and pageBytes bound the entries that are read with one request.
	pageEntries = 128
	pageBytes   = 1 << 20
	// liveEntries is the number of entries that wait for a follower. It reads further ones
	// from the log.
	liveEntries = 16
	// A follower looks for entries of which it has not been told, because the leader of the
	// stream failed after it stored them, or did not know of the follower yet. firstCheck is
	// the first interval, which doubles up to checkInterval.
	firstCheck    = 250 * time.Millisecond
	checkInterval = 10 * time.Second
	// laggingPause is the time between two attempts to read entries from a server of a
	// cluster that does not have them yet.
	laggingPause = 5 * time.Millisecond
)

// Append implements [store.Log].
func (s *Store) Append(ctx context.Context, stream string, data []byte) (uint64, error) {
	if err := store.CheckName(stream); err != nil {
		return 0, err
	}
	return s.publish(ctx, s.logStream(), &nats.Msg{Subject: s.logSubject(stream), Data: data})
}

// Drop implements [store.Log].
func (s *Store) Drop(ctx context.Context, stream string) error {
	if err := store.CheckName(stream); err != nil {
		return err
	}
	return s.doStream(ctx, s.logStream(), func(ctx context.Context) error {
		return s.log.Purge(ctx, jetstream.WithPurgeSubject(s.logSubject(stream)))
	})
}

// Read implements [store.Log].
func (s *Store) Read(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		err := store.CheckName(stream)
		if err == nil {
			err = s.read(ctx, stream, &after, false, yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(store.Entry{}, err)
		}
	}
}

// read yields the entries after the one with the id *after, up to the newest, and sets *after
// to the last one. At the end of the stream, a follower needs no entry with that id.
func (s *Store) read(ctx context.Context, stream string, after *uint64, follower bool, yield func(store.Entry, error) bool) error {
	end, err := s.lastID(ctx, stream)
	if err != nil {
		return err
	}
	if end < *after && !follower {
		return store.ErrPurged
	}
	var first uint64
	if *after < end {
		// Any server of a cluster may send the pages. It may still have entries that the leader has deleted.
		if first, err = s.firstID(ctx, stream, max(*after, 1)); err != nil {
			return err
		}
		if *after > 0 && first != *after {
			return store.ErrPurged
		}
	}
	progress := time.Now()
	for *after < end {
		entries, err := s.page(ctx, stream, max(*after, first, 1))
		if err != nil {
			return err
		}
		if *after > 0 && len(entries) > 0 {
			// A page begins with the last entry that has been yielded. If that has been
			// deleted, others after it may have been deleted too.
			if entries[0].ID != *after {
				return store.ErrPurged
			}
			entries = entries[1:]
		}
		for _, entry := range entries {
			if err := s.failureOf(ctx); err != nil {
				return err
			}
			*after = entry.ID
			progress = time.Now()
			if !yield(entry, nil) {
				return errStopped
			}
		}
		if len(entries) > 0 {
			continue
		}
		// Either the server that answered does not have the entries yet, or they have been
		// deleted.
		if time.Since(progress) > s.timeout {
			return fmt.Errorf("nats: entries after %d are not available within %v", *after, s.timeout)
		}
		if !wait(ctx, laggingPause) {
			return s.failure(ctx, ctx.Err())
		}
		if end, err = s.lastID(ctx, stream); err != nil {
			return err
		}
		if end <= *after && *after > 0 {
			return store.ErrPurged
		}
	}
	return s.failureOf(ctx)
}

// failureOf returns the error of iterations whose context has ended.
func (s *Store) failureOf(ctx context.Context) error {
	if ctx.Err() != nil || s.life.Err() != nil {
		return s.failure(ctx, context.Canceled)
	}
	return nil
}

// lastID returns the id of the newest entry of a stream, from the leader of the log, or 0.
func (s *Store) lastID(ctx context.Context, stream string) (uint64, error) {
	return s.leaderID(ctx, map[string]any{"last_by_subj": s.logSubject(stream)})
}

// firstID returns the id of the oldest entry of a stream whose id is at least start, from the
// leader of the log, or 0.
func (s *Store) firstID(ctx context.Context, stream string, start uint64) (uint64, error) {
	return s.leaderID(ctx, map[string]any{"seq": start, "next_by_subj": s.logSubject(stream)})
}

// leaderID returns the id of the entry that is requested from the leader of the log, or 0.
func (s *Store) leaderID(ctx context.Context, request map[string]any) (uint64, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	var id uint64
	err = s.doStream(ctx, s.logStream(), func(ctx context.Context) error {
		var message *nats.Msg
		err := attempt(ctx, func(ctx context.Context) (err error) {
			message, err = s.conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+s.logStream(), data)
			return err
		})
		if err != nil {
			return err
		}
		var answer struct {
			Error   *jetstream.APIError `json:"error"`
			Message struct {
				Sequence uint64 `json:"seq"`
			} `json:"message"`
		}
		if err := json.Unmarshal(message.Data, &answer); err != nil {
			return err
		}
		if answer.Error != nil && answer.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
			return answer.Error
		}
		id = answer.Message.Sequence
		return nil
	})
	return id, err
}

// A pageRequest is a request of stored messages, from any server that has the stream (NATS
// ADR-31).
type pageRequest struct {
	Start    uint64 `json:"seq"`
	Subject  string `json:"next_by_subj"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

func (s *Store) directSubject() string { return "$JS.API.DIRECT.GET." + s.logStream() }

// page returns some entries of a stream, beginning with the id start.
func (s *Store) page(ctx context.Context, stream string, start uint64) (entries []store.Entry, err error) {
	request, err := json.Marshal(pageRequest{start, s.logSubject(stream), pageEntries, pageBytes})
	if err != nil {
		return nil, err
	}
	err = s.doStream(ctx, s.logStream(), func(ctx context.Context) error {
		entries = nil
		inbox := s.conn.NewInbox()
		answers := make(chan *nats.Msg, pageEntries+1)
		subscription, err := s.conn.ChanSubscribe(inbox, answers)
		if err != nil {
			return err
		}
		defer func() { _ = subscription.Unsubscribe() }() // fails only if the connection is closed
		if err := s.conn.PublishRequest(s.directSubject(), inbox, request); err != nil {
			return err
		}
		for {
			select {
			case answer := <-answers:
				switch status := answer.Header.Get("Status"); status {
				case "":
					id, err := sequenceOf(answer, jetstream.SequenceHeader)
					if err != nil {
						return err
					}
					entries = append(entries, store.Entry{ID: id, Data: answer.Data})
				case "204", "404": // the end, or no entry
					return nil
				case "503":
					return nats.ErrNoResponders
				default:
					return fmt.Errorf("the server answers %s %s", status, answer.Header.Get("Description"))
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return entries, err
}

// nextID returns the id of the first entry after the one with an id, or 0. In a cluster, the server that answers may
// not have the newest entry yet.
func (s *Store) nextID(ctx context.Context, stream string, after uint64) (id uint64, err error) {
	request, err := json.Marshal(pageRequest{Start: after + 1, Subject: s.logSubject(stream)})
	if err != nil {
		return 0, err
	}
	err = s.doStream(ctx, s.logStream(), func(ctx context.Context) error {
		answer, err := s.conn.RequestWithContext(ctx, s.directSubject(), request)
		if err == nil && answer.Header.Get("Status") == "" {
			id, err = sequenceOf(answer, jetstream.SequenceHeader)
		}
		return err
	})
	return id, err
}

func sequenceOf(message *nats.Msg, header string) (uint64, error) {
	return strconv.ParseUint(message.Header.Get(header), 10, 64)
}

// Follow implements [store.Log].
func (s *Store) Follow(ctx context.Context, stream string, after uint64) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		running, cancel := s.until(ctx)
		defer cancel()
		err := store.CheckName(stream)
		if err == nil {
			f := follower{s: s, stream: stream, last: after, yield: yield}
			err = f.run(running)
		}
		switch {
		case errors.Is(err, errStopped):
		case s.failureOf(ctx) != nil:
			yield(store.Entry{}, s.failureOf(ctx))
		default:
			yield(store.Entry{}, err)
		}
	}
}

// A follower yields the entries of a stream: first the stored entries, then the entries that the leader of the stream
// sends to its subscribers. A sent entry has the id of the entry before, so that the follower finds out whether it must
// read from the log again.
type follower struct {
	s          *Store
	stream     string
	last       uint64 // the id of the last entry
	yield      func(store.Entry, error) bool
	live       chan *nats.Msg
	lost       int    // messages that were lost because live was full
	reconnects uint64 // of the connection, when the follower read from the log
	suspect    uint64 // the id of an entry of which the follower has not been told
}

func (f *follower) run(ctx context.Context) error {
	f.live = make(chan *nats.Msg, liveEntries)
	subscription, err := f.s.conn.ChanSubscribe(f.s.liveSubject(f.stream), f.live)
	if err != nil {
		return f.s.failure(ctx, err)
	}
	defer func() { _ = subscription.Unsubscribe() }() // fails only if the connection is closed

	interval := firstCheck
	check := time.NewTimer(interval)
	defer check.Stop()
	epoch := f.s.currentEpoch()
	for behind, again := true, false; ; {
		for behind {
			// It waits for the server as long as it takes.
			err := f.catchUp(ctx, again)
			if err == nil {
				again = true
				break
			}
			if errors.Is(err, errStopped) || errors.Is(err, store.ErrPurged) || !again && !isTemporary(err) || !wait(ctx, retryPause) {
				return err
			}
		}
		select {
		case message := <-f.live:
			if behind, err = f.take(message); err != nil {
				return err
			}
		case <-epoch.Done():
			epoch, behind, interval = f.s.currentEpoch(), true, firstCheck
		case <-check.C:
			behind = f.check(ctx)
			interval = min(2*interval, checkInterval)
		case <-ctx.Done():
			return ctx.Err()
		}
		check.Reset(interval)
		if lost, err := subscription.Dropped(); err == nil && lost != f.lost {
			f.lost, behind = lost, true
		}
	}
}

// catchUp yields the entries that are stored.
func (f *follower) catchUp(ctx context.Context, again bool) error {
	f.suspect, f.reconnects = 0, f.s.reconnects()
	return f.s.read(ctx, f.stream, &f.last, again, f.yield)
}

// take yields an entry, and reports whether others may be missing before it.
func (f *follower) take(message *nats.Msg) (behind bool, err error) {
	id, err := sequenceOf(message, jetstream.SequenceHeader)
	if err != nil {
		return false, err
	}
	before, err := sequenceOf(message, jetstream.LastSequenceHeader)
	if err != nil {
		return false, err
	}
	switch {
	case id <= f.last:
		return false, nil
	case before == f.last, before == 0 && f.reconnects == f.s.reconnects(): // 0: all others have been deleted
		f.last = id
		if !f.yield(store.Entry{ID: id, Data: message.Data}, nil) {
			return false, errStopped
		}
		return false, nil
	}
	return true, nil
}

// check reports whether there has been an entry after the last one since the check before.
func (f *follower) check(ctx context.Context) (behind bool) {
	if f.suspect > f.last {
		return true
	}
	id, err := f.s.nextID(ctx, f.stream, f.last)
	if err == nil {
		f.suspect = id
	}
	return false // perhaps it is on its way to live
}
