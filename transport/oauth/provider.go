package oauth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// providerAge is how long the metadata of an identity provider is used.
const providerAge = 10 * time.Minute

// ErrLoginEnded says that a person has to log in again at the identity provider.
var ErrLoginEnded = errors.New("the login has ended at the identity provider")

// A Provider is an identity provider with which a program is registered, and at which people log in: to a website of the program,
// or through package [github.com/dovetail-go/dovetail/transport/oauth/proxy]. Clients of MCP use a [CodeFlow]. Its methods return
// an *[Error], a *[MetadataError] or an error of the network. They may be called concurrently.
type Provider struct {
	client       *Client
	registration Registration
	verifier     *JWTVerifier // of ID tokens
	known        atomic.Pointer[knownProvider]
	fixed        bool // the provider has no metadata, and known never changes
}

// A knownProvider is the metadata of a provider.
type knownProvider struct {
	*serverMetadata
	at time.Time // when it was fetched
}

// Provider returns the issuer of a registration. An issuer without metadata needs both endpoints. For any other issuer
// both are "".
// Provider fetches nothing. It returns an error if the registration or an endpoint is invalid.
func (c *Client) Provider(registration Registration, authorizationEndpoint, tokenEndpoint string) (*Provider, error) {
	if err := syntax.CheckIdentifier("Provider", registration.Issuer); err != nil {
		return nil, err
	}
	if err := registration.check(); err != nil {
		return nil, fmt.Errorf("the Client: %w", err)
	}
	verifier, err := NewJWTVerifier(&JWTOptions{
		Issuer: registration.Issuer, AnyType: true, AllowLoopback: c.options.AllowLoopback, AllowNetworks: c.options.AllowNetworks, Resolver: c.options.Resolver,
	})
	if err != nil {
		return nil, err
	}
	p := &Provider{client: c, registration: registration, verifier: verifier, fixed: authorizationEndpoint != "" || tokenEndpoint != ""}
	if !p.fixed {
		return p, nil
	}
	for _, endpoint := range []string{authorizationEndpoint, tokenEndpoint} {
		if err := c.guard.Check(endpoint); err != nil {
			return nil, err
		}
	}
	p.known.Store(&knownProvider{serverMetadata: &serverMetadata{
		issuer: registration.Issuer, authorizationEndpoint: authorizationEndpoint, tokenEndpoint: tokenEndpoint, authMethods: []string{methodPost, methodBasic, methodNone},
	}})
	return p, nil
}

// request returns a request to the provider. It fetches the metadata of the provider if necessary.
func (p *Provider) request(ctx context.Context) (*tokenRequest, error) {
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

// AuthorizationURL returns the URL at which a person logs in. config has the redirect URI and the scopes; the endpoints
// and the client id are added.
func (p *Provider) AuthorizationURL(ctx context.Context, config oauth2.Config, state string, options ...oauth2.AuthCodeOption) (string, error) {
	r, err := p.request(ctx)
	if err != nil {
		return "", err
	}
	config.ClientID = p.registration.ClientID
	return r.authorizationURL(config, state, options...)
}

// Exchange exchanges the code of an authorization response for tokens. It checks that the response is for the request
// with the state, and from the provider (RFC 9207).
func (p *Provider) Exchange(ctx context.Context, response url.Values, state, verifier, redirectURI string) (*oauth2.Token, error) {
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

// Identity returns the person who logged in: the claims of the ID token in a response of [Provider.Exchange], and nil if it has none. It checks the
// token and that it is for this login, whose authorization request had the nonce (OpenID Connect Core 1.0, section 3.1.3.7).
func (p *Provider) Identity(ctx context.Context, response *oauth2.Token, nonce string) (*Grant, error) {
	signed, ok := response.Extra("id_token").(string)
	if !ok {
		return nil, nil
	}
	identity, err := p.verifier.Verify(ctx, Secret(signed), p.registration.ClientID)
	if err != nil {
		return nil, err
	}
	claims, err := jsonscan.ReadObject(identity.Claims)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(syntax.Text(claims.Get("nonce"))), []byte(nonce)) != 1 {
		return nil, errors.New("the ID token is for another login: its nonce differs")
	}
	if party := syntax.Text(claims.Get("azp")); party != "" && party != p.registration.ClientID {
		return nil, errors.New("the ID token is for another client: its claim azp differs")
	}
	return identity, nil
}

// Refresh requests the next token. The error wraps [ErrLoginEnded] if the provider says that the login has ended.
func (p *Provider) Refresh(ctx context.Context, refreshToken string) (*oauth2.Token, error) {
	r, err := p.request(ctx)
	if err != nil {
		return nil, err
	}
	token, err := r.send(ctx, &p.registration, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refreshToken}})
	if endsLogin(err) {
		err = fmt.Errorf("%w: %w", ErrLoginEnded, err)
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

// Revoke revokes a refresh token, if the provider supports that (RFC 7009).
func (p *Provider) Revoke(ctx context.Context, refreshToken string) error {
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	r, err := p.request(ctx)
	if err != nil || r.server.revocationEndpoint == "" {
		return err
	}
	return r.revoke(ctx, &p.registration, refreshToken, "refresh_token")
}
