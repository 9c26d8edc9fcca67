package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// deletionAge is how long the mark of a deleted key is stored, for watchers.
	deletionAge = time.Hour
	// heartbeat is the period in which the server says that it serves a consumer.
	heartbeat = 2 * time.Second
	// consumerAge is how long the server keeps the consumer of a watcher that has ended.
	consumerAge = time.Minute
	// valueSuffix ends the subject of each key.
	valueSuffix = ".value"
	// deleteTimeout bounds how long the end of Watch waits for the deletion of its consumer.
	deleteTimeout = time.Second
	// operationHeader is in the header of the mark of a deleted key.
	operationHeader = "KV-Operation"
	// applyTimeout bounds how long a change of a key waits until the leader of the stream has stored the revision that is
	// changed, and changePause is the time between two attempts.
	applyTimeout = time.Second
	changePause  = 2 * time.Millisecond
)

// errInterrupted means that messages of a consumer may have been lost.
var errInterrupted = errors.New("the server cannot be reached")

// errBusy means that nothing was written, because the servers are storing another value of the key.
var errBusy = errors.New("another value of the key is being stored")

// Get implements [store.KV].
func (s *Store) Get(ctx context.Context, key string) (store.Item, error) {
	if err := store.CheckName(key); err != nil {
		return store.Item{}, err
	}
	message, err := s.newest(ctx, key)
	if err != nil {
		return store.Item{}, err
	}
	if message == nil || isDeletion(message.Header) {
		return store.Item{}, store.ErrNotFound
	}
	return store.Item{Key: key, Value: message.Data, Revision: message.Sequence}, nil
}

// newest returns the message of a key, from the leader of the stream, or nil.
func (s *Store) newest(ctx context.Context, key string) (message *jetstream.RawStreamMsg, err error) {
	err = s.doStream(ctx, s.valueStream(), func(ctx context.Context) error {
		err = attempt(ctx, func(ctx context.Context) error {
			message, err = s.values.GetLastMsgForSubject(ctx, s.valueSubject(key))
			return err
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			err = nil
		}
		return err
	})
	return message, err
}

func isDeletion(header nats.Header) bool { return header.Get(operationHeader) != "" }

// Create implements [store.KV].
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	if err := checkValue(key, ttl); err != nil {
		return 0, err
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var deletion uint64
	for {
		revision, err := s.write(ctx, key, value, deletion, nats.Header{}, ttl)
		if !errors.Is(err, store.ErrConflict) && !s.isBusy(ctx, err) {
			return revision, err
		}
		message, err := s.newest(ctx, key)
		switch {
		case err != nil:
			return 0, err
		case message == nil:
			deletion = 0
		case isDeletion(message.Header):
			deletion = message.Sequence
		default:
			return 0, store.ErrExists
		}
	}
}

func checkValue(key string, ttl time.Duration) error {
	if ttl < 0 {
		return fmt.Errorf("nats: a time to live of %v, expected 0 or more", ttl)
	}
	return store.CheckName(key)
}

// Update implements [store.KV].
func (s *Store) Update(ctx context.Context, key string, value []byte, revision uint64, ttl time.Duration) (uint64, error) {
	if err := checkValue(key, ttl); err != nil {
		return 0, err
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	return s.replace(ctx, key, value, revision, nats.Header{}, ttl)
}

// replace stores the message of a key in place of the message with a revision, or returns ErrConflict.
func (s *Store) replace(ctx context.Context, key string, value []byte, revision uint64, header nats.Header, ttl time.Duration) (uint64, error) {
	for {
		if err := s.checkRevision(ctx, key, revision); err != nil {
			return 0, err
		}
		sequence, err := s.write(ctx, key, value, revision, header, ttl)
		if !s.isBusy(ctx, err) {
			return sequence, err
		}
	}
}

// isBusy reports whether a change is to be repeated because of errBusy, and waits before. If ctx ends, the next attempt
// returns its error.
func (s *Store) isBusy(ctx context.Context, err error) bool {
	busy := errors.Is(err, errBusy)
	if busy {
		wait(ctx, changePause)
	}
	return busy
}

// checkRevision returns ErrConflict unless a key has a value with a revision. The server compares the revision when it
// writes, but for the server the mark of a deletion is a value. In a cluster, the caller may know a revision, from
// another server, that the leader of the stream has yet to store.
func (s *Store) checkRevision(ctx context.Context, key string, revision uint64) error {
	began := time.Now()
	stored := false
	for {
		message, err := s.newest(ctx, key)
		switch {
		case err != nil:
			return err
		case message != nil && message.Sequence == revision && !isDeletion(message.Header):
			return nil
		case stored || message != nil && message.Sequence >= revision || time.Since(began) > applyTimeout:
			return store.ErrConflict
		}
		if stored, err = s.hasStored(ctx, revision); err != nil {
			return err
		}
		if !stored {
			wait(ctx, changePause)
		}
	}
}

// hasStored reports whether the leader of the stream has stored the message with a sequence number.
func (s *Store) hasStored(ctx context.Context, sequence uint64) (stored bool, err error) {
	err = s.doStream(ctx, s.valueStream(), func(ctx context.Context) error {
		return attempt(ctx, func(ctx context.Context) error {
			stream, err := s.js.Stream(ctx, s.valueStream())
			if err == nil {
				stored = stream.CachedInfo().State.LastSeq >= sequence
			}
			return err
		})
	})
	return stored, err
}

// Delete implements [store.KV].
func (s *Store) Delete(ctx context.Context, key string, revision uint64) error {
	if err := store.CheckName(key); err != nil {
		return err
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	header := nats.Header{operationHeader: {"PURGE"}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}}
	if revision != 0 {
		_, err := s.replace(ctx, key, nil, revision, header, deletionAge)
		return err
	}
	for {
		item, err := s.Get(ctx, key)
		if err == nil {
			_, err = s.write(ctx, key, nil, item.Revision, header, deletionAge)
		}
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case !errors.Is(err, store.ErrConflict) && !s.isBusy(ctx, err):
			return err
		}
	}
}

// write stores the message of a key if the one before has the sequence number last. With 0
// there must be none.
func (s *Store) write(ctx context.Context, key string, value []byte, last uint64, header nats.Header, ttl time.Duration) (sequence uint64, err error) {
	header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	if ttl > 0 {
		seconds := (ttl + time.Second - 1) / time.Second
		header.Set(jetstream.MsgTTLHeader, strconv.FormatInt(int64(seconds), 10))
	}
	sequence, err = s.publish(ctx, s.valueStream(), &nats.Msg{Subject: s.valueSubject(key), Header: header, Data: value})
	switch codeOf(err) {
	case codeWrongLast:
		err = store.ErrConflict
	case codeBusy:
		err = errBusy
	}
	return sequence, err
}

// publish stores a message in a stream.
func (s *Store) publish(ctx context.Context, stream string, message *nats.Msg) (sequence uint64, err error) {
	err = s.doStream(ctx, stream, func(ctx context.Context) error {
		ack, err := s.js.PublishMsg(ctx, message, jetstream.WithRetryAttempts(0)) // do repeats
		if err == nil {
			sequence = ack.Sequence
		}
		return err
	})
	return sequence, err
}

// Watch implements [store.KV]. It ends with an error if the server could not be reached for
// more than an hour, because deletions may have been missed.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		running, cancel := s.until(ctx)
		defer cancel()
		if err := s.watch(running, prefix, yield); err != nil && !errors.Is(err, errStopped) {
			yield(store.Item{}, cmp.Or(s.failureOf(ctx), err))
		}
	}
}

