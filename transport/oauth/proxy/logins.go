package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/store"
)

// errSpent says that a code or refresh token has been used before, or that its login has ended.
var errSpent = errors.New("the code or token was used before")

// A loginUses is what the store has of a login. It needs the same room however often the login is refreshed.
type loginUses struct {
	Uses  int  `json:"uses"` // how many of its codes and refresh tokens have been used
	Ended bool `json:"ended,omitempty"`
}

// openStore opens the records of logins. Those in the memory of this process are bounded: the login that was
// not used for the longest time is forgotten, because otherwise nobody could log in until earlier logins end.
func (p *Proxy) openStore(logins int) (err error) {
	kv := p.options.Store
	if kv == nil {
		if kv, err = store.NewMemory(nil); err != nil {
			return err
		}
		p.recent, err = lru.NewWithEvict(logins, func(key string, _ struct{}) { _ = p.logins.Delete(context.Background(), key, nil) })
	}
	p.logins = state.NewRecords[loginUses](kv, nil)
	return err
}

// change changes the record of a login.
func (p *Proxy) change(ctx context.Context, g *grant, change func(*state.Record[loginUses]) error) error {
	key := p.loginKey(g.Login)
	if p.recent != nil {
		p.recent.Add(key, struct{}{})
	}
	_, err := p.logins.Put(ctx, key, change)
	return err
}

// spend uses the code or refresh token that contains g. It returns errSpent if
// that is not the first use, and another error if the store fails. restore undoes it.
func (p *Proxy) spend(ctx context.Context, g *grant) (restore func(), err error) {
	before := g.Uses
	err = p.change(ctx, g, func(rec *state.Record[loginUses]) error {
		// A store that other processes share has the record of each login, so a login without one ends. Memory
		// lacks the logins of earlier processes, so such a login continues.
		known := rec.Stored() || p.recent == nil || before == 0
		if rec.Value.Ended || known && rec.Value.Uses != before {
			return errSpent
		}
		rec.Value.Uses, rec.Until = before+1, loginEnd(g)
		return nil
	})
	if err != nil {
		return nil, err
	}
	g.Uses++
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTimeout)
		defer cancel()
		_, err := p.logins.Update(ctx, p.loginKey(g.Login), func(rec *state.Record[loginUses]) error {
			if rec.Value.Uses != before+1 {
				return state.ErrUnchanged
			}
			rec.Value.Uses = before
			return nil
		})
		if err != nil {
			p.options.Logger.Error("oauth: the store cannot restore a refresh token", "error", err)
		}
	}, nil
}

// end ends the login of a grant: its refresh tokens are no longer accepted, nor are its access tokens
// by this process.
func (p *Proxy) end(ctx context.Context, g *grant) error {
	err := p.change(ctx, g, func(rec *state.Record[loginUses]) error {
		rec.Value.Ended = true
		rec.Extend(loginEnd(g))
		return nil
	})
	if err != nil {
		return err
	}
	p.ended.Add(hashOf(g.Login), struct{}{})
	return nil
}

// hasEnded reports whether this process knows that a login has ended.
func (p *Proxy) hasEnded(login string) bool { return p.ended.Contains(hashOf(login)) }

// loginKey returns the key of the record of a login.
func (p *Proxy) loginKey(login string) string {
	hash := hashOf(p.options.Issuer + "\x00" + login)
	return "oauth/logins/" + hex.EncodeToString(hash[:])
}

// loginEnd returns when the record of a login ends. With a shared store, a refresh token without it is refused; a
// code is accepted.
func loginEnd(g *grant) time.Time {
	return time.Now().Add(max(time.Until(g.Expires), codeLife) + maxClockSkew)
}
