package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/store"
)

// ownKeys are the keys of Options.StateKeys, or a random key of this process.
type ownKeys struct{ *token.Ring }

func (k ownKeys) Seal(_ context.Context, plaintext, binding []byte, expires time.Time) (string, error) {
	return k.Ring.Seal(plaintext, binding, expires)
}

func (k ownKeys) Open(_ context.Context, text string, binding []byte, now time.Time) ([]byte, error) {
	return k.Ring.Open(text, binding, now)
}

const (
	stateKeysKey = "server/state-keys"
	// keysRotation is how long a key seals.
	keysRotation = 24 * time.Hour
	// keysDelay is how long all replicas know a key before one of them seals with it. It is longer
	// than keysAge.
	keysDelay = time.Minute
	// keysAge is how old the keys that a replica knows may be when it seals.
	keysAge = 30 * time.Second
	// keysRetry is the pause after a failure, and after a token that does not open.
	keysRetry = time.Second
	// keysTimeout bounds reading and changing the keys.
	keysTimeout = 2 * time.Second
)

// sharedKeys are keys that the replicas of the server create and change in the store. They are read
// when a call asks. While the store cannot be reached, the known keys are used.
type sharedKeys struct {
	store  store.KV
	logger *slog.Logger
	known  atomic.Pointer[keySet] // nil before the first time

	turn    chan struct{} // has a value while a call reads the store, which guards the rest
	tried   time.Time     // when the store was last read, or could not be
	failure error         // of the last time
}

func newSharedKeys(kv store.KV, logger *slog.Logger) *sharedKeys {
	return &sharedKeys{store: kv, logger: logger, turn: make(chan struct{}, 1)}
}

// A keySet is the record of the keys, and what is derived from it. It is immutable.
type keySet struct {
	Keys []stateKey `json:"keys"` // oldest first

	rings []*token.Ring // each seals with the key of the same index; all keys open
	read  time.Time
}

// A stateKey seals from a time until that of the next key.
type stateKey struct {
	Key  []byte    `json:"key"`
	From time.Time `json:"from"`
}

func newStateKey(from time.Time) stateKey {
	key := make([]byte, token.MinKey)
	rand.Read(key) // never fails
	return stateKey{key, from}
}

var errNoStateKeys = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the state keys of the server cannot be read from its store, so the call cannot ask; try again later"}

// Seal implements [era.StateKeys].
func (k *sharedKeys) Seal(ctx context.Context, plaintext, binding []byte, expires time.Time) (string, error) {
	set, err := k.current(ctx)
	if err != nil {
		return "", err
	}
	return set.rings[set.sealing(time.Now())].Seal(plaintext, binding, expires)
}

// Open implements [era.StateKeys]. A token that does not open may have a key that is newer than the
// known ones.
func (k *sharedKeys) Open(ctx context.Context, text string, binding []byte, now time.Time) ([]byte, error) {
	set, err := k.current(ctx)
	if err != nil {
		return nil, err
	}
	plaintext, err := set.rings[0].Open(text, binding, now)
	if !errors.Is(err, token.ErrForged) {
		return plaintext, err
	}
	if err := k.lock(ctx); err != nil {
		return nil, err
	}
	newer, err := k.read(ctx, keysRetry)
	k.unlock()
	if err != nil {
		return nil, err
	}
	return newer.rings[0].Open(text, binding, now)
}

// current returns the keys. If they are old, one call reads them again; others use the known ones,
// and so does this one if that fails.
func (k *sharedKeys) current(ctx context.Context) (*keySet, error) {
	set := k.known.Load()
	if set == nil {
		if err := k.lock(ctx); err != nil {
			return nil, err
		}
		defer k.unlock()
		if set := k.known.Load(); set != nil {
			return set, nil
		}
		return k.read(ctx, keysRetry)
	}
	if time.Since(set.read) < keysAge {
		return set, nil
	}
	select {
	case k.turn <- struct{}{}:
		defer k.unlock()
	default:
		return set, nil
	}
	if newer, err := k.read(ctx, keysAge); err == nil {
		return newer, nil
	}
	return set, nil
}

