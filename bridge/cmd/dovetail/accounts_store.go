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

// isDynamic reports whether what an [oauth.Client] keeps under a key is a registration that it has made.
func isDynamic(key string) bool { return strings.HasPrefix(key, "client of ") }

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

// Load returns a value of the account. Registrations outlive it, because tokens are revoked after it has ended.
func (s *accountStore) Load(ctx context.Context, key string) (oauth.Secret, error) {
	record, err := s.accounts.records.Load(ctx, s.name)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return "", err
	case err == nil && record.Value.ID == s.id:
		return oauth.Secret(record.Value.Values[key]), nil
	case isLogin(key):
		return "", nil
	}
	return s.accounts.registration(ctx, s.server, key)
}

// Save sets a value of the account. Without tokens, there is no account. A registration that the server has forgotten is not the one of
// the next people.
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
	if value == "" {
		used, err := s.Load(ctx, key)
		if err != nil {
			return err
		}
		return s.accounts.forgetRegistration(ctx, s.server, key, used)
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
	register bool // the program is registered again, instead of using the registration of earlier people
	mu       sync.Mutex
	values   map[string]string // that the account gets
}

// Load returns a registration. There are no tokens yet.
func (s *connectionStore) Load(ctx context.Context, key string) (oauth.Secret, error) {
	s.mu.Lock()
	value, ok := s.values[key]
	s.mu.Unlock()
	if ok || isLogin(key) || s.register && isDynamic(key) {
		return oauth.Secret(value), nil
	}
	registration, err := s.accounts.registration(ctx, s.server, key)
	if err == nil {
		s.set(key, string(registration))
	}
	return registration, err
}

// Save sets a value. A registration is the one of the next people, too.
func (s *connectionStore) Save(ctx context.Context, key string, value oauth.Secret) error {
	used := s.set(key, string(value))
	switch {
	case isLogin(key):
		return nil
	case value == "":
		return s.accounts.forgetRegistration(ctx, s.server, key, oauth.Secret(used))
	}
	_, err := s.accounts.registrations.Put(ctx, registrationName(s.server, key), func(r *state.Record[string]) error {
		r.Value = string(value)
		return nil
	})
	return err
}

// set sets a value, and returns the one before.
func (s *connectionStore) set(key, value string) (before string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.values[key]
	if value == "" {
		delete(s.values, key)
	} else {
		s.values[key] = value
	}
	return before
}

// all returns what the account gets.
func (s *connectionStore) all() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values)
}

// registrationName returns the name of the record of what an [oauth.Client] keeps under a key, for all people.
func registrationName(server *userServer, key string) string {
	return recordName(registrationNames, server.Alias, server.url, key)
}

// registration returns a registration of this program, "" if there is none.
func (a *accounts) registration(ctx context.Context, server *userServer, key string) (oauth.Secret, error) {
	record, err := a.registrations.Load(ctx, registrationName(server, key))
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return oauth.Secret(record.Value), nil
}

// forgetRegistration deletes a registration that the server no longer knows, unless it was replaced.
func (a *accounts) forgetRegistration(ctx context.Context, server *userServer, key string, known oauth.Secret) error {
	record, err := a.registrations.Load(ctx, registrationName(server, key))
	if err == nil && record.Value == string(known) {
		a.logger.Warn("a server no longer knows the registration of this program: the next person who connects an account registers it again", "server", server.Alias)
		err = a.registrations.Delete(ctx, registrationName(server, key), record)
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		return nil
	}
	return err
}
