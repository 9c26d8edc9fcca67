package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"golang.org/x/oauth2"
)

// Names of RFC 7523, RFC 8693 and the draft of Identity Assertion JWT Authorization
// Grants. None is a secret.
const (
	grantJWTBearer     = "urn:ietf:params:oauth:grant-type:jwt-bearer"     //nolint:gosec // see above
	grantTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange" //nolint:gosec // see above
	typeIDJAG          = "urn:ietf:params:oauth:token-type:id-jag"
)

// ClientCredentials gets tokens for the program itself, without a person: the client
// credentials grant. RFC 6749, section 4.4. There must be a [Registration] with a Secret
// or a Key.
type ClientCredentials struct{}

func (*ClientCredentials) check(opts *ClientOptions) error {
	if len(opts.Registrations) == 0 {
		return errors.New("oauth: ClientCredentials need one of ClientOptions.Registrations")
	}
	for i, registration := range opts.Registrations {
		if registration.Secret == "" && registration.Key == nil {
			return fmt.Errorf("oauth: Registrations[%d]: ClientCredentials need a Secret or a Key", i)
		}
	}
	return nil
}

func (*ClientCredentials) token(ctx context.Context, a *ask) (*oauth2.Token, error) {
	registration, err := a.mustBeGiven(ctx)
	if err != nil {
		return nil, err
	}
	return a.request(ctx, registration, url.Values{"grant_type": {"client_credentials"}})
}

// A JWTBearer gets tokens for a workload that something else vouches for, such as the
// platform that it runs on: workload identity federation with the JWT bearer grant. RFC
// 7523, section 2.1. A refusal is final.
type JWTBearer struct {
	// Assertion returns the workload's JWT, which should be for the authorization server
	// alone. It is called for each token. Required.
	Assertion func(ctx context.Context, issuer string) (Secret, error)
	// Trust says whether the assertion may go to an authorization server, which any MCP
	// server can name, and which could use it elsewhere. Default only to those that
	// ClientOptions.Registrations name as an Issuer, and to those in any case.
	Trust func(issuer string) bool
}

func (f *JWTBearer) check(*ClientOptions) error {
	if f.Assertion == nil {
		return errors.New("oauth: expected a JWTBearer with an Assertion")
	}
	return nil
}

func (f *JWTBearer) token(ctx context.Context, a *ask) (*oauth2.Token, error) {
	if !f.trusts(a) {
		return nil, &RegistrationError{Issuer: a.server.issuer, Reason: "no assertion is sent to a server that neither ClientOptions.Registrations nor JWTBearer.Trust names"}
	}
	registration, err := a.given(ctx)
	if err != nil {
		return nil, err
	}
	if registration == nil {
		registration = &Registration{Issuer: a.server.issuer, Method: MethodNone} // the assertion says who it is
	}
	assertion, err := f.Assertion(ctx, a.server.issuer)
	if err != nil {
		return nil, err
	}
	return a.request(ctx, registration, url.Values{"grant_type": {grantJWTBearer}, "assertion": {string(assertion)}})
}

func (f *JWTBearer) trusts(a *ask) bool {
	return slices.ContainsFunc(a.client.options.Registrations, func(r Registration) bool { return r.Issuer == a.server.issuer }) ||
		f.Trust != nil && f.Trust(a.server.issuer)
}

// EnterpriseManaged gets tokens for a person whom the company's identity provider has
// logged in already, and where the company decides what may be connected: the identity
// provider gives an Identity Assertion JWT Authorization Grant for the person's ID token
// (RFC 8693), and the authorization server gives a token for that (RFC 7523). There must
// be a [Registration] with the authorization server.
type EnterpriseManaged struct {
	// Issuer is the identity provider. Required.
	Issuer string
	// Client is what the identity provider knows this client by. Required; an Issuer in it
	// must be the one above.
	Client Registration
	// Subject returns what the identity provider has said of the person. It is called for
	// each token. Required.
	Subject func(ctx context.Context) (Secret, error)
	// SubjectType is the type of that. Default
	// "urn:ietf:params:oauth:token-type:id_token".
	SubjectType string
}

func (f *EnterpriseManaged) check(opts *ClientOptions) error {
	switch {
	case f.Issuer == "" || f.Subject == nil:
		return errors.New("oauth: expected an EnterpriseManaged with an Issuer and a Subject")
	case len(opts.Registrations) == 0:
		return errors.New("oauth: EnterpriseManaged needs one of ClientOptions.Registrations, for the authorization server")
	case f.Client.Issuer != "" && f.Client.Issuer != f.Issuer:
		return fmt.Errorf("oauth: the Client of EnterpriseManaged: %w", &IssuerError{Expected: f.Issuer, Got: f.Client.Issuer})
	}
	return f.Client.check()
}

func (f *EnterpriseManaged) token(ctx context.Context, a *ask) (*oauth2.Token, error) {
	registration, err := a.mustBeGiven(ctx)
	if err != nil {
		return nil, err
	}
	grant, err := f.exchange(ctx, a)
	if err != nil {
		return nil, err
	}
	return a.request(ctx, registration, url.Values{"grant_type": {grantJWTBearer}, "assertion": {grant}})
}

// exchange has the identity provider vouch for the person to the authorization server.
func (f *EnterpriseManaged) exchange(ctx context.Context, a *ask) (string, error) {
	provider, err := a.client.authorizationServer(ctx, f.Issuer, false)
	if err != nil {
		return "", err
	}
	subject, err := f.Subject(ctx)
	if err != nil {
		return "", err
	}
	subjectType := f.SubjectType
	if subjectType == "" {
		subjectType = "urn:ietf:params:oauth:token-type:id_token"
	}
	client := f.Client
	client.Issuer = f.Issuer
	token, err := a.requestAt(ctx, provider, &client, nil, a.params(url.Values{
		"grant_type": {grantTokenExchange}, "requested_token_type": {typeIDJAG}, "audience": {a.server.issuer},
		"subject_token": {string(subject)}, "subject_token_type": {subjectType},
	}))
	if err != nil {
		return "", err
	}
	if issued, _ := token.Extra("issued_token_type").(string); issued != typeIDJAG {
		return "", &AnswerError{Issuer: f.Issuer, Err: errors.New("expected a grant of the type " + typeIDJAG + ", got " + quote(issued))}
	}
	return token.AccessToken, nil
}
