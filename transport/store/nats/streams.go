package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dovetail-go/dovetail/transport/store"
)

// withStreams runs an operation on the streams, as do does. It creates them first if the server does
// not have them.
func (s *Store) withStreams(ctx context.Context, operation func(context.Context) error) error {
	return s.do(ctx, func(ctx context.Context) error {
		if err := s.prepare(ctx); err != nil {
			return err
		}
		err := operation(ctx)
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || codeOf(err) == jetstream.JSErrCodeStreamNotFound {
			s.ready.Store(false) // perhaps the stream has been lost
		}
		return err
	})
}

// await is like withStreams, but waits for the server as long as it cannot be reached.
func (s *Store) await(ctx context.Context, operation func(context.Context) error) error {
	for {
		err := s.withStreams(ctx, operation)
		if !isRepeatable(err) && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if !wait(ctx, retryPause) {
			return s.failure(ctx, err)
		}
	}
}

// prepare makes the server have the streams. Later operations need it again if they do not find one.
func (s *Store) prepare(ctx context.Context) error {
	if s.ready.Load() {
		return nil
	}
	select {
	case s.preparing <- struct{}{}:
		defer func() { <-s.preparing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.ready.Load() { // by another operation
		return nil
	}
	for _, config := range s.streams() {
		if err := attempt(ctx, func(ctx context.Context) error { return s.createStream(ctx, config) }); err != nil {
			return fmt.Errorf("creating the stream %s: %w", config.Name, err)
		}
	}
	s.updated = true
	s.ready.Store(true)
	return nil
}

// createStream creates a stream, or updates it if this has not been done yet: the options may have
// changed.
func (s *Store) createStream(ctx context.Context, config jetstream.StreamConfig) error {
	stream, err := s.js.Stream(ctx, config.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		// Sequence numbers are greater than those of a stream that has been lost, so that its ids,
		// revisions and acknowledgements do not concern the new one. A stream never stores more than one
		// message per microsecond.
		config.FirstSeq = uint64(time.Now().UnixMicro())
		stream, err = s.js.CreateStream(ctx, config)
	case err == nil && !s.updated:
		config.FirstSeq = stream.CachedInfo().Config.FirstSeq
		stream, err = s.js.UpdateStream(ctx, config)
	}
	if err != nil || s.updated {
		return err
	}
	switch config.Name {
	case s.valueStream():
		s.values = stream
	case s.logStream():
		s.log = stream
	}
	return nil
}

// streams returns the configurations of the streams.
func (s *Store) streams() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			// As for a bucket of values, so that the tools for buckets know it.
			Name:              s.valueStream(),
			Subjects:          []string{s.valuesBelow("")},
			Replicas:          s.replicas,
			MaxMsgsPerSubject: 1,
			Discard:           jetstream.DiscardNew,
			DenyDelete:        true,
			AllowRollup:       true,
			AllowMsgTTL:       true,
			// Faster, but another server than the leader may return a value that has been changed.
			AllowDirect: s.replicas == 1,
		},
		{
			Name:              s.logStream(),
			Subjects:          []string{s.logSubject(">")},
			Replicas:          s.replicas,
			MaxAge:            s.limits.LogAge,
			MaxBytes:          s.limits.LogBytes,
			MaxMsgsPerSubject: int64(s.limits.LogEntries),
			Discard:           jetstream.DiscardOld,
			Duplicates:        min(s.limits.LogAge, store.DuplicateWindow),
			AllowDirect:       true,
			RePublish:         &jetstream.RePublish{Source: s.logSubject(">"), Destination: s.liveSubject(">")},
		},
		{
			Name:       s.queueStream(),
			Subjects:   []string{s.queueSubject(">")},
			Replicas:   s.replicas,
			Retention:  jetstream.WorkQueuePolicy,
			Discard:    jetstream.DiscardNew,
			Duplicates: store.DuplicateWindow,
		},
	}
}

// isAfter reports whether a stream was created after the message with a sequence number was stored: its
// other messages have been lost.
func isAfter(stream *jetstream.StreamInfo, sequence uint64) bool {
	return stream.Config.FirstSeq > sequence+1
}

// Names of JetStream have segments that are separated by dots.

func (s *Store) valueStream() string { return "KV_" + s.prefix }
func (s *Store) logStream() string   { return s.prefix + "-log" }
func (s *Store) queueStream() string { return s.prefix + "-queue" }

// valuesBelow returns the subjects of the keys that begin with the segments of prefix.
func (s *Store) valuesBelow(prefix string) string {
	if prefix != "" {
		prefix = dotted(prefix) + "."
	}
	return "$KV." + s.prefix + "." + prefix + ">"
}

// valueSubject returns the subject of a key. It ends with one more segment, so that one filter finds a key and all keys that
// begin with it. The server is slow with several filters.
func (s *Store) valueSubject(key string) string {
	return "$KV." + s.prefix + "." + dotted(key) + valueSuffix
}

func (s *Store) logSubject(stream string) string  { return s.prefix + ".log." + dotted(stream) }
func (s *Store) liveSubject(stream string) string { return s.prefix + ".live." + dotted(stream) }
func (s *Store) queueSubject(queue string) string { return s.prefix + ".queue." + dotted(queue) }
func (s *Store) storesSubject() string            { return s.prefix + ".stores" }
func (s *Store) busSubject(subject string) string { return s.prefix + ".bus." + dotted(subject) }

func dotted(name string) string { return strings.ReplaceAll(name, "/", ".") }
