package oauth

import (
	"context"
	"net/url"
	"sync/atomic"
)

// A turn is a lock that can be waited for with a context.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn.
func (t turn) take(ctx context.Context) (leave func(), err error) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// An access is what a client knows of a server. Who has the turn may change it.
type access struct {
	key   string
	turn  turn
	login atomic.Pointer[login]
	nonce atomic.Pointer[string] // for the next proof to the server
	known atomic.Bool            // the store has been asked

	stepUps map[string]int // how often scopes were asked for, by those that were demanded
}

// recall asks the store for the login, once.
func (c *Client) recall(ctx context.Context, a *access) error {
	if a.known.Load() {
		return nil
	}
	saved, err := c.options.Store.Load(ctx, loginKey(a.key))
	if err != nil {
		return &StoreError{"load a token", err}
	}
	if saved != "" {
		login, err := parseLogin(saved)
		if err != nil { // of another version, or damaged: a new one replaces it
			c.options.Logger.Warn("a saved token cannot be read, and is not used", "server", a.key)
		} else {
			a.login.Store(login)
		}
	}
	a.known.Store(true)
	return nil
}

// keep remembers a login, nil to forget it.
func (c *Client) keep(ctx context.Context, a *access, l *login) error {
	a.login.Store(l)
	var text Secret
	var err error
	if l != nil {
		text, err = l.save()
	}
	if err == nil {
		err = c.options.Store.Save(ctx, loginKey(a.key), text)
	}
	if err != nil {
		return &StoreError{"save a token", err}
	}
	return nil
}

// current is the login to use for a request, nil if there is none. It is refreshed when
// it is about to end; one that cannot be is not used, but what was asked for is still
// known.
func (c *Client) current(ctx context.Context, a *access, server *url.URL) (*login, error) {
	now := c.options.Clock()
	if l := a.login.Load(); a.known.Load() && (l == nil || !l.endsBefore(now)) {
		return l, nil
	}
	a, leave, err := c.enter(ctx, server)
	if err != nil {
		return nil, err
	}
	defer leave()
	l := a.login.Load()
	if l == nil || !l.endsBefore(now) {
		return l, nil
	}
	if l.refresh == "" {
		return nil, nil // the server will say what it wants
	}
	if err := c.refresh(ctx, a, l); err != nil {
		switch {
		case isRefusal(err):
		case ctx.Err() == nil && now.Before(l.expires):
			return l, nil // it is good for a moment still
		default:
			return nil, err
		}
		c.options.Logger.Info("the token cannot be refreshed", "server", a.key, "error", err)
		return nil, c.keep(ctx, a, l.withoutRefresh())
	}
	return a.login.Load(), nil
}
