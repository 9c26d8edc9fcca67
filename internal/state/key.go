package state

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// rotation is how long a secret seals, in a key that rotates.
	rotation = 24 * time.Hour
	// rotationDelay is how long all replicas know a secret before one of them seals with it. It is longer than
	// tokenAge.
	rotationDelay = time.Minute
	// tokenAge is how old the known secrets may be when a token is sealed.
	tokenAge = 30 * time.Second
	// valueAge is the same for a value of the store. It is shorter, because a store that has lost its data may get
	// other secrets, and the replica that reads the value would not know the earlier ones.
	valueAge = time.Second
	// readInterval is the pause after a reading that has failed, or has not helped to open something.
	readInterval = time.Second
	// readTimeout bounds reading and changing the secrets.
	readTimeout = 2 * time.Second
	// keyVersion is the version of the record's format.
	keyVersion = 1
)

// ErrNoKey says that the secrets of a [Key] cannot be read from the store, and that the replica knows none. The cause is
// logged.
var ErrNoKey = errors.New("state: the key cannot be read from the store")

// A Key seals with secrets that replicas share in a store. The first replica that needs one creates it. A replica reads
// the record again from time to time, and when something cannot be opened. If the store has lost secrets that a replica
// knows, the replica adds them again, and what any of them has sealed can be opened. While the store cannot be reached, the
// known secrets are used. A Key may be used concurrently.
type Key struct {
	kv     store.KV // nil for a key that does not change
	name   string
	life   time.Duration
	logger *slog.Logger
	known  atomic.Pointer[secrets] // nil before the first time

	turn    chan struct{} // has a value while a call reads the store, which guards the rest
	tried   time.Time     // when the store was last read, or could not be
	failure error         // of the last time
	inVain  time.Time     // when something could not be opened with secrets that were just read
}

// FixedKey returns a key that is not in a store.
func FixedKey(ring *token.Ring) *Key {
	k := new(Key)
	k.known.Store(&secrets{rings: []*token.Ring{ring}})
	return k
}

// SharedKey returns the key in a store with a name. life is how long what it seals is valid: every day, a new secret
// seals, and an earlier one is removed when all that it has sealed is invalid. If life is 0, the first secret seals for
// ever.
func SharedKey(kv store.KV, name string, life time.Duration, logger *slog.Logger) *Key {
	return &Key{kv: kv, name: name, life: life, logger: logger, turn: make(chan struct{}, 1)}
}

// Seal is [token.Ring.Seal]. The error may also be [ErrNoKey], or that of ctx.
func (k *Key) Seal(ctx context.Context, plaintext, binding []byte, expires time.Time) (string, error) {
	set, err := k.current(ctx, tokenAge)
	if err != nil {
		return "", err
	}
	return set.sealing(time.Now()).Seal(plaintext, binding, expires)
}

// Open is [token.Ring.Open]. The error may also be [ErrNoKey], or that of ctx.
func (k *Key) Open(ctx context.Context, text string, binding []byte, now time.Time) ([]byte, error) {
	if !token.IsToken(text) {
		return nil, token.ErrForged
	}
	return k.open(ctx, func(ring *token.Ring) ([]byte, error) { return ring.Open(text, binding, now) })
}

// SealBytes is [token.Ring.SealBytes], for values of the store. The error is [ErrNoKey], or that of ctx.
func (k *Key) SealBytes(ctx context.Context, plaintext, binding []byte) ([]byte, error) {
	set, err := k.current(ctx, valueAge)
	if err != nil {
		return nil, err
	}
	return set.sealing(time.Now()).SealBytes(plaintext, binding), nil
}

// Ring returns the secrets in a ring that seals as the key does now. A request can seal with it until it ends. The error is
// [ErrNoKey], or that of ctx.
func (k *Key) Ring(ctx context.Context) (*token.Ring, error) {
	set, err := k.current(ctx, tokenAge)
	if err != nil {
		return nil, err
	}
	return set.sealing(time.Now()), nil
}

// OpenBytes is [token.Ring.OpenBytes]. The error may also be [ErrNoKey], or that of ctx.
func (k *Key) OpenBytes(ctx context.Context, sealed, binding []byte) ([]byte, error) {
	return k.open(ctx, func(ring *token.Ring) ([]byte, error) { return ring.OpenBytes(sealed, binding) })
}

// open opens with the known secrets. If none has sealed, it reads the record again.
func (k *Key) open(ctx context.Context, open func(*token.Ring) ([]byte, error)) ([]byte, error) {
	called := time.Now()
	set, err := k.current(ctx, tokenAge)
	if err != nil {
		return nil, err
	}
	plaintext, err := open(set.rings[0])
	if k.kv == nil || !errors.Is(err, token.ErrForged) {
		return plaintext, err
	}
	if err := k.lock(ctx); err != nil {
		return nil, err
	}
	defer k.unlock()
	if set = k.known.Load(); !set.read.After(called) {
		if time.Since(k.inVain) < readInterval {
			return nil, token.ErrForged
		}
		if set, err = k.read(ctx); err != nil {
			return nil, err
		}
	}
	plaintext, err = open(set.rings[0])
	if errors.Is(err, token.ErrForged) {
		k.inVain = time.Now()
	}
	return plaintext, err
}

