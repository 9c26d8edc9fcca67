package approval

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// maxRemembered is the maximum number of approvals that a guard remembers without Options.Store.
const maxRemembered = 10_000

// A rememberedApproval is an approval that is also valid for later calls.
type rememberedApproval struct {
	Request string `json:"request"` // id of the request that was approved
	Given   int64  `json:"given"`   // these times are in Unix milliseconds, of the wall clock
	Until   int64  `json:"until"`

	// until is the same end with a reading of the monotonic clock, which other processes cannot compare: it
	// is zero for an approval from Options.Store. The monotonic clock may stop while the machine sleeps, and
	// the wall clock may be set back, so both limit the time.
	until time.Time
}

// isValid reports whether an approval is valid, at most for longest.
func (a *rememberedApproval) isValid(now time.Time, longest time.Duration) bool {
	return now.UnixMilli() < min(a.Until, a.Given+longest.Milliseconds()) && (a.until.IsZero() || now.Before(a.until))
}

// rememberedKey returns the key of an approval of equal requests.
func (g *guard) rememberedKey(r *Request) Digest {
	subject := r.Subject()
	return digestOf("dovetail remembered approval 2", g.opts.Name, string(subject[:]))
}

func rememberedStoreKey(key Digest) string { return "approval/remembered/" + key.String() }

// recall returns the id of the request in which a person has approved calls that are equal to r, ""
// for none. Any error means that the approver is asked.
func (g *guard) recall(ctx context.Context, r *Request) string {
	if g.opts.Remember <= 0 {
		return ""
	}
	key := g.rememberedKey(r)
	if g.opts.Store == nil {
		return g.grants.lookUp(key, time.Now())
	}
	item, err := g.opts.Store.Get(ctx, rememberedStoreKey(key))
	if errors.Is(err, store.ErrNotFound) {
		return ""
	}
	var stored rememberedApproval
	if err == nil {
		err = json.Unmarshal(item.Value, &stored)
	}
	if err != nil {
		g.opts.Logger.Warn("a remembered approval could not be read: the approver is asked", "request", r.ID, "error", err)
		return ""
	}
	// Options.Remember may have become shorter since.
	if !stored.isValid(time.Now(), g.opts.Remember) {
		return ""
	}
	return stored.Request
}

// remember keeps the approval of r for some time. If that fails, the approver is asked again.
func (g *guard) remember(ctx context.Context, r *Request, approved time.Time, howLong time.Duration) {
	key, until := g.rememberedKey(r), approved.Add(howLong)
	a := rememberedApproval{r.ID, approved.UnixMilli(), until.UnixMilli(), until}
	if g.opts.Store == nil {
		if !g.grants.keep(key, a, time.Now()) {
			g.opts.Logger.Warn("too many approvals are remembered: this one is not", "request", r.ID)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := g.storeApproval(ctx, rememberedStoreKey(key), a); err != nil {
		g.opts.Logger.Warn("an approval could not be remembered", "request", r.ID, "error", err)
	}
}

// forget ends the remembered approval of calls that are equal to r, since a person has rejected r.
func (g *guard) forget(ctx context.Context, r *Request) {
	if g.opts.Remember <= 0 {
		return
	}
	key := g.rememberedKey(r)
	if g.opts.Store == nil {
		g.grants.forget(key)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	item, err := g.opts.Store.Get(ctx, rememberedStoreKey(key))
	for err == nil {
		err = g.opts.Store.Delete(ctx, item.Key, item.Revision)
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		item, err = g.opts.Store.Get(ctx, item.Key)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		g.opts.Logger.Error("a remembered approval could not be revoked, and is valid until its time ends", "request", r.ID, "error", err)
	}
}

// storeApproval stores an approval. It replaces one that ends earlier.
func (g *guard) storeApproval(ctx context.Context, key string, a rememberedApproval) error {
	value, err := json.Marshal(a)
	if err != nil {
		return err
	}
	ttl := time.Until(a.until)
	if ttl <= 0 {
		return nil
	}
	if _, err = g.opts.Store.Create(ctx, key, value, ttl); !errors.Is(err, store.ErrExists) {
		return err
	}
	item, err := g.opts.Store.Get(ctx, key)
	if err != nil {
		return err
	}
	var earlier rememberedApproval
	if json.Unmarshal(item.Value, &earlier) == nil && earlier.Until >= a.Until {
		return nil
	}
	_, err = g.opts.Store.Update(ctx, key, value, item.Revision, ttl)
	return err
}

// lookUp returns the id of the request of a remembered approval that is still valid, "" for none.
func (s *grants) lookUp(key Digest, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.remembered[key]
	if ok && !a.isValid(now, maxRemember) {
		delete(s.remembered, key)
		return ""
	}
	return a.Request
}

// keep remembers an approval, and reports whether there is room for it.
func (s *grants) keep(key Digest, a rememberedApproval, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier, exists := s.remembered[key]
	if exists && earlier.isValid(now, maxRemember) && !earlier.until.Before(a.until) {
		return true
	}
	if !exists && len(s.remembered) >= maxRemembered {
		for key, a := range s.remembered {
			if !a.isValid(now, maxRemember) {
				delete(s.remembered, key)
			}
		}
		if len(s.remembered) >= maxRemembered {
			return false
		}
	}
	s.remembered[key] = a
	return true
}

// forget removes an approval.
func (s *grants) forget(key Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.remembered, key)
}
