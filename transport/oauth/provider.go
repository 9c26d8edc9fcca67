package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/dovetail-go/dovetail/transport/oauth/internal/provider"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// providerAge is how long the metadata of an identity provider is used.
const providerAge = 10 * time.Minute

// An identityProvider sends the requests of package proxy to the issuer of a registration.
type identityProvider struct {
	client       *Client
	registration Registration
	known        atomic.Pointer[knownProvider]
	fixed        bool // the provider has no metadata, and known never changes
}

// A knownProvider is the metadata of a provider.
type knownProvider struct {
	*serverMetadata
	at time.Time // when it was fetched
}

// Provider returns what [github.com/dovetail-go/dovetail/transport/oauth/proxy] needs to log
// people in at the issuer of a registration. Other programs use a [CodeFlow]. It fetches nothing. It
// returns an error if the registration or an endpoint is invalid.
func (c *Client) Provider(registration Registration, at provider.Endpoints) (provider.Provider, error) {
	if err := syntax.CheckIdentifier("Provider", registration.Issuer); err != nil {
		return nil, err
	}
	if err := registration.check(); err != nil {
		return nil, fmt.Errorf("the Client: %w", err)
	}
	p := &identityProvider{client: c, registration: registration, fixed: at != provider.Endpoints{}}
	if !p.fixed {
		return p, nil
	}
	for _, endpoint := range []string{at.Authorization, at.Token} {
		if err := c.guard.Check(endpoint); err != nil {
			return nil, err
		}
	}
	p.known.Store(&knownProvider{serverMetadata: &serverMetadata{
		issuer: registration.Issuer, authorizationEndpoint: at.Authorization, tokenEndpoint: at.Token, authMethods: []string{MethodPost, MethodBasic, MethodNone},
	}})
	return p, nil
}

// request returns a request to the provider. It fetches the metadata of the provider if necessary.
func (p *identityProvider) request(ctx context.Context) (*tokenRequest, error) {
	known := p.known.Load()
	if known == nil || !p.fixed && time.Since(known.at) >= providerAge {
		m, err := p.client.authorizationServer(ctx, p.registration.Issuer, false)
		if err != nil {
			return nil, err
		}
		known = &knownProvider{m, time.Now()}
		p.known.Store(known)
	}
	return &tokenRequest{client: p.client, server: known.serverMetadata}, nil
}

// AuthorizationURL implements [provider.Provider].
func (p *identityProvider) AuthorizationURL(ctx context.Context, config oauth2.Config, state string, options ...oauth2.AuthCodeOption) (string, error) {
	r, err := p.request(ctx)
	if err != nil {
		return "", err
	}
	config.ClientID = p.registration.ClientID
	return r.authorizationURL(config, state, options...)
}

// Exchange implements [provider.Provider].
func (p *identityProvider) Exchange(ctx context.Context, response url.Values, state, verifier, redirectURI string) (*oauth2.Token, error) {
	r, err := p.request(ctx)
	if err != nil {
		return nil, err
	}
	code, err := r.server.readAuthorization(response, state)
	if err != nil {
		return nil, err
	}
	return r.send(ctx, &p.registration, url.Values{"grant_type": {"authorization_code"}, "code": {code}, "code_verifier": {verifier}, "redirect_uri": {redirectURI}})
}

// Refresh implements [provider.Provider].
func (p *identityProvider) Refresh(ctx context.Context, refreshToken string) (*oauth2.Token, error) {
	r, err := p.request(ctx)
	if err != nil {
		return nil, err
	}
	token, err := r.send(ctx, &p.registration, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refreshToken}})
	if endsLogin(err) {
		err = fmt.Errorf("%w: %w", provider.ErrEnded, err)
	}
	return token, err
}

// endsLogin reports whether the provider's error means that the person has to log in again.
//
// These codes say so: invalid_grant (RFC 6749, section 5.2), access_denied (RFC 6749, section 4.1.2.1),
// bad_refresh_token of GitHub, and interaction_required, login_required and consent_required (OpenID
// Connect Core 1.0, section 3.1.2.6). An error with any other code, or with none, may be about the
// proxy, its configuration or the provider. The login then lasts until that is corrected.
func endsLogin(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	if !ok || !isFinal(err) {
		return false
	}
	switch refused.Code {
	case "invalid_grant", "bad_refresh_token", "access_denied", "interaction_required", "login_required", "consent_required":
		return true
	}
	return false
}

// Revoke implements [provider.Provider].
func (p *identityProvider) Revoke(ctx context.Context, refreshToken string) error {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	r, err := p.request(ctx)
	if err != nil || r.server.revocationEndpoint == "" {
		return err
	}
	return r.revoke(ctx, &p.registration, refreshToken, "refresh_token")
}
