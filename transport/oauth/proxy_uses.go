package oauth

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// errSpent says that a code or refresh token has been used before, or that its login has ended.
var errSpent = errors.New("the code or token was used before")

// endedLogin is the value of a login that has ended.
const endedLogin = "ended"

// spend uses the code or refresh token that contains g, whose text is sealed. It returns errSpent if
// that is not the first use, and another error if the store fails. restore undoes it.
//
// The store has one value for each login: the number of its code and refresh tokens that have been
// used. So a login needs the same room however often it is refreshed.
func (p *Proxy) spend(ctx context.Context, g *proxyGrant, sealed string) (restore func(), err error) {
	shared := p.options.Store
	if shared == nil {
		if known, _ := p.used.ContainsOrAdd(hashOf(sealed), struct{}{}); known {
			return nil, errSpent
		}
		return func() { p.used.Remove(hashOf(sealed)) }, nil
	}
	key, before := p.loginKey(g.Login), g.Uses
	next := []byte(strconv.Itoa(before + 1))
	var revision uint64
	if before == 0 { // a code
		revision, err = shared.Create(ctx, key, next, loginLife(g))
	} else {
		var item store.Item
		item, err = shared.Get(ctx, key)
		if err == nil && string(item.Value) != strconv.Itoa(before) {
			return nil, errSpent
		}
		if err == nil {
			revision, err = shared.Update(ctx, key, next, item.Revision, loginLife(g))
		}
	}
	switch {
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		return nil, errSpent
	case err != nil:
		return nil, err
	}
	g.Uses++
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		defer cancel()
		if _, err := shared.Update(ctx, key, []byte(strconv.Itoa(before)), revision, loginLife(g)); err != nil {
			p.options.Logger.Error("oauth: the store cannot restore a refresh token", "error", err)
		}
	}, nil
}

// end ends the login of a grant: its refresh tokens are no longer accepted, nor are its access tokens
// by this process.
func (p *Proxy) end(ctx context.Context, g *proxyGrant) error {
	if err := p.endAtAll(ctx, g); err != nil {
		return err
	}
	p.ended.Add(hashOf(g.Login), struct{}{})
	return nil
}

// endAtAll ends the login of a grant in the store, if there is one.
func (p *Proxy) endAtAll(ctx context.Context, g *proxyGrant) error {
	shared, key := p.options.Store, p.loginKey(g.Login)
	if shared == nil {
		return nil
	}
	for {
		item, err := shared.Get(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			_, err = shared.Create(ctx, key, []byte(endedLogin), loginLife(g))
		case err == nil && string(item.Value) == endedLogin:
			return nil
		case err == nil:
			_, err = shared.Update(ctx, key, []byte(endedLogin), item.Revision, loginLife(g))
		}
		if !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// hasEnded reports whether this process knows that a login has ended.
func (p *Proxy) hasEnded(login string) bool { return p.ended.Contains(hashOf(login)) }

// loginKey returns the key of a login in the store.
func (p *Proxy) loginKey(login string) string {
	hash := hashOf(p.options.Issuer + "\x00" + login)
	return "oauth/login/" + hex.EncodeToString(hash[:])
}

// loginLife returns how long the value of a login is stored. A refresh token without it is refused, a
// code is accepted.
func loginLife(g *proxyGrant) time.Duration {
	return max(time.Until(g.Expires), codeLife) + maxClockSkew
}
