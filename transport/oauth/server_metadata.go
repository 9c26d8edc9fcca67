package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// serverMetadata is what an authorization server says of itself. RFC 8414, section 2, and
// OpenID Connect Discovery.
type serverMetadata struct {
	url                   string // where the document lies, "" if there is none
	issuer                string
	authorizationEndpoint string
	tokenEndpoint         string
	registrationEndpoint  string
	scopes                []string
	challengeMethods      []string
	authMethods           []string
	signingAlgorithms     []string
	proofAlgorithms       []string
	namesItself           bool // in its answers: RFC 9207
	readsClientDocuments  bool
}

// authorizationServer finds out about an issuer. legacy admits one without a document.
func (c *Client) authorizationServer(ctx context.Context, issuer string, legacy bool) (*serverMetadata, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(issuer, "#") {
		return nil, &MetadataError{Reason: "expected an issuer that is a URL without user, query and fragment (RFC 8414, section 2), got " + quote(issuer)}
	}
	for _, place := range serverPlaces(u) {
		d, err := fetchDocument(ctx, c.http, place, true)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return c.parseServer(d, issuer)
	}
	if !legacy {
		return nil, &MetadataError{URL: shown(u), Reason: "the authorization server has no metadata at any of the places where it may lie"}
	}
	origin := u.Scheme + "://" + u.Host
	return &serverMetadata{
		issuer: issuer, authorizationEndpoint: origin + "/authorize", tokenEndpoint: origin + "/token",
		registrationEndpoint: origin + "/register", challengeMethods: []string{"S256"}, authMethods: []string{MethodNone, MethodPost, MethodBasic},
	}, nil
}

// serverPlaces are the places of an issuer's document, in the order of MCP.
func serverPlaces(issuer *url.URL) []string {
	const oauth, openID = "oauth-authorization-server", "openid-configuration"
	places := []string{wellKnown(issuer, oauth), wellKnown(issuer, openID)}
	if path := strings.TrimSuffix(issuer.EscapedPath(), "/"); path != "" {
		places = append(places, issuer.Scheme+"://"+issuer.Host+path+"/.well-known/"+openID)
	}
	return places
}

// parseServer reads a document, which must be the issuer's own: the same, byte for byte.
// RFC 8414, section 3.3.
func (c *Client) parseServer(d *document, issuer string) (*serverMetadata, error) {
	m := &serverMetadata{url: d.url}
	d.get("issuer", &m.issuer)
	d.get("authorization_endpoint", &m.authorizationEndpoint)
	d.get("token_endpoint", &m.tokenEndpoint)
	d.get("registration_endpoint", &m.registrationEndpoint)
	d.get("scopes_supported", &m.scopes)
	d.get("code_challenge_methods_supported", &m.challengeMethods)
	d.get("token_endpoint_auth_methods_supported", &m.authMethods)
	d.get("token_endpoint_auth_signing_alg_values_supported", &m.signingAlgorithms)
	d.get("dpop_signing_alg_values_supported", &m.proofAlgorithms)
	d.get("authorization_response_iss_parameter_supported", &m.namesItself)
	d.get("client_id_metadata_document_supported", &m.readsClientDocuments)
	switch {
	case d.err != nil:
		return nil, d.err
	case m.issuer != issuer:
		return nil, &MetadataError{URL: d.url, Err: &IssuerError{Expected: issuer, Got: m.issuer}}
	}
	if err := c.checkEndpoint(d, "token_endpoint", m.tokenEndpoint); err != nil {
		return nil, err
	}
	if m.registrationEndpoint == "" {
		return m, nil
	}
	return m, c.checkEndpoint(d, "registration_endpoint", m.registrationEndpoint)
}

// checkEndpoint refuses endpoints that no secret may be sent to.
func (c *Client) checkEndpoint(d *document, name, endpoint string) error {
	switch err := c.guard.Check(endpoint); {
	case endpoint == "":
		return d.wrong("expected the member " + name)
	case err != nil:
		return &MetadataError{URL: d.url, Reason: "the member " + name, Err: err}
	case strings.Contains(endpoint, "#"):
		return d.wrong("expected the member " + name + " to be without a fragment")
	}
	return nil
}

// checkChallenges refuses a server that does not say that it knows PKCE with S256, which
// MCP demands.
func (m *serverMetadata) checkChallenges() error {
	if slices.Contains(m.challengeMethods, "S256") {
		return nil
	}
	return &MetadataError{URL: m.url, Reason: fmt.Sprintf("expected code_challenge_methods_supported to have S256 (RFC 7636), got %.256q", m.challengeMethods)}
}
