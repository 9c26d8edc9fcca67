// Package provider contains the types with which package proxy uses package oauth to log people
// in at an identity provider. They are internal, because they are for no other program.
package provider

import (
	"context"
	"errors"
	"net/url"

	"golang.org/x/oauth2"
)

// Endpoints are the endpoints of a provider that has no metadata. They are zero if it has.
type Endpoints struct{ Authorization, Token string }

// ErrEnded says that a person has to log in again at the provider.
var ErrEnded = errors.New("the login has ended at the identity provider")

// A Provider is an identity provider with which a program is registered. The errors of its methods
// are those of package oauth or of the network. It is safe for concurrent use.
type Provider interface {
	// AuthorizationURL returns the URL at which a person logs in. config has the redirect URI and
	// the scopes; the provider and the client are added.
	AuthorizationURL(ctx context.Context, config oauth2.Config, state string, options ...oauth2.AuthCodeOption) (string, error)
	// Exchange exchanges the code of an authorization response for tokens. It checks that the
	// response is for the request with the state, and from the provider.
	Exchange(ctx context.Context, response url.Values, state, verifier, redirectURI string) (*oauth2.Token, error)
	// Refresh requests the next token. The error wraps ErrEnded if the provider says so.
	Refresh(ctx context.Context, refreshToken string) (*oauth2.Token, error)
	// Revoke revokes a refresh token, if the provider supports that (RFC 7009).
	Revoke(ctx context.Context, refreshToken string) error
}
