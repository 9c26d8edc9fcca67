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
	leave, err := c.enterIssuer(ctx, issuer)
	if err != nil {
		return err
	}
	defer leave()
	as, err := c.authorizationServer(ctx, issuer, resource.legacy)
	if err != nil {
		return err
	}
	if old != nil && (old.issuer != as.issuer || old.resource != resource.resource || as.url == "" && !old.legacy) {
		old = nil // what one server has given is nothing to another, nor to where it might be
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
	if old != nil && old.refresh != "" && old.key == ask.key && d.status != http.StatusForbidden && contains(old.asked, ask.scopes) {
		if err := c.refreshAt(ctx, a, server, old, as); err == nil || !isAnswer(err) {
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
func (c *Client) refresh(ctx context.Context, a *access, server *url.URL, old *login) error {
	leave, err := c.enterIssuer(ctx, old.issuer)
	if err != nil {
		return err
	}
	defer leave()
	as, err := c.authorizationServer(ctx, old.issuer, old.legacy)
	if err != nil {
		return err
	}
	return c.refreshAt(ctx, a, server, old, as)
}

// refreshAt gets the next token from the authorization server that has given the last.
// The refresh token may be another one then (RFC 9700, section 2.2.2); if none came, package
// oauth2 keeps it.
func (c *Client) refreshAt(ctx context.Context, a *access, server *url.URL, old *login, as *serverMetadata) error {
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
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// Once it is asked for, the next refresh token must be kept, whoever still waits.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	next, err := ask.refresh(ctx, registration, old)
	switch {
	case err == nil:
		return c.keep(ctx, a, next)
	case !isCode(err, "invalid_grant"):
		return err
	}
	// Another program may have been faster.
	if stored := c.recall(ctx, a, server); stored != nil {
		return stored
	}
	if a.login.Load() != old {
		return nil
	}
	return err
}

// refresh asks for the next token.
func (a *ask) refresh(ctx context.Context, by *Registration, old *login) (*login, error) {
	// Without a scope it is for all that was granted, which may be less than was asked for.
	// RFC 6749, section 6.
	params := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {string(old.refresh)}, "resource": {old.resource}}
	token, err := a.requestAt(ctx, a.server, by, a.key, params)
	if err != nil {
		return nil, err
	}
	next, err := newLogin(a, token)
	if err != nil {
		return nil, &AnswerError{Issuer: a.server.issuer, Err: err}
	}
	if _, told := token.Extra("scope").(string); !told {
		next.granted = old.granted
	}
	return next, nil
}

var errOtherClient = errors.New("the token belongs to a registration that is gone")

// endsRefreshing tells an answer after which a refresh token is of no use any more. RFC
// 6749, section 5.2.
func endsRefreshing(err error) bool {
	return isCode(err, "invalid_grant") || isCode(err, "invalid_client") || isCode(err, "unauthorized_client") || errors.Is(err, errOtherClient)
}

// isAnswer tells what an authorization server says to a refresh token, after which another
// way can be tried, from a failure that may pass.
func isAnswer(err error) bool {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Status < http.StatusInternalServerError && !mayPass(refused.Status)
	}
	if missing, ok := errors.AsType[*MetadataError](err); ok {
		return missing.Err == nil
	}
	_, unreadable := errors.AsType[*AnswerError](err)
	return unreadable || errors.Is(err, errOtherClient)
}

// mayPass tells the statuses between 400 and 499 that say nothing for good.
func mayPass(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests
}
