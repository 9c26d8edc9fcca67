package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// revokeTimeout bounds the revocation of a client's tokens, which needs up to three requests.
const revokeTimeout = 15 * time.Second

// revoke revokes the tokens of deleted credentials. The error is a [*RevocationError].
func (c *Client) revoke(ctx context.Context, old *credentials) error {
	ctx, cancel := context.WithTimeoutCause(ctx, revokeTimeout, errRevokeTimeout)
	defer cancel()
	err := c.revokeTokens(ctx, old)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return &RevocationError{Issuer: old.Issuer, Err: err}
	}
	return nil
}

var errRevokeTimeout = errors.New("the authorization server did not answer in time")

func (c *Client) revokeTokens(ctx context.Context, old *credentials) error {
	as, err := c.authorizationServer(ctx, old.Issuer, old.Legacy)
	if err != nil || as.revocationEndpoint == "" {
		return err
	}
	if err := c.guard.Check(as.revocationEndpoint); err != nil { // only here: a login does not need it
		return &MetadataError{URL: as.url, Reason: "the member revocation_endpoint", Err: err}
	}
	request := &tokenRequest{client: c, server: as}
	registration, err := request.existingRegistration(ctx)
	switch {
	case err != nil:
		return err
	case registration == nil:
		registration = &Registration{Issuer: as.issuer, ClientID: old.ClientID, Method: MethodNone}
	case registration.ClientID != old.ClientID:
		return errRegistrationGone
	}
	// The refresh token first: with it, the server can also revoke its access tokens.
	err = request.revoke(ctx, registration, old.RefreshToken, "refresh_token")
	return cmp.Or(err, request.revoke(ctx, registration, old.AccessToken, "access_token"))
}

// revoke revokes one token, if there is one. A server that does not support the type of token
// is no error. RFC 7009, section 2.
func (r *tokenRequest) revoke(ctx context.Context, registration *Registration, token, kind string) error {
	if token == "" {
		return nil
	}
	method, err := registration.chooseMethod(r.server.authMethods)
	if err != nil {
		return err
	}
	form := url.Values{"token": {token}, "token_type_hint": {kind}}
	req, err := registration.request(ctx, r.server.revocationEndpoint, form, method, r.server, r.client.options.Clock())
	if err != nil {
		return err
	}
	client := *r.client.http
	client.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		return &URLError{URL: req.URL.Scheme + "://" + req.URL.Host, Reason: "the revocation endpoint redirects there, and tokens are not sent to other URLs"}
	}
	res, err := send(&client, req)
	if err != nil || res.status == http.StatusOK {
		return err
	}
	refused := &Error{Code: fmt.Sprintf("status %d", res.status), Status: res.status}
	if d, err := parseDocument(shown(req.URL), res.body); err == nil {
		d.get("error", &refused.Code)
	}
	if refused.Code == "unsupported_token_type" {
		return nil
	}
	refused.Code = excerpt(withoutSecret(withoutSecret(refused.Code, token), string(registration.Secret)))
	return fmt.Errorf("the %s: %w", kind, refused)
}
