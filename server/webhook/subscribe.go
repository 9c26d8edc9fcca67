package webhook

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
)

const (
	// rotation is how long the secret before a rotation signs too.
	rotation = 10 * time.Minute
	// verifiedTTL is how long a verification lasts at least.
	verifiedTTL = 24 * time.Hour
	// maxURL is the maximum length of a callback URL, in bytes.
	maxURL = 2048
	// maxArguments is the maximum length of the arguments, in bytes.
	maxArguments = 64 << 10
)

// Subscribe adds a subscription, or refreshes it if one with the same key exists. It verifies the
// callback URL unless that was done for the principal before, which may take [Options].Timeout. The
// error is a *RequestError, *LimitError or *EndpointError of package delivery, a *jsonrpc.Error with the code Busy if
// there is no room, the error of Start, or an error of the store.
func (d *deliverer) Subscribe(ctx context.Context, r delivery.Request) (delivery.Grant, error) {
	if err := d.check(&r); err != nil {
		return delivery.Grant{}, err
	}
	now := time.Now()
	requested := &subscription{
		Subscription: delivery.Subscription{ID: r.ID(), Key: r.Key, Expires: d.expiry(&r, now)},
		Secret:       r.Secret,
	}
	existing, err := d.records.subscription(ctx, requested.ID)
	if err != nil {
		return delivery.Grant{}, err
	}
	live := existing != nil
	if !live {
		release, err := d.index.reserve(&requested.Subscription, d.options.MaxPerPrincipal, d.options.MaxSubscriptions, now)
		if err != nil {
			return delivery.Grant{}, err
		}
		defer release()
		// Until the index counts the subscription, the request does.
		if err := d.index.retained.Take(holderOf(&r.Key), sizeOf(&r.Key)); err != nil {
			return delivery.Grant{}, err
		}
		defer d.index.retained.Return(holderOf(&r.Key), sizeOf(&r.Key))
	}
	if err := d.verify(ctx, requested); err != nil {
		return delivery.Grant{}, err
	}

	grant := delivery.Grant{ID: requested.ID, Expires: requested.Expires}
	push := ""
	if live {
		live, push, err = d.refreshProgress(ctx, requested, &grant)
		if err != nil {
			return delivery.Grant{}, err
		}
	}
	if !live {
		grant.Created = true
		if grant.Position, push, err = d.beginProgress(ctx, requested, r.Start); err != nil {
			return delivery.Grant{}, err
		}
	}
	stored, err := d.putSubscription(ctx, requested)
	if err != nil {
		return delivery.Grant{}, err
	}
	if err := d.addOwned(ctx, requested, live); err != nil {
		if !live {
			d.withdraw(ctx, stored)
		}
		return delivery.Grant{}, err
	}
	d.index.add(&requested.Subscription)
	if push != "" {
		err = d.push(ctx, requested.ID, push)
	}
	return grant, err
}

func (d *deliverer) check(r *delivery.Request) error {
	if r.Principal == "" {
		return &delivery.RequestError{Field: "principal", Problem: "is missing"}
	}
	if len(r.URL) > maxURL {
		return &delivery.RequestError{Field: "delivery.url", Problem: fmt.Sprintf("is longer than %d bytes", maxURL)}
	}
	if err := d.guard.Check(r.URL); err != nil {
		return &delivery.RequestError{Field: "delivery.url", Problem: "is not an https URL of a public host"}
	}
	if _, err := webhook.ParseSecret(r.Secret); err != nil {
		return &delivery.RequestError{Field: "delivery.secret", Problem: "is not whsec_ and the base64 of 24 to 64 bytes"}
	}
	if len(r.Arguments) > maxArguments {
		return &delivery.RequestError{Field: "arguments", Problem: fmt.Sprintf("are longer than %d bytes", maxArguments)}
	}
	return nil
}

// expiry returns when a subscription ends, zero for never.
func (d *deliverer) expiry(r *delivery.Request, now time.Time) time.Time {
	ttl := r.TTL
	switch {
	case r.Forever && d.options.Forever:
		return time.Time{}
	case r.Forever:
		ttl = d.options.MaxTTL
	case ttl <= 0:
		ttl = d.options.DefaultTTL
	}
	return now.Add(min(max(ttl, d.options.MinTTL), d.options.MaxTTL))
}

