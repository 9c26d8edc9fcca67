package proxy

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

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

// spend uses the code or refresh token that contains g. It returns errSpent if
// that is not the first use, and another error if the store fails. restore undoes it.
func (p *Proxy) spend(ctx context.Context, g *grant) (restore func(), err error) {
	key, before := p.loginKey(g.Login), g.Uses
	change := func(rec *state.Record[loginUses]) error {
		// After a restart without a shared store, the uses before it are not known. A login without a record then
		// continues, and one with a shared store does not.
		known := rec.Stored() || p.options.Store != nil || before == 0
		if rec.Value.Ended || known && rec.Value.Uses != before {
			return errSpent
		}
		rec.Value.Uses, rec.Until = before+1, loginEnd(g)
		return nil
	}
	_, err = p.logins.Load().Put(ctx, key, change)
	if errors.Is(err, store.ErrFull) && p.options.Store == nil {
		// Otherwise nobody could log in until earlier logins end, which takes weeks.
		p.options.Logger.Warn("oauth: the memory for logins is full: their used refresh tokens are forgotten")
		if err = p.forgetLogins(); err == nil {
			_, err = p.logins.Load().Put(ctx, key, change)
		}
	}
	if err != nil {
		return nil, err
	}
	g.Uses++
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providerTimeout)
		defer cancel()
		_, err := p.logins.Load().Update(ctx, key, func(rec *state.Record[loginUses]) error {
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
	_, err := p.logins.Load().Put(ctx, p.loginKey(g.Login), func(rec *state.Record[loginUses]) error {
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

// forgetLogins replaces the logins of a proxy without a store.
func (p *Proxy) forgetLogins() error {
	memory, err := store.NewMemory(nil)
	if err == nil {
		logins := state.NewRecords[loginUses](memory, nil)
		p.logins.Store(&logins)
	}
	return err
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
