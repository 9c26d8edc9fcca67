package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// renew gets a token that meets a demand. The caller has the server's turn.
func (c *Client) renew(ctx context.Context, a *access, server *url.URL, d demand) error {
	old := a.login.Load()
	if d.status == http.StatusForbidden && old != nil {
		if err := a.stepUp(old, d.scopes()); err != nil {
			return err
		}
	}
	resource, err := c.discover(ctx, server, d.params["resource_metadata"])
	if err != nil {
		return err
	}
	issuer := c.choose(resource, old)
	leave, err := c.issuerTurn(issuer).take(ctx)
	if err != nil {
		return err
	}
	defer leave()
	as, err := c.authorizationServer(ctx, issuer, resource.legacy)
	if err != nil {
		return err
	}
	if old != nil && (old.issuer != as.issuer || old.resource != resource.resource) {
		old = nil // what one server has given is nothing to another
	}
	ask := &ask{client: c, server: as, resource: resource.resource, scopes: c.wanted(d, resource, as, old)}
	if old != nil {
		ask.key, ask.redirect = old.key, old.redirect
	}
	if ask.key == nil && (c.options.DPoP || d.dpop || resource.boundTokens) {
		if ask.key, err = newProofKey(); err != nil {
			return err
		}
	}
	if old != nil && old.refresh != "" && d.status != http.StatusForbidden && contains(old.asked, ask.scopes) {
		switch err := c.refreshAt(ctx, a, old, as); {
		case err == nil:
			return nil
		case !isRefusal(err):
			return err
		}
	}
	c.options.Logger.Debug("asking for a token", "server", a.key, "issuer", as.issuer, "scopes", ask.scopes)
	token, err := c.options.Flow.token(ctx, ask)
	if err != nil {
		return err
	}
	fresh, err := newLogin(ask, token)
	if err != nil {
		return &AnswerError{Issuer: as.issuer, Err: err}
	}
	fresh.fresh = true
	if d.status != http.StatusForbidden {
		clear(a.stepUps)
	}
	return c.keep(ctx, a, fresh)
}

// stepUp counts how often scopes were demanded, and refuses what cannot help.
func (a *access) stepUp(old *login, demanded []string) error {
	key := strings.Join(slices.Sorted(slices.Values(demanded)), " ")
	if contains(old.granted, demanded) || a.stepUps[key] >= maxStepUps || len(a.stepUps) >= maxChallengedScopes {
		return &StepUpError{Scopes: demanded, Granted: old.granted}
	}
	a.stepUps[key]++
	return nil
}

// choose takes one of a resource's authorization servers: one that knows this client
// already, or the first.
func (c *Client) choose(resource *resourceMetadata, old *login) string {
	for _, issuer := range resource.issuers {
		if slices.ContainsFunc(c.options.Registrations, func(r Registration) bool { return r.Issuer == issuer }) {
			return issuer
		}
	}
	if old != nil && slices.Contains(resource.issuers, old.issuer) {
		return old.issuer
	}
	return resource.issuers[0]
}

// refresh gets the next token for one that ends. The caller has the server's turn.
func (c *Client) refresh(ctx context.Context, a *access, old *login) error {
	leave, err := c.issuerTurn(old.issuer).take(ctx)
	if err != nil {
		return err
	}
	defer leave()
	as, err := c.authorizationServer(ctx, old.issuer, isOrigin(old.issuer))
	if err != nil {
		return err
	}
	return c.refreshAt(ctx, a, old, as)
}

// refreshAt gets the next token from the authorization server that has given the last.
// The refresh token may be another one then (RFC 9700, section 2.2.2); if none came, package
// oauth2 keeps it.
func (c *Client) refreshAt(ctx context.Context, a *access, old *login, as *serverMetadata) error {
	if old.issuer != as.issuer {
		return &IssuerError{Expected: old.issuer, Got: as.issuer}
	}
	ask := &ask{client: c, server: as, resource: old.resource, scopes: old.asked, key: old.key, redirect: old.redirect}
	registration, err := ask.known(ctx)
	if err != nil {
		return err
	}
	if registration == nil || registration.ClientID != old.clientID {
		return errOtherClient
	}
	ask.clientID = registration.ClientID
	// Without a scope it is for all that was granted, which may be less than was asked for.
	// RFC 6749, section 6.
	params := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {string(old.refresh)}, "resource": {old.resource}}
	token, err := ask.requestAt(ctx, as, registration, ask.key, params)
	if err != nil {
		return err
	}
	next, err := newLogin(ask, token)
	if err != nil {
		return &AnswerError{Issuer: as.issuer, Err: err}
	}
	if _, told := token.Extra("scope").(string); !told {
		next.granted = old.granted
	}
	return c.keep(ctx, a, next)
}

var errOtherClient = errors.New("the token belongs to a registration that is gone")

// isRefusal tells a failure of a refresh token, after which another way is tried, from
// one of the network.
func isRefusal(err error) bool {
	refused, ok := errors.AsType[*Error](err)
	_, untyped := errors.AsType[*AnswerError](err)
	return ok && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests || untyped || errors.Is(err, errOtherClient)
}