// addOwned adds a stored subscription to those of its principal, which replicas count together. A subscription that lives
// already always has room. What is not stored any more is removed when there is no room.
func (d *deliverer) addOwned(ctx context.Context, sub *subscription, live bool) error {
	_, err := d.records.owned.Put(ctx, ownedKey(sub.Principal), func(rec *state.Record[owned]) error {
		now := time.Now()
		held := make(owned, len(rec.Value)+1)
		for id, until := range rec.Value {
			if until == 0 || now.Before(time.Unix(until, 0)) {
				held[id] = until
			}
		}
		if _, known := held[sub.ID]; !known && !live && len(held) >= d.options.MaxPerPrincipal {
			if err := d.forget(ctx, held); err != nil {
				return err
			}
			if len(held) >= d.options.MaxPerPrincipal {
				return &delivery.LimitError{Limit: "subscriptions", Max: d.options.MaxPerPrincipal}
			}
		}
		held[sub.ID] = 0
		if !sub.Expires.IsZero() {
			held[sub.ID] = sub.Expires.Unix() + 1
		}
		rec.Value = held
		rec.Extend(sub.Expires)
		return nil // also if nothing changes: it must conflict with a replica that removes the subscription
	})
	return err
}

// forget removes the subscriptions that are not stored any more.
func (d *deliverer) forget(ctx context.Context, held owned) error {
	for id := range held {
		sub, err := d.records.subscription(ctx, id)
		if err != nil {
			return err
		}
		if sub == nil {
			delete(held, id)
		}
	}
	return nil
}

// removeOwned removes a subscription that is not stored any more from those of its principal. After an error it counts
// until there is no room.
func (d *deliverer) removeOwned(ctx context.Context, principal, id string) {
	rec, err := d.records.owned.Update(ctx, ownedKey(principal), func(rec *state.Record[owned]) error {
		if _, counted := rec.Value[id]; !counted {
			return state.ErrUnchanged
		}
		switch sub, err := d.records.subscription(ctx, id); {
		case err != nil:
			return err
		case sub != nil:
			return state.ErrUnchanged
		}
		rec.Value = maps.Clone(rec.Value)
		delete(rec.Value, id)
		return nil
	})
	if err == nil && len(rec.Value) == 0 {
		_ = d.records.owned.Delete(ctx, ownedKey(principal), rec)
	}
}

// withdrawTimeout bounds the removal of a subscription that is refused.
const withdrawTimeout = 5 * time.Second

// withdraw removes a subscription that was stored, and is refused. What cannot be removed lapses.
func (d *deliverer) withdraw(ctx context.Context, stored *state.Record[subscription]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	id := stored.Value.ID
	if d.records.subscriptions.Delete(ctx, subscriptionKey(id), stored) == nil { // it is not of a later call
		_ = d.records.states.Delete(ctx, stateKey(id), nil)
		d.index.remove(id)
	}
}

// refreshProgress ends a suspension. found is false if the progress does not exist or has ended, so the
// subscription begins again.
func (d *deliverer) refreshProgress(ctx context.Context, sub *subscription, grant *delivery.Grant) (found bool, push string, err error) {
	exists, err := d.records.changeProgress(ctx, sub.ID, sub.Expires, func(st *progress) error {
		if found = !st.Ended; !found {
			return state.ErrUnchanged
		}
		grant.Status, grant.Position, push = st.status(), st.Position, ""
		if !st.Suspended.IsZero() {
			now := time.Now()
			st.resume(now)
			var err error
			if push, err = st.wake(now); err != nil && !errors.Is(err, state.ErrUnchanged) {
				return err
			}
		}
		return nil // the time to live changes
	})
	return found && exists, push, err
}

// beginProgress writes the progress of a new subscription, in place of an earlier one.
func (d *deliverer) beginProgress(ctx context.Context, sub *subscription, start func(context.Context, string) (string, error)) (position, push string, err error) {
	if position, err = start(ctx, sub.ID); err != nil {
		return "", "", err
	}
	_, err = d.records.states.Put(ctx, stateKey(sub.ID), func(rec *state.Record[progress]) (err error) {
		rec.Value = progress{Position: position}
		rec.Extend(sub.Expires)
		push, err = rec.Value.wake(time.Now())
		return err
	})
	return position, push, err
}

// putSubscription writes a subscription. If the secret changes, the earlier one is kept for a time.
func (d *deliverer) putSubscription(ctx context.Context, sub *subscription) (*state.Record[subscription], error) {
	return d.records.subscriptions.Put(ctx, subscriptionKey(sub.ID), func(rec *state.Record[subscription]) error {
		earlier := rec.Value
		sub.Previous, sub.PreviousUntil = earlier.Previous, earlier.PreviousUntil
		if earlier.Secret != "" && earlier.Secret != sub.Secret {
			sub.Previous, sub.PreviousUntil = earlier.Secret, time.Now().Add(rotation)
		}
		rec.Value, rec.Until = *sub, sub.Expires
		return nil
	})
}

