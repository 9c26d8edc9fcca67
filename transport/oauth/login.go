package oauth

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
)

// A login is a token, and what must be known to use it and get the next. It does not
// change.
type login struct {
	issuer   string // whose the token is; it goes to no other
	resource string // what it is for
	clientID string
	asked    []string // the scopes that were asked for
	granted  []string // the scopes that were given
	access   Secret
	refresh  Secret
	expires  time.Time // zero if nobody knows
	key      *proofKey // nil if the token is not bound to one
	redirect string    // where the browser brought the answer
	legacy   bool      // the issuer had no metadata

	fresh bool // it was just asked for, and has not been refreshed
	uses  atomic.Int64
}

// newLogin is the login that comes of an answer of an authorization server.
func newLogin(a *ask, t *oauth2.Token) (*login, error) {
	l := &login{
		issuer: a.server.issuer, resource: a.resource, clientID: a.clientID, asked: a.scopes, granted: a.scopes,
		access: Secret(t.AccessToken), refresh: Secret(t.RefreshToken), key: a.key, redirect: a.redirect,
		legacy: a.server.url == "",
	}
	if !t.Expiry.IsZero() {
		l.expires = a.client.options.Clock().Add(time.Until(t.Expiry))
	}
	if scope, ok := t.Extra("scope").(string); ok {
		l.granted = splitScope(scope) // RFC 6749, section 5.1: absent, they are those asked for
	}
	switch {
	case !isHeaderText(t.AccessToken) || len(t.AccessToken) > maxToken || len(t.RefreshToken) > maxToken:
		return nil, errors.New("expected a token of printable characters, at most 64 KiB")
	case a.key != nil && !strings.EqualFold(t.TokenType, "DPoP"):
		return nil, errors.New("expected a token that is bound to the key (RFC 9449), got one that is not")
	case a.key == nil && !strings.EqualFold(t.Type(), "Bearer"):
		return nil, errors.New("expected a token of the type Bearer, got " + quote(t.TokenType))
	}
	return l, nil
}

// withoutRefresh is the login when its refresh token is of no use any more.
func (l *login) withoutRefresh() *login {
	return &login{
		issuer: l.issuer, resource: l.resource, clientID: l.clientID, asked: l.asked, granted: l.granted,
		access: l.access, expires: l.expires, key: l.key, redirect: l.redirect, legacy: l.legacy,
	}
}

// isNewerThan tells a login that has come after another one.
func (l *login) isNewerThan(old *login) bool {
	return old == nil || l.access != old.access && (l.expires.IsZero() || !l.expires.Before(old.expires))
}

// endsBefore tells whether the token should not be used any more if there is another.
func (l *login) endsBefore(now time.Time) bool { return l.hasEnded(now.Add(expiryMargin)) }

func (l *login) hasEnded(now time.Time) bool { return !l.expires.IsZero() && now.After(l.expires) }

// loginKey is where the login for a server is kept.
func loginKey(server string) string { return "login " + server }

// A savedLogin is a login as it is kept.
type savedLogin struct {
	Issuer   string          `json:"issuer"`
	Resource string          `json:"resource"`
	ClientID string          `json:"client_id,omitempty"`
	Asked    []string        `json:"asked,omitempty"`
	Granted  []string        `json:"granted,omitempty"`
	Access   string          `json:"access_token"`
	Refresh  string          `json:"refresh_token,omitempty"`
	Expires  time.Time       `json:"expires,omitzero"`
	Key      json.RawMessage `json:"key,omitempty"`
	Redirect string          `json:"redirect_uri,omitempty"`
	Legacy   bool            `json:"legacy,omitempty"`
}

func (l *login) save() (Secret, error) {
	saved := savedLogin{
		Issuer: l.issuer, Resource: l.resource, ClientID: l.clientID, Asked: l.asked, Granted: l.granted,
		Access: string(l.access), Refresh: string(l.refresh), Expires: l.expires, Redirect: l.redirect, Legacy: l.legacy,
	}
	if l.key != nil {
		saved.Key = l.key.save()
	}
	text, err := json.Marshal(saved) //nolint:gosec // it is for the store
	return Secret(text), err
}

var errSaved = errors.New("what was saved cannot be read")

func parseLogin(text Secret) (*login, error) {
	var saved savedLogin
	if json.Unmarshal([]byte(text), &saved) != nil || saved.Issuer == "" || !isHeaderText(saved.Access) {
		return nil, errSaved
	}
	l := &login{
		issuer: saved.Issuer, resource: saved.Resource, clientID: saved.ClientID, asked: saved.Asked, granted: saved.Granted,
		access: Secret(saved.Access), refresh: Secret(saved.Refresh), expires: saved.Expires, redirect: saved.Redirect, legacy: saved.Legacy,
	}
	if saved.Key != nil {
		var err error
		if l.key, err = parseProofKey(saved.Key); err != nil {
			return nil, errSaved
		}
	}
	return l, nil
}

// isHeaderText tells a text that is one word of a header.
func isHeaderText(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return text != ""
}
