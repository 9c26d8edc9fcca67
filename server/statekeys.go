package server

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// Keys in the store.
const (
	stateKeyName = "server/state-key"
	// dataKeyName is the key of tasks and events. It does not rotate, because tasks are kept for up to a year and cursors
	// have no expiry. Rotation would not protect against a person who reads the store, who also reads the key.
	dataKeyName = "server/data-key"
)

// setKeys sets the keys of a server: fixed keys of Options.StateKeys or, without a store, of this process. Otherwise
// the replicas create keys in the store.
func (s *Server) setKeys(own *token.Ring) {
	s.stateKey, s.dataKey = stateKey{state.FixedKey(own)}, state.FixedKey(own)
	if shared := s.options.Store; shared != nil && len(s.options.StateKeys) == 0 {
		s.stateKey = stateKey{state.SharedKey(shared, stateKeyName, era.StateLifetime, s.options.Logger)}
		s.dataKey = state.SharedKey(shared, dataKeyName, 0, s.options.Logger)
	}
}

// A stateKey seals the state that a client carries between the runs of a call that asks, and messages between replicas.
type stateKey struct{ *state.Key }

var _ era.StateKey = stateKey{}

func (k stateKey) Seal(ctx context.Context, plaintext, binding []byte, expires time.Time) (string, error) {
	text, err := k.Key.Seal(ctx, plaintext, binding, expires)
	return text, forClient(err)
}

func (k stateKey) Open(ctx context.Context, text string, binding []byte, now time.Time) ([]byte, error) {
	plaintext, err := k.Key.Open(ctx, text, binding, now)
	return plaintext, forClient(err)
}

var errNoStateKey = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "the state key of the server cannot be read from its store, so the call cannot ask; try again later"}

func forClient(err error) error {
	if errors.Is(err, state.ErrNoKey) {
		return errNoStateKey
	}
	return err
}