// Unsubscribe removes a subscription. The error is ErrNoSubscription of package internal/webhook if
// there is none, or one of the store.
func (d *deliverer) Unsubscribe(ctx context.Context, key delivery.Key) error {
	id := key.ID()
	sub, err := d.records.subscription(ctx, id)
	if err != nil {
		return err
	}
	st, err := d.records.progress(ctx, id)
	if err != nil {
		return err
	}
	missing := sub == nil || st != nil && st.Value.Ended
	// The progress first: without it, no worker delivers.
	if err := errors.Join(d.records.states.Delete(ctx, stateKey(id), nil), d.records.subscriptions.Delete(ctx, subscriptionKey(id), nil)); err != nil {
		return err
	}
	d.index.remove(id)
	d.removeOwned(ctx, key.Principal, id)
	if missing {
		return delivery.ErrNoSubscription
	}
	return nil
}

// Terminate ends a subscription and delivers a control body with the reason, a JSON-RPC error. The
// error is ErrNoSubscription of package internal/webhook if there is none, or one of the store.
func (d *deliverer) Terminate(ctx context.Context, id string, reason json.RawMessage) error {
	sub, err := d.records.subscription(ctx, id)
	if err != nil {
		return err
	}
	push := ""
	found := false
	if sub != nil {
		found, err = d.records.changeProgress(ctx, id, sub.Until, func(st *progress) (err error) {
			if st.Ended {
				return delivery.ErrNoSubscription
			}
			now := time.Now()
			if err := st.end(reason); err != nil {
				return err
			}
			st.resume(now)
			// A worker in progress has lost; a job that waits for an attempt or a poll is replaced.
			st.Job, st.NotBefore = "", time.Time{}
			push, err = st.wake(now)
			return err
		})
	}
	switch {
	case err != nil:
		return err
	case !found:
		return delivery.ErrNoSubscription
	}
	return d.push(ctx, id, push)
}

// end makes the message with a reason the last one.
func (s *progress) end(reason json.RawMessage) error {
	body, err := json.Marshal(webhook.Control{Type: webhook.TypeTerminated, Error: reason})
	if err != nil {
		return err
	}
	s.Ended = true
	s.Message = &message{ID: webhook.NewMessageID(webhook.TypeTerminated), Body: body}
	s.Current, s.Attempts, s.First = "", 0, time.Time{}
	return nil
}

// A verification says that an endpoint wants deliveries for a principal, until its record ends.
type verification struct{}

// verify verifies the callback URL of a subscription (SEP-3415, Endpoint verification).
func (d *deliverer) verify(ctx context.Context, sub *subscription) error {
	sum := sha256.Sum256(token.Binding("verified", sub.Principal, sub.URL))
	key := verifiedPrefix + "/" + hex.EncodeToString(sum[:16])
	now := time.Now()
	known, err := found(d.records.verified.Load(ctx, key))
	if err != nil {
		return err
	}
	var until time.Time
	if !sub.Expires.IsZero() {
		until = now.Add(max(sub.Expires.Sub(now)+time.Hour, verifiedTTL))
	}
	if known != nil {
		// Written again when half of its time is over, and not with each refresh.
		if known.Until.IsZero() || !until.IsZero() && known.Until.Sub(now) > until.Sub(now)/2 {
			return nil
		}
	} else if d.options.Verified == nil || !d.options.Verified(ctx, sub.Principal, sub.URL) {
		if err := d.challenge(ctx, sub); err != nil {
			return err
		}
	}
	_, err = d.records.verified.Put(ctx, key, func(rec *state.Record[verification]) error {
		rec.Extend(until)
		return nil
	})
	return err
}

// challenge has an endpoint repeat a random text.
func (d *deliverer) challenge(ctx context.Context, sub *subscription) error {
	now := time.Now()
	// The principal first: what it may not verify does not count for the host.
	if !d.principals.mayVerify(sub.Principal, now) {
		return &delivery.LimitError{Limit: "verifications", Max: principalVerifications}
	}
	host := hostOf(sub.URL)
	if !d.pairs.mayVerify(string(token.Binding(sub.Principal, host)), now) {
		return &delivery.LimitError{Limit: "verifications", Max: sharedVerifications}
	}
	if !d.hosts.mayVerify(host, now) {
		return &delivery.LimitError{Limit: "verifications", Max: hostVerifications}
	}
	nonce := rand.Text()
	body, err := json.Marshal(webhook.Control{Type: webhook.TypeVerification, Challenge: nonce})
	if err != nil {
		return err
	}
	sent, err := d.post(ctx, sub, webhook.NewMessageID(webhook.TypeVerification), body)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !sent.accepted {
		reason := sent.reason
		if reason == delivery.HTTP4xx || reason == delivery.HTTP5xx { // it was reached
			reason = delivery.ChallengeFailed
		}
		return &delivery.EndpointError{Reason: reason}
	}
	var answer webhook.Challenge
	if json.Unmarshal(sent.body, &answer) != nil || subtle.ConstantTimeCompare([]byte(answer.Challenge), []byte(nonce)) != 1 {
		return &delivery.EndpointError{Reason: delivery.ChallengeFailed}
	}
	return nil
}