func (k *sharedKeys) lock(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *sharedKeys) unlock() { <-k.turn }

// read reads the keys from the store, unless that was done or failed within an interval. The turn
// must be held. The error is for the client.
func (k *sharedKeys) read(ctx context.Context, interval time.Duration) (*keySet, error) {
	if !k.tried.IsZero() && time.Since(k.tried) < interval {
		return k.known.Load(), k.failure
	}
	reading, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	set, err := k.load(reading)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx) // the store may be well
	}
	k.tried, k.failure = time.Now(), nil
	if err != nil {
		k.logger.Error("the state keys cannot be read from the store", "error", err)
		k.failure = errNoStateKeys
		return nil, k.failure
	}
	set.read = k.tried
	k.known.Store(set)
	return set, nil
}

// maxLoads is how often a replica may find that others have changed the keys at the same time.
const maxLoads = 8

// load reads the keys. It creates them if there are none, and changes them when it is time.
func (k *sharedKeys) load(ctx context.Context) (*keySet, error) {
	for range maxLoads {
		item, err := k.store.Get(ctx, stateKeysKey)
		if errors.Is(err, store.ErrNotFound) {
			set := k.known.Load() // the store has lost its data
			if set == nil {
				set = &keySet{Keys: []stateKey{newStateKey(time.Now())}}
			}
			_, err := k.store.Create(ctx, stateKeysKey, set.encode(), 0)
			if errors.Is(err, store.ErrExists) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("creating %s: %w", stateKeysKey, err)
			}
			return set.derive()
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", stateKeysKey, err)
		}
		set, err := decodeKeys(item.Value)
		if err != nil {
			return nil, fmt.Errorf("%s is malformed: %w", stateKeysKey, err)
		}
		next := set.rotate(time.Now())
		if next == nil {
			return set, nil
		}
		_, err = k.store.Update(ctx, stateKeysKey, next.encode(), item.Revision, 0)
		switch {
		case err == nil:
			return next.derive()
		case !errors.Is(err, store.ErrConflict):
			k.logger.Warn("the state keys cannot be changed in the store; the earlier ones are used", "error", err)
			return set, nil
		}
	}
	return nil, fmt.Errorf("%s is changed too often", stateKeysKey)
}

func (s *keySet) encode() []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // only for a year that has no RFC 3339 form
	}
	return data
}

func decodeKeys(data []byte) (*keySet, error) {
	set := &keySet{}
	if err := json.Unmarshal(data, set); err != nil {
		return nil, errors.New("it is not the JSON of keys") // the text of err may contain a part of a key
	}
	if len(set.Keys) == 0 {
		return nil, errors.New("it has no keys")
	}
	return set.derive()
}

// derive returns the set with its rings.
func (s *keySet) derive() (*keySet, error) {
	derived := &keySet{Keys: s.Keys}
	for i := range s.Keys {
		keys := [][]byte{s.Keys[i].Key}
		for j, other := range s.Keys {
			if j != i {
				keys = append(keys, other.Key)
			}
		}
		ring, err := token.NewRing(keys...)
		if err != nil {
			return nil, err
		}
		derived.rings = append(derived.rings, ring)
	}
	return derived, nil
}

// sealing returns the index of the newest key whose time has come.
func (s *keySet) sealing(now time.Time) int {
	for i := len(s.Keys) - 1; i > 0; i-- {
		if !now.Before(s.Keys[i].From) {
			return i
		}
	}
	return 0
}

// rotate returns the keys without those that no valid state needs, and with a new one if the newest
// has been in use for long. It returns nil if nothing changes.
func (s *keySet) rotate(now time.Time) *keySet {
	keys := s.Keys
	for len(keys) > 1 && now.Sub(keys[1].From) > era.StateLifetime+keysDelay {
		keys = keys[1:]
	}
	if now.Sub(keys[len(keys)-1].From) >= keysRotation {
		keys = append(keys[max(0, len(keys)+1-token.MaxKeys):len(keys):len(keys)], newStateKey(now.Add(keysDelay)))
	}
	if len(keys) == len(s.Keys) && &keys[0] == &s.Keys[0] {
		return nil
	}
	return &keySet{Keys: keys}
}
