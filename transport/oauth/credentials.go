package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// credentials are an access token and what is needed to use and refresh it. They are
// immutable, except for the counter.
type credentials struct {
	savedCredentials
	key   *dpopKey // nil if the token is not bound to a key
	isNew bool     // a flow has just obtained it; it was not refreshed
	uses  atomic.Int64
}

// savedCredentials is the part of credentials that the store holds.
type savedCredentials struct {
	Issuer       string          `json:"issuer"` // tokens are sent to no other authorization server
	Resource     string          `json:"resource"`
	ClientID     string          `json:"client_id,omitempty"`
	Requested    []string        `json:"asked,omitempty"`   // scopes
	Granted      []string        `json:"granted,omitempty"` // scopes
	AccessToken  string          `json:"access_token"`
	RefreshToken string          `json:"refresh_token,omitempty"`
	Expires      time.Time       `json:"expires,omitzero"` // zero if not known
	Key          json.RawMessage `json:"key,omitempty"`
	RedirectURI  string          `json:"redirect_uri,omitempty"`
	Legacy       bool            `json:"legacy,omitempty"` // the issuer had no metadata
}

// newCredentials checks a token response.
func newCredentials(r *tokenRequest, t *oauth2.Token) (*credentials, error) {
	switch {
	case !syntax.IsWord(t.AccessToken) || len(t.AccessToken) > maxToken || len(t.RefreshToken) > maxToken:
		return nil, errors.New("expected a token of printable characters, at most 64 KiB")
	case r.key != nil && !strings.EqualFold(t.TokenType, "DPoP"):
		return nil, errors.New("expected a token that is bound to the key (RFC 9449)")
	case r.key == nil && !strings.EqualFold(t.Type(), "Bearer"):
		return nil, errors.New("expected a token of the type Bearer, got " + quote(t.TokenType))
	}
	c := &credentials{key: r.key, savedCredentials: savedCredentials{
		Issuer: r.server.issuer, Resource: r.resource, ClientID: r.clientID, Requested: r.scopes, Granted: r.scopes,
		AccessToken: t.AccessToken, RefreshToken: t.RefreshToken, RedirectURI: r.redirectURI, Legacy: r.server.url == "",
	}}
	if c.key != nil {
		c.Key = c.key.marshal()
	}
	if !t.Expiry.IsZero() {
		c.Expires = r.client.options.Clock().Add(time.Until(t.Expiry))
	}
	if scope, ok := t.Extra("scope").(string); ok {
		c.Granted = syntax.SplitScope(scope) // without it, the requested scopes are granted: RFC 6749, section 5.1
	}
	return c, nil
}

// withoutRefresh returns a copy without the refresh token.
func (c *credentials) withoutRefresh() *credentials {
	without := &credentials{savedCredentials: c.savedCredentials, key: c.key}
	without.RefreshToken = ""
	return without
}

// isNewerThan reports whether c was issued after old.
func (c *credentials) isNewerThan(old *credentials) bool {
	return old == nil || c.AccessToken != old.AccessToken && (c.Expires.IsZero() || !c.Expires.Before(old.Expires))
}

func (c *credentials) hasExpired(now time.Time) bool {
	return !c.Expires.IsZero() && now.After(c.Expires)
}

// credentialsKey is the key of the store for a server's credentials.
func credentialsKey(server string) string { return "login " + server }

func (c *credentials) marshal() (Secret, error) {
	text, err := json.Marshal(c.savedCredentials) //nolint:gosec // the store keeps secrets
	return Secret(text), err
}

var errSaved = errors.New("the saved value is malformed")

func parseCredentials(text Secret) (*credentials, error) {
	c := &credentials{}
	if json.Unmarshal([]byte(text), &c.savedCredentials) != nil || c.Issuer == "" || !syntax.IsWord(c.AccessToken) {
		return nil, errSaved
	}
	if c.Key != nil {
		var err error
		if c.key, err = parseDPoPKey(c.Key); err != nil {
			return nil, errSaved
		}
	}
	return c, nil
}

// A Secret is a token, password, key or assertion. Printed, logged or marshalled, it is
// "[secret]"; string(s) is the secret itself.
//
// Package fmt does not call the methods of unexported fields, so a field with a Secret
// should be exported or behind a pointer. Nor does it call methods for a verb that does not
// fit, such as %s for a pointer to a struct, which go vet reports.
type Secret string

const redacted = "[secret]"

// String returns "[secret]".
func (s Secret) String() string { return redacted }

// GoString returns "[secret]".
func (s Secret) GoString() string { return redacted }

// Format prints "[secret]" for every verb.
func (s Secret) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, redacted) }

// LogValue returns "[secret]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "[secret]", also for encoding/json.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
