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

// doStream runs an operation on the streams, as do does. It first creates streams that the server has lost.
func (s *Store) doStream(ctx context.Context, operation func(context.Context) error) error {
	return s.do(ctx, func(ctx context.Context) error {
		if err := s.prepare(ctx); err != nil {
			return err
		}
		err := operation(ctx)
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || codeOf(err) == jetstream.JSErrCodeStreamNotFound {
			s.ready.Store(false) // perhaps a stream has been lost
		}
		return err
	})
}

// await is like doStream, but repeats the operation as long as the server cannot be reached.
func (s *Store) await(ctx context.Context, operation func(context.Context) error) error {
	for {
		err := s.doStream(ctx, operation)
		if !isTemporary(err) || !wait(ctx, retryPause) {
			return err
		}
	}
}

// prepare looks up the streams, and creates those that the server does not have. The first time, it also updates those with
// other options, and waits until all servers know the subscription of this store, which the settle of others needs.
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
	if s.ready.Load() { // another operation has prepared it
		return nil
	}
	joined := s.joined.Load()
	for _, stream := range []struct {
		name   string
		set    func(*jetstream.StreamConfig)
		handle *jetstream.Stream
	}{
		{s.valueStream(), s.setValues, &s.values},
		{s.logStream(), s.setLog, &s.log},
		{s.queueStream(), s.setQueue, new(jetstream.Stream)},
	} {
		if err := attempt(ctx, func(ctx context.Context) error {
			found, err := s.stream(ctx, stream.name, stream.set, !joined)
			if err == nil && !joined { // a handle stays valid
				*stream.handle = found
			}
			return err
		}); err != nil {
			return fmt.Errorf("the stream %s: %w", stream.name, err)
		}
	}
	if !joined {
		if err := s.settleOnce(ctx); err != nil {
			return err
		}
		s.joined.Store(true)
	}
	s.ready.Store(true)
	return nil
}

// stream returns a stream, which it creates if the server does not have it. A stream with the same options is not updated:
// that would cost a cluster an agreement of its servers for each store that connects.
func (s *Store) stream(ctx context.Context, name string, set func(*jetstream.StreamConfig), update bool) (jetstream.Stream, error) {
	found, err := s.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		// The ids and revisions of a stream that has been lost are not used again: a stream never stores
		// more than one message per microsecond.
		config := jetstream.StreamConfig{Name: name, FirstSeq: uint64(time.Now().UnixMicro())}
		set(&config)
		return s.js.CreateStream(ctx, config)
	}
	if err != nil || !update {
		return found, err
	}
	config := found.CachedInfo().Config
	set(&config)
	if reflect.DeepEqual(config, found.CachedInfo().Config) {
		return found, nil
	}
	return s.js.UpdateStream(ctx, config)
}

func (s *Store) setValues(c *jetstream.StreamConfig) {
	// As for a bucket of values, so that the tools for buckets know it.
	c.Subjects = []string{s.valuesBelow("")}
	c.Replicas = s.replicas
	c.MaxMsgsPerSubject = 1
	c.Discard = jetstream.DiscardNew
	c.DenyDelete = true
	c.AllowRollup = true
	c.AllowMsgTTL = true
	// Faster, but another server than the leader may return a value that has been changed.
	c.AllowDirect = s.replicas == 1
}

func (s *Store) setLog(c *jetstream.StreamConfig) {
	c.Subjects = []string{s.logSubject(">")}
	c.Replicas = s.replicas
	c.MaxAge = s.limits.LogAge
	c.MaxBytes = s.limits.LogBytes
	c.MaxMsgsPerSubject = int64(s.limits.LogEntries)
	c.Discard = jetstream.DiscardOld
	c.Duplicates = min(s.limits.LogAge, store.DuplicateWindow)
	c.AllowDirect = true
	c.RePublish = &jetstream.RePublish{Source: s.logSubject(">"), Destination: s.liveSubject(">")}
}

func (s *Store) setQueue(c *jetstream.StreamConfig) {
	c.Subjects = []string{s.queueSubject(">")}
	c.Replicas = s.replicas
	c.Retention = jetstream.WorkQueuePolicy
	c.Discard = jetstream.DiscardNew
	c.Duplicates = store.DuplicateWindow
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
