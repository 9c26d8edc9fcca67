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
	key     string
	turn    turn
	flights flights[struct{}] // of those who want it changed
	login   atomic.Pointer[login]
	nonce   atomic.Pointer[string] // for the next proof to the server
	known   atomic.Bool            // the store has been asked

	stepUps map[string]int // how often scopes were asked for, by those that were demanded
}

func newAccess(key string) *access {
	return &access{key: key, turn: newTurn(), stepUps: make(map[string]int)}
}

// share has work done by who has the turn, once for all who want the same.
func (c *Client) share(ctx context.Context, a *access, server *url.URL, name string, work func(ctx context.Context) error) error {
	_, err := a.flights.share(ctx, name, func(ctx context.Context) (none struct{}, err error) {
		leave, err := c.enter(ctx, a, server)
		if err != nil {
			return none, err
		}
		defer leave()
		return none, work(ctx)
	})
	return err
}

// recall asks the store for the login. It takes one that another program has saved since.
func (c *Client) recall(ctx context.Context, a *access, server *url.URL) error {
	saved, err := c.options.Store.Load(ctx, loginKey(a.key))
	if err != nil {
		return &StoreError{"load a token", err}
	}
	if saved != "" {
		stored, err := parseLogin(saved)
		switch {
		case err != nil || !covers(stored.resource, server): // a new one replaces it
			c.options.Logger.Warn("a saved token is damaged or for another server, and is not used", "server", a.key)
		case stored.isNewerThan(a.login.Load()):
			a.login.Store(stored)
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

// isGood tells a login to use. Where tokens must be bound to a key, others are none.
func (c *Client) isGood(l *login) bool {
	return c.isBound(l) && !l.endsBefore(c.options.Clock())
}

func (c *Client) isBound(l *login) bool {
	return l != nil && (l.key != nil || !c.options.DPoP)
}

// current is the login to use for a request, nil if there is none. It is refreshed when
// it is about to end; one that cannot be is not used, but what was asked for is still
// known.
func (c *Client) current(ctx context.Context, a *access, server *url.URL) (*login, error) {
	switch l := a.login.Load(); {
	case c.isGood(l):
		return l, nil
	case l == nil && a.known.Load():
		return nil, nil
	}
	err := c.share(ctx, a, server, "refresh", func(ctx context.Context) error { return c.freshen(ctx, a, server) })
	if l := a.login.Load(); ctx.Err() == nil && c.isBound(l) && !l.hasEnded(c.options.Clock()) {
		return l, nil // for a moment, if it could not be refreshed
	}
	return nil, err // without one, the server will say what it wants
}

// freshen refreshes the login of a server if it is about to end. That the authorization
// server does not do that is no error.
func (c *Client) freshen(ctx context.Context, a *access, server *url.URL) error {
	l := a.login.Load()
	if !c.isBound(l) || c.isGood(l) || l.refresh == "" {
		return nil
	}
	err := c.refresh(ctx, a, server, l)
	if err == nil || !isAnswer(err) {
		return err
	}
	c.options.Logger.Info("the token cannot be refreshed", "server", a.key, "error", err)
	if endsRefreshing(err) {
		a.login.Store(l.withoutRefresh()) // what is stored may be another program's by now
	}
	return nil
}
