package main

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/store"
)

// isLogin reports whether what an [oauth.Client] keeps under a key are tokens. The rest are registrations, which belong to no person.
func isLogin(key string) bool { return strings.HasPrefix(key, "login ") }

// An accountStore has the tokens of one account. While the person has another account, or none, it has and takes none.
type accountStore struct {
	accounts *accounts
	server   *userServer
	name     string // of the record
	id       string // of the account
}

var _ oauth.LockingStore = (*accountStore)(nil)

func (a *accounts) storeOf(server *userServer, of *account) *accountStore {
	return &accountStore{a, server, server.nameOf(of.Principal), of.ID}
}

// errDisconnected says that an account was disconnected, or another one was connected, while its token was refreshed.
var errDisconnected = errors.New("the account was disconnected")

// Load returns a value of the account.
func (s *accountStore) Load(ctx context.Context, key string) (oauth.Secret, error) {
	record, err := s.accounts.records.Load(ctx, s.name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case record.Value.ID != s.id:
		return "", nil
	}
	return oauth.Secret(record.Value.Values[key]), nil
}

// Save sets a value of the account. Without tokens, there is no account.
func (s *accountStore) Save(ctx context.Context, key string, value oauth.Secret) error {
	records := s.accounts.records
	if value == "" && isLogin(key) {
		record, err := records.Load(ctx, s.name)
		if errors.Is(err, store.ErrNotFound) || err == nil && record.Value.ID != s.id {
			return nil
		}
		if err != nil {
			return err
		}
		return records.Delete(ctx, s.name, record)
	}
	_, err := records.Update(ctx, s.name, func(r *state.Record[account]) error {
		if r.Value.ID != s.id {
			return errDisconnected
		}
		r.Value.Values = maps.Clone(r.Value.Values)
		r.Value.Values[key] = string(value)
		r.Extend(time.Now().Add(accountLife))
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return errDisconnected
	}
	return err
}

// lockLife is how long the lock of an account is held if its replica ends: longer than a refresh or a logout takes.
const lockLife = 2 * time.Minute

// Lock excludes all other clients of the account, at any replica.
func (s *accountStore) Lock(ctx context.Context, _ string) (unlock func(), err error) {
	name := lockNames + strings.TrimPrefix(s.name, accountNames)
	for pause := (backoff.Backoff{Min: 5 * time.Millisecond, Max: 250 * time.Millisecond}); ; {
		revision, err := s.accounts.kv.Create(ctx, name, []byte("1"), lockLife)
		switch {
		case err == nil:
			return func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
				defer cancel()
				_ = s.accounts.kv.Delete(ctx, name, revision) // otherwise it ends by itself
			}, nil
		case !errors.Is(err, store.ErrExists):
			return nil, err
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// A connectionStore has the tokens of an account that is being connected, and shares the registrations of this program with all
// people.
type connectionStore struct {
	accounts *accounts
	server   *userServer
	mu       sync.Mutex
	values   map[string]string // that the account gets
}

// Load returns a registration. There are no tokens yet.
func (s *connectionStore) Load(ctx context.Context, key string) (oauth.Secret, error) {
	s.mu.Lock()
	value, ok := s.values[key]
	s.mu.Unlock()
	if ok || isLogin(key) {
		return oauth.Secret(value), nil
	}
	record, err := s.accounts.registrations.Load(ctx, s.nameOf(key))
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	s.set(key, record.Value)
	return oauth.Secret(record.Value), nil
}

// Save sets a value. A registration is the one of the next people, too.
func (s *connectionStore) Save(ctx context.Context, key string, value oauth.Secret) error {
	s.set(key, string(value))
	if isLogin(key) {
		return nil
	}
	if value == "" {
		return s.accounts.registrations.Delete(ctx, s.nameOf(key), nil)
	}
	_, err := s.accounts.registrations.Put(ctx, s.nameOf(key), func(r *state.Record[string]) error {
		r.Value = string(value)
		return nil
	})
	return err
}

func (s *connectionStore) nameOf(key string) string {
	return recordName(registrationNames, s.server.Alias, s.server.url, key)
}

func (s *connectionStore) set(key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value == "" {
		delete(s.values, key)
	} else {
		s.values[key] = value
	}
}

// all returns what the account gets.
func (s *connectionStore) all() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values)
}
