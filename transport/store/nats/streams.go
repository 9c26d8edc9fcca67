package nats

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dovetail-go/dovetail/transport/store"
)

// doStream runs an operation on a stream, as do does. If the server has lost the stream, doStream creates it again.
func (s *Store) doStream(ctx context.Context, name string, operation func(context.Context) error) error {
	return s.do(ctx, func(ctx context.Context) error {
		err := operation(ctx)
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || codeOf(err) == jetstream.JSErrCodeStreamNotFound {
			if _, failed := s.findOrCreate(ctx, name); failed != nil {
				return failed
			}
		}
		return err
	})
}

// await is like doStream, but repeats the operation as long as the server cannot be reached.
func (s *Store) await(ctx context.Context, name string, operation func(context.Context) error) error {
	for {
		err := s.doStream(ctx, name, operation)
		if !isTemporary(err) || !wait(ctx, retryPause) {
			return err
		}
	}
}

// join creates the streams that the server does not have, and updates streams with other options. Then it waits until
// all servers know the subscription of this store, because settle of other stores needs the subscription. join does so
// once.
func (s *Store) join(ctx context.Context) error {
	select {
	case s.joining <- struct{}{}:
		defer func() { <-s.joining }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.joined.Load() { // for another operation
		return nil
	}
	var queue jetstream.Stream
	for name, handle := range map[string]*jetstream.Stream{s.valueStream(): &s.values, s.logStream(): &s.log, s.queueStream(): &queue} {
		stream, err := s.findOrCreate(ctx, name)
		if err != nil {
			return err
		}
		config := stream.CachedInfo().Config
		s.configure(&config)
		// An update costs a cluster an agreement of its servers.
		if !reflect.DeepEqual(config, stream.CachedInfo().Config) {
			if err := attempt(ctx, func(ctx context.Context) (err error) {
				stream, err = s.js.UpdateStream(ctx, config)
				return err
			}); err != nil {
				return fmt.Errorf("updating the stream %s: %w", name, err)
			}
		}
		*handle = stream
	}
	if err := s.settleOnce(ctx); err != nil {
		return err
	}
	s.joined.Store(true)
	return nil
}

// findOrCreate returns a stream, which it creates if the server does not have it.
func (s *Store) findOrCreate(ctx context.Context, name string) (stream jetstream.Stream, err error) {
	err = attempt(ctx, func(ctx context.Context) error {
		stream, err = s.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			// The ids and revisions of a stream that has been lost are not used again: a stream never stores
			// more than one message per microsecond.
			config := jetstream.StreamConfig{Name: name, FirstSeq: uint64(time.Now().UnixMicro())}
			s.configure(&config)
			stream, err = s.js.CreateStream(ctx, config)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("creating the stream %s: %w", name, err)
	}
	return stream, err
}

// configure sets the options of a stream.
func (s *Store) configure(c *jetstream.StreamConfig) {
	c.Replicas = s.replicas
	switch c.Name {
	case s.valueStream():
		// As for a bucket of values, so that the tools for buckets know it.
		c.Subjects = []string{s.valuesBelow("")}
		c.MaxMsgsPerSubject = 1
		c.Discard = jetstream.DiscardNew
		c.DenyDelete = true
		c.AllowRollup = true
		c.AllowMsgTTL = true
		// Faster, but another server than the leader may return a value that has been changed.
		c.AllowDirect = s.replicas == 1
	case s.logStream():
		c.Subjects = []string{s.logSubject(">")}
		c.MaxAge = s.limits.LogAge
		c.MaxBytes = s.limits.LogBytes
		c.MaxMsgsPerSubject = int64(s.limits.LogEntries)
		c.Discard = jetstream.DiscardOld
		c.Duplicates = min(s.limits.LogAge, store.DuplicateWindow)
		c.AllowDirect = true
		c.RePublish = &jetstream.RePublish{Source: s.logSubject(">"), Destination: s.liveSubject(">")}
	case s.queueStream():
		c.Subjects = []string{s.queueSubject(">")}
		c.Retention = jetstream.WorkQueuePolicy
		c.Discard = jetstream.DiscardNew
		c.Duplicates = store.DuplicateWindow
	}
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
