package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
	"github.com/dovetail-go/dovetail/transport/store/postgres"
	"github.com/dovetail-go/dovetail/transport/store/redis"
)

// storePrefix begins the names of everything that dovetail serve keeps in a store.
const storePrefix = "dovetail-serve"

// openStore opens the store at an address: a URL, or a folder for the embedded one.
func openStore(ctx context.Context, address string, logger *slog.Logger) (store.Store, error) {
	scheme, _, _ := strings.Cut(address, "://")
	switch scheme {
	case "nats", "tls":
		servers := 1 + strings.Count(address, ",")
		replicas := 1
		if servers >= 3 {
			replicas = 3
		}
		return opened(nats.Connect(ctx, address, &nats.Options{Prefix: storePrefix, Replicas: replicas, Logger: logger}))
	case "redis", "rediss", "unix":
		return opened(redis.Connect(ctx, address, &redis.Options{Prefix: storePrefix, Logger: logger}))
	case "postgres", "postgresql":
		return opened(postgres.Connect(ctx, address, &postgres.Options{Schema: "dovetail_serve", Logger: logger}))
	case address:
		return opened(nats.Embedded(address, &nats.Options{Prefix: storePrefix, Logger: logger}))
	}
	return nil, misuse("-store: expected a URL that begins with nats, redis or postgres, or a folder, found %.20q", scheme+"://")
}

// opened returns a store as an interface, which is nil with an error.
func opened[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// randomKey returns a key that only this process has.
func randomKey() (*state.Key, error) {
	ring, err := token.NewRing([]byte(rand.Text() + rand.Text()))
	if err != nil {
		return nil, err
	}
	return state.FixedKey(ring), nil
}

// tokens are those that all replicas accept. Forms is not one, but the secret from which the keys of the parts of the store are derived.
type tokens struct {
	Client   string `json:"client"`
	Operator string `json:"operator"`
	Viewer   string `json:"viewer"`
	Admin    string `json:"admin"`
	Forms    string `json:"forms"`
}

func newTokens() tokens {
	secret := func() string { return rand.Text() + rand.Text() }
	return tokens{rand.Text(), secret(), secret(), secret(), secret()}
}

// tokensName is the name of the record of the tokens.
const tokensName = "serve/tokens"

// sharedTokens returns the tokens in a store, which the first replica creates there. They remain valid until the store is emptied.
func sharedTokens(ctx context.Context, shared store.Store, key *state.Key) (tokens, error) {
	records := state.NewRecords[tokens](shared, key)
	record, err := records.Put(ctx, tokensName, func(r *state.Record[tokens]) error {
		if r.Stored() && r.Value.Forms != "" {
			return state.ErrUnchanged
		}
		made := newTokens()
		r.Value = tokens{
			cmp.Or(r.Value.Client, made.Client), cmp.Or(r.Value.Operator, made.Operator), cmp.Or(r.Value.Viewer, made.Viewer), cmp.Or(r.Value.Admin, made.Admin),
			cmp.Or(r.Value.Forms, made.Forms),
		}
		return nil
	})
	if err != nil {
		return tokens{}, fmt.Errorf("-store: the tokens of all replicas: %w", err)
	}
	return record.Value, nil
}
