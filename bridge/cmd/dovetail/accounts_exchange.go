package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

// tokenOfCaller is the type of the tokens with which people call.
const tokenOfCaller = "urn:ietf:params:oauth:token-type:access_token" //nolint:gosec // it is the name of a type

// exchangeDialer returns a dialer that sends tokens for which those of one person are exchanged. They are kept for the session only.
func (a *accounts) exchangeDialer(server *userServer, principal string) (transport.Dialer, error) {
	subject := func(context.Context) (oauth.Secret, error) { return a.tokens.of(principal) }
	var flow oauth.Flow = &oauth.TokenExchange{Subject: subject}
	if server.Options.Auth == config.AuthEnterprise {
		flow = &oauth.EnterpriseManaged{Issuer: a.issuer, Client: a.client, Subject: subject, SubjectType: tokenOfCaller}
	}
	tokens, err := a.networks.clientOf(server.Resolved, flow, oauth.NewMemoryStore())
	if err != nil {
		return nil, err
	}
	opts := server.dial
	opts.Authorizer = func(*config.Resolved) httptransport.Authorizer { return exchangedLogin{tokens} }
	return server.Dialer(&opts)
}

// An exchangedLogin authorizes requests with tokens that were exchanged for those of one person.
type exchangedLogin struct{ *oauth.Client }

func (l exchangedLogin) Challenged(ctx context.Context, server *url.URL, req *http.Request, res *http.Response) (again bool, err error) {
	again, err = l.Client.Challenged(ctx, server, req, res)
	if err != nil && ctx.Err() == nil {
		err = &exchangeError{err}
	}
	return again, err
}

// An exchangeError says that a person gets no token for a server.
type exchangeError struct{ cause error }

func (e *exchangeError) Error() string { return "no token for the caller: " + e.cause.Error() }
func (e *exchangeError) Unwrap() error { return e.cause }

// reason says what callers may know.
func (e *exchangeError) reason() string {
	if errors.Is(e.cause, errNoCallerToken) {
		return errNoCallerToken.Error()
	}
	if refused, ok := errors.AsType[*oauth.Error](e.cause); ok {
		return "the authorization server says " + refused.Code
	}
	return "its authorization server has given no token; the log of the gateway says why"
}