// current returns the secrets. If they are older than maxAge, one call reads them again; others use the known ones, and
// so does this one if that fails.
func (k *Key) current(ctx context.Context, maxAge time.Duration) (*secrets, error) {
	set := k.known.Load()
	if set == nil {
		if err := k.lock(ctx); err != nil {
			return nil, err
		}
		defer k.unlock()
		if set := k.known.Load(); set != nil {
			return set, nil
		}
		return k.read(ctx)
	}
	if k.kv == nil || time.Since(set.read) < maxAge {
		return set, nil
	}
	select {
	case k.turn <- struct{}{}:
		defer k.unlock()
	default:
		return set, nil
	}
	if time.Since(k.tried) < maxAge {
		return set, nil
	}
	if newer, err := k.read(ctx); err == nil {
		return newer, nil
	}
	return set, nil
}

func (k *Key) lock(ctx context.Context) error {
	select {
	case k.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *Key) unlock() { <-k.turn }

// read reads the secrets from the store, unless that has just failed. The turn must be held.
func (k *Key) read(ctx context.Context) (*secrets, error) {
	if k.failure != nil && time.Since(k.tried) < readInterval {
		return nil, k.failure
	}
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	set, err := k.load(reading)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx) // the store may be well
	}
	k.tried, k.failure = time.Now(), nil
	if err != nil {
		k.logger.Error("a key cannot be read from the store", "key", k.name, "error", err)
		k.failure = ErrNoKey
		return nil, k.failure
	}
	set.read = k.tried
	k.known.Store(set)
	return set, nil
}

// maxConflicts is how often a change is tried again because another one came first.
const maxConflicts = 8

// load reads the secrets, and changes those in the store if that is necessary.
func (k *Key) load(ctx context.Context) (*secrets, error) {
	for range maxConflicts {
		item, err := k.kv.Get(ctx, k.name)
		lost := errors.Is(err, store.ErrNotFound)
		if err != nil && !lost {
			return nil, fmt.Errorf("reading: %w", err)
		}
		stored := new(secrets)
		if !lost {
			if stored, err = decodeSecrets(item.Value); err != nil {
				return nil, err
			}
		}
		wanted := k.wanted(stored.Secrets, time.Now())
		if slices.EqualFunc(wanted, stored.Secrets, secret.equal) {
			return stored, nil
		}
		next, err := deriveSecrets(wanted)
		if err != nil {
			return nil, err
		}
		if lost {
			_, err = k.kv.Create(ctx, k.name, next.encode(), 0)
		} else {
			_, err = k.kv.Update(ctx, k.name, next.encode(), item.Revision, 0)
		}
		switch {
		case err == nil:
			return next, nil
		case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrConflict):
		case lost:
			return nil, fmt.Errorf("creating: %w", err)
		default:
			k.logger.Warn("a key cannot be changed in the store; the earlier one is used", "key", k.name, "error", err)
			return stored, nil
		}
	}
	return nil, errors.New("it is changed too often")
}

// wanted returns the secrets that the store should have: those that it has, those that it has lost, and a new one when it
// is time, without those that nothing valid needs.
func (k *Key) wanted(stored []secret, now time.Time) []secret {
	all := slices.Clone(stored)
	if known := k.known.Load(); known != nil {
		for _, s := range known.Secrets {
			if !slices.ContainsFunc(all, s.equal) {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b secret) int { return a.From.Compare(b.From) })
	if k.life > 0 {
		for len(all) > 1 && now.Sub(all[1].From) > k.life+rotationDelay {
			all = all[1:]
		}
	}
	switch {
	case len(all) == 0:
		all = append(all, newSecret(now))
	case k.life > 0 && now.Sub(all[len(all)-1].From) >= rotation:
		all = append(all, newSecret(now.Add(rotationDelay)))
	}
	return all[max(0, len(all)-token.MaxKeys):]
}

// secrets are the content of the record, and what is derived from it. They are immutable.
type secrets struct {
	Version int      `json:"version"`
	Secrets []secret `json:"secrets"` // oldest first

	rings []*token.Ring // each seals with the secret of the same index; all secrets open
	read  time.Time
}

// A secret seals from a time until that of the next one.
type secret struct {
	Secret []byte    `json:"secret"`
	From   time.Time `json:"from"`
}

func newSecret(from time.Time) secret {
	s := secret{make([]byte, token.MinKey), from.UTC()}
	rand.Read(s.Secret) // never fails
	return s
}

func (s secret) equal(other secret) bool { return bytes.Equal(s.Secret, other.Secret) }

func (s *secrets) encode() []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // only for a year that has no RFC 3339 form
	}
	return data
}

func decodeSecrets(data []byte) (*secrets, error) {
	s := new(secrets)
	err := json.Unmarshal(data, s)
	switch {
	case err != nil:
		return nil, errors.New("it is not the JSON of a key") // the text of err may contain a part of a secret
	case s.Version != keyVersion:
		return nil, fmt.Errorf("its format has version %d, expected %d", s.Version, keyVersion)
	case len(s.Secrets) == 0:
		return nil, errors.New("it has no secrets")
	}
	return deriveSecrets(s.Secrets)
}

// deriveSecrets returns secrets with their rings.
func deriveSecrets(list []secret) (*secrets, error) {
	s := &secrets{Version: keyVersion, Secrets: list}
	for i := range list {
		keys := [][]byte{list[i].Secret}
		for j, other := range list {
			if j != i {
				keys = append(keys, other.Secret)
			}
		}
		ring, err := token.NewRing(keys...)
		if err != nil {
			return nil, err
		}
		s.rings = append(s.rings, ring)
	}
	return s, nil
}

// sealing returns the ring of the newest secret whose time has come.
func (s *secrets) sealing(now time.Time) *token.Ring {
	for i := len(s.Secrets) - 1; i > 0; i-- {
		if !now.Before(s.Secrets[i].From) {
			return s.rings[i]
		}
	}
	return s.rings[0]
}
