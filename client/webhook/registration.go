package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
	lru "github.com/hashicorp/golang-lru/v2"
)

// A Registration is a subscription at the receiving end. Its methods may be called concurrently.
type Registration struct {
	receiver *Receiver
	target   target // zero without Subscribe
	handle   Handler

	inProgress chan struct{} // has a value for each delivery
	turn       chan struct{} // has a value while the handler runs; guards seen
	seen       *lru.Cache[string, struct{}]

	// The lock of the receiver guards these.
	id       string // "" before it is known
	closed   bool
	secret   webhook.Secret
	previous webhook.Secret // before the last rotation
	until    time.Time      // when previous is no longer accepted
}

// Register creates a registration with a new secret. The caller closes it. The error is [ErrFull].
// At most 100 registrations may wait for their id.
func (r *Receiver) Register(handle Handler) (*Registration, error) {
	return r.register(handle, target{})
}

// register creates a registration with a target, which is zero if it is not known.
func (r *Receiver) register(handle Handler, t target) (*Registration, error) {
	seen, err := lru.New[string, struct{}](r.options.Remember)
	if err != nil {
		return nil, err
	}
	g := &Registration{
		receiver: r, target: t, handle: handle, seen: seen, secret: webhook.NewSecret(),
		inProgress: make(chan struct{}, maxInProgress), turn: make(chan struct{}, 1),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.unbound) >= maxUnbound || r.count >= r.options.MaxRegistrations {
		return nil, ErrFull
	}
	if t != (target{}) {
		if _, taken := r.targets[t]; taken {
			return nil, errors.New("webhook: the session has a subscription to this event with these arguments and URL already")
		}
		r.targets[t] = struct{}{}
	}
	r.count++
	r.unbound[g] = struct{}{}
	return g, nil
}

// Secret returns the secret for events/subscribe.
func (g *Registration) Secret() string {
	g.receiver.mu.Lock()
	defer g.receiver.mu.Unlock()
	return g.secret.Text()
}

// Rotate replaces the secret and returns the new one, for the next events/subscribe. The earlier
// one is accepted for 15 minutes.
func (g *Registration) Rotate() string {
	g.receiver.mu.Lock()
	defer g.receiver.mu.Unlock()
	g.previous, g.until = g.secret, time.Now().Add(rotation)
	g.secret = webhook.NewSecret()
	return g.secret.Text()
}

// Bind says which id the server has given to the subscription. It replaces an earlier one. Several
// registrations may have one id, since servers choose ids independently: the secret decides which one
// gets a delivery. Bind returns an error if the id is malformed or the registration is closed.
func (g *Registration) Bind(id string) error {
	g.receiver.mu.Lock()
	defer g.receiver.mu.Unlock()
	return g.bindLocked(id)
}

func (g *Registration) bindLocked(id string) error {
	switch {
	case !signature.IsID(id):
		return errors.New("webhook: the id of the subscription is malformed")
	case g.closed:
		return errors.New("webhook: the registration is closed")
	case g.id == id:
		return nil
	}
	g.unbindLocked()
	g.id = id
	g.receiver.bound[id] = append(g.receiver.bound[id], g)
	return nil
}

func (g *Registration) unbindLocked() {
	r := g.receiver
	delete(r.unbound, g)
	r.bound[g.id] = slices.DeleteFunc(r.bound[g.id], func(other *Registration) bool { return other == g })
	if len(r.bound[g.id]) == 0 {
		delete(r.bound, g.id)
	}
}

// Close removes the registration and waits for its handler, which must not call it. Later
// deliveries are answered 503 or 401.
func (g *Registration) Close() {
	g.receiver.mu.Lock()
	if !g.closed {
		g.closed = true
		g.receiver.count--
		delete(g.receiver.targets, g.target)
		g.unbindLocked()
	}
	g.receiver.mu.Unlock()
	g.turn <- struct{}{}
	<-g.turn
}

// secrets returns the secrets that are accepted. The receiver must be locked.
func (g *Registration) secrets(now time.Time) []webhook.Secret {
	list := []webhook.Secret{g.secret}
	if now.Before(g.until) {
		list = append(list, g.previous)
	}
	return list
}

// accept handles a delivery of a request. The error is [busy] or the error of the handler.
func (g *Registration) accept(ctx context.Context, d Delivery) error {
	select {
	case g.inProgress <- struct{}{}:
		defer func() { <-g.inProgress }()
	default:
		return busy
	}
	waiting, cancel := context.WithTimeout(ctx, g.receiver.options.Timeout)
	defer cancel()
	if err := g.takeTurn(waiting); err != nil {
		return err
	}
	defer g.endTurn()
	return g.deliver(ctx, d)
}

// takeTurn waits until no handler runs, and prevents that one begins before endTurn. The error is
// [busy], if ctx ends first.
func (g *Registration) takeTurn(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", busy, context.Cause(ctx))
	}
}

func (g *Registration) endTurn() { <-g.turn }

// deliver passes a delivery to the handler, unless it was acknowledged before. The caller has the turn. The error is
// [busy] or the error of the handler.
func (g *Registration) deliver(ctx context.Context, d Delivery) error {
	if _, again := g.seen.Get(d.ID); again || !d.known() {
		return nil
	}
	if !g.receiver.isBound(g, d.Subscription) { // closed while it waited
		return busy
	}
	ctx, cancel := context.WithTimeout(ctx, g.receiver.options.Timeout)
	defer cancel()
	if err := g.handle(ctx, d); err != nil {
		return err
	}
	g.seen.Add(d.ID, struct{}{})
	return nil
}