// errStopped means that the receiver of a sequence wants no more.
var errStopped = errors.New("stopped")

func (s *Store) watch(ctx context.Context, prefix string, yield func(store.Item, error) bool) error {
	if err := store.CheckName(prefix); err != nil {
		return err
	}
	var start uint64 // deletions before are no changes
	if err := s.await(ctx, s.valueStream(), func(ctx context.Context) error {
		info, err := s.values.Info(ctx)
		if err == nil {
			start = info.State.LastSeq
		}
		return err
	}); err != nil {
		return err
	}
	var seen uint64
	gaps := s.countGaps()
	interrupted := time.Now()
	for first := true; ; first = false {
		// The number of reconnections comes before the consumer, so that no reconnection is overlooked.
		epoch := s.currentEpoch()
		consumer, err := s.valueConsumer(ctx, prefix, seen+1)
		if err == nil {
			first = false
			if gaps != s.countGaps() {
				return fmt.Errorf("nats: %w for more than %v", errInterrupted, deletionAge)
			}
			err = changes(ctx, epoch, consumer, func(message jetstream.Msg, sequence uint64) bool {
				seen = sequence
				item := store.Item{Key: s.keyOf(message.Subject()), Value: message.Data(), Revision: sequence, Deleted: isDeletion(message.Headers())}
				return item.Deleted && sequence <= start || yield(item, nil)
			})
			interrupted = time.Now()
			s.deleteConsumer(consumer)
		}
		if first && !isTemporary(err) || errors.Is(err, errStopped) || time.Since(interrupted) >= deletionAge || !wait(ctx, retryPause) {
			return err
		}
	}
}

func (s *Store) keyOf(subject string) string {
	key := strings.TrimPrefix(strings.TrimSuffix(subject, valueSuffix), "$KV."+s.prefix+".")
	return strings.ReplaceAll(key, ".", "/")
}

// valueConsumer creates a consumer of the changes of keys. As there is one message for each
// key, the first ones are the values.
func (s *Store) valueConsumer(ctx context.Context, prefix string, start uint64) (consumer jetstream.Consumer, err error) {
	err = s.doStream(ctx, s.valueStream(), func(ctx context.Context) error {
		consumer, err = s.js.CreateConsumer(ctx, s.valueStream(), jetstream.ConsumerConfig{
			FilterSubject:     s.valuesBelow(prefix),
			DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
			OptStartSeq:       start,
			AckPolicy:         jetstream.AckNonePolicy,
			MemoryStorage:     true,
			Replicas:          1,
			InactiveThreshold: consumerAge,
		})
		return err
	})
	return consumer, err
}

// deleteConsumer deletes a consumer. If that fails, the server keeps it for consumerAge.
func (s *Store) deleteConsumer(consumer jetstream.Consumer) {
	if s.reachable() != nil {
		return // it would only delay the end of Watch
	}
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	_ = s.js.DeleteConsumer(ctx, s.valueStream(), consumer.CachedInfo().Name)
}

// changes calls do for the messages of a new consumer, until it returns false, ctx or epoch
// ends, or a message may have been lost.
func changes(ctx, epoch context.Context, consumer jetstream.Consumer, do func(message jetstream.Msg, sequence uint64) bool) error {
	messages, err := consumer.Messages(jetstream.PullMaxMessages(64), jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return err
	}
	defer messages.Stop()
	ctx, cancel := either(ctx, epoch)
	defer cancel()
	for n := uint64(1); ; n++ {
		message, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		data, err := message.Metadata()
		if err != nil {
			return err
		}
		if data.Sequence.Consumer != n {
			return errInterrupted
		}
		if !do(message, data.Sequence.Stream) {
			return errStopped
		}
	}
}
