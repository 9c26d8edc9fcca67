package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

const (
	// maxDocument is the maximum length of a metadata document, and of a response of a
	// token or registration endpoint, in bytes.
	maxDocument = 1 << 20
	// maxIssuers is the number of authorization servers that a resource may name.
	maxIssuers = 16

	resourceDocument = "oauth-protected-resource"
)

// newHTTPClient returns a client that fetches metadata. It follows no redirect to another
// origin, because the document there is not the issuer's own.
func newHTTPClient(guard *netguard.Guard) *http.Client {
	client := guard.Client()
	inner := client.CheckRedirect
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if !httpclient.SameOrigin(req.URL, via[0].URL) {
			return &URLError{URL: shown(req.URL), Reason: "the redirect leads to another origin"}
		}
		return inner(req, via)
	}
	return client
}

// A response is an HTTP response whose body was read.
type response struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request and reads the response. Its errors do not show the URL, which may
// hold a secret.
func send(client *http.Client, req *http.Request) (response, error) {
	res, err := client.Do(req)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err
		}
		return response{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, body}, err
}

// A document is a JSON object that was fetched.
type document struct {
	url     string // without the query
	members jsonscan.Members
	err     error // of the first member that had another type than expected
}

func parseDocument(url string, body []byte) (*document, error) {
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return nil, &MetadataError{URL: url, Err: err}
	}
	return &document{url: url, members: members}, nil
}

// get decodes a member. It does nothing if the member is absent or null.
func (d *document) get(name string, into any) {
	raw := d.members.Get(name)
	if raw == nil || bytes.Equal(raw, []byte("null")) || d.err != nil {
		return
	}
	if err := json.Unmarshal(raw, into); err != nil {
		d.err = d.wrong("the member " + name + " is of another type than expected")
	}
}

func (d *document) wrong(reason string) error { return &MetadataError{URL: d.url, Reason: reason} }

// errAbsent says that a location has no document.
var errAbsent = errors.New("there is no document")

// fetchDocument fetches a metadata document. At a guessed location, a refusal and a page
// that is not JSON are errAbsent.
func fetchDocument(ctx context.Context, client *http.Client, location string, guessed bool) (*document, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, &MetadataError{Reason: "expected a URL"}
	}
	req.Header.Set("Accept", "application/json")
	at := shown(req.URL)
	res, err := send(client, req)
	if err != nil {
		return nil, &MetadataError{URL: at, Err: err}
	}
	kind, _, _ := mime.ParseMediaType(res.header.Get("Content-Type"))
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	switch {
	case guessed && (isAbsent(res.status) || res.status/100 == 2 && !isJSON):
		return nil, errAbsent
	case res.status != http.StatusOK:
		return nil, &MetadataError{URL: at, Reason: "expected status 200, got " + http.StatusText(res.status)}
	}
	return parseDocument(at, res.body)
}

// isAbsent reports whether a status says that there is no document. Other failures may be
// temporary: after them, no default is assumed.
func isAbsent(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusGone, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// findDocument fetches the first document that exists. The error is errAbsent if none does.
func findDocument(ctx context.Context, client *http.Client, locations []string) (*document, error) {
	for _, location := range locations {
		d, err := fetchDocument(ctx, client, location, true)
		if !errors.Is(err, errAbsent) {
			return d, err
		}
	}
	return nil, errAbsent
}

// wellKnown returns a URL with a well-known path inserted before its own path. RFC 8414,
// section 3.1, and RFC 9728, section 3.1.
func wellKnown(u *url.URL, name string) string {
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	return u.Scheme + "://" + u.Host + "/.well-known/" + name + path
}

// fetchServerDocument fetches the metadata of an authorization server (RFC 8414 or OpenID
// Connect Discovery), from the locations and in the order of MCP. The document must name
// the issuer byte for byte (RFC 8414, section 3.3). The error wraps errAbsent if no location
// has a document.
func fetchServerDocument(ctx context.Context, client *http.Client, issuer string) (*document, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(issuer, "#") {
		return nil, &MetadataError{Reason: "expected an issuer that is a URL without user, query and fragment (RFC 8414, section 2), got " + quote(issuer)}
	}
	const openID = "openid-configuration"
	locations := []string{wellKnown(u, "oauth-authorization-server"), wellKnown(u, openID)}
	if path := strings.TrimSuffix(u.EscapedPath(), "/"); path != "" {
		locations = append(locations, u.Scheme+"://"+u.Host+path+"/.well-known/"+openID)
	}
	d, err := findDocument(ctx, client, locations)
	if errors.Is(err, errAbsent) {
		return nil, &MetadataError{URL: issuer, Reason: "the authorization server has no metadata at a well-known location", Err: err}
	}
	if err != nil {
		return nil, err
	}
	return d, d.checkIssuer(issuer)
}

func (d *document) checkIssuer(issuer string) error {
	var named string
	d.get("issuer", &named)
	if d.err == nil && named != issuer {
		return &MetadataError{URL: d.url, Err: &IssuerError{Expected: issuer, Got: named}}
	}
	return d.err
}

// serverMetadata describes an authorization server. RFC 8414, section 2, and OpenID Connect
// Discovery.
type serverMetadata struct {
	url                   string // of the document, "" if there is none
	issuer                string
	authorizationEndpoint string
	tokenEndpoint         string
	registrationEndpoint  string
	revocationEndpoint    string // RFC 7009; "" if there is none
	scopes                []string
	challengeMethods      []string
	authMethods           []string
	signingAlgorithms     []string
	sendsIssuer           bool // in authorization responses: RFC 9207
	readsClientDocuments  bool // Client ID Metadata Documents
}

// authorizationServer fetches the metadata of an issuer. With legacy, an issuer without
// metadata has the default endpoints of MCP 2025-03-26.
func (c *Client) authorizationServer(ctx context.Context, issuer string, legacy bool) (*serverMetadata, error) {
	d, err := fetchServerDocument(ctx, c.http, issuer)
	switch {
	case legacy && errors.Is(err, errAbsent):
		return defaultServerMetadata(issuer), nil
	case err != nil:
		return nil, err
	}
	return c.parseServerMetadata(d, issuer)
}

func (c *Client) parseServerMetadata(d *document, issuer string) (*serverMetadata, error) {
	m := &serverMetadata{url: d.url, issuer: issuer}
	d.get("authorization_endpoint", &m.authorizationEndpoint)
	d.get("token_endpoint", &m.tokenEndpoint)
	d.get("registration_endpoint", &m.registrationEndpoint)
	d.get("revocation_endpoint", &m.revocationEndpoint)
	d.get("scopes_supported", &m.scopes)
	d.get("code_challenge_methods_supported", &m.challengeMethods)
	d.get("token_endpoint_auth_methods_supported", &m.authMethods)
	d.get("token_endpoint_auth_signing_alg_values_supported", &m.signingAlgorithms)
	d.get("authorization_response_iss_parameter_supported", &m.sendsIssuer)
	d.get("client_id_metadata_document_supported", &m.readsClientDocuments)
	if d.err != nil {
		return nil, d.err
	}
	if err := c.checkEndpoint(d, "token_endpoint", m.tokenEndpoint); err != nil {
		return nil, err
	}
	if m.registrationEndpoint == "" {
		return m, nil
	}
	return m, c.checkEndpoint(d, "registration_endpoint", m.registrationEndpoint)
}

func defaultServerMetadata(issuer string) *serverMetadata {
	u, _ := url.Parse(issuer) // fetchServerDocument has checked it
	origin := u.Scheme + "://" + u.Host
	return &serverMetadata{
		issuer: issuer, authorizationEndpoint: origin + "/authorize", tokenEndpoint: origin + "/token",
		registrationEndpoint: origin + "/register", challengeMethods: []string{"S256"}, authMethods: []string{methodNone, methodPost, methodBasic},
	}
}

// checkEndpoint refuses endpoints to which no secret may be sent.
func (c *Client) checkEndpoint(d *document, name, endpoint string) error {
	switch err := c.guard.Check(endpoint); {
	case endpoint == "":
		return d.wrong("expected the member " + name)
	case err != nil:
		return &MetadataError{URL: d.url, Reason: "the member " + name, Err: err}
	case strings.Contains(endpoint, "#"):
		return d.wrong("expected the member " + name + " to have no fragment")
	}
	return nil
}

// checkPKCE refuses a server that does not declare PKCE with S256, which MCP requires.
func (m *serverMetadata) checkPKCE() error {
	if slices.Contains(m.challengeMethods, "S256") {
		return nil
	}
	return &MetadataError{URL: m.url, Reason: fmt.Sprintf("expected code_challenge_methods_supported to contain S256 (RFC 7636), got %.256q", m.challengeMethods)}
}

// resourceMetadata describes a protected resource. RFC 9728, section 2.
type resourceMetadata struct {
	resource     string
	issuers      []string // at least one
	scopes       []string
	dpopRequired bool // tokens must be bound to a key
	legacy       bool // there is no document: the server is its own authorization server, as in MCP 2025-03-26
}

// discover fetches the metadata of a server from the URL in its challenge, else from the
// well-known locations.
func (c *Client) discover(ctx context.Context, server *url.URL, challenged string) (*resourceMetadata, error) {
	root := &url.URL{Scheme: server.Scheme, Host: server.Host}
	var d *document
	var err error
	if challenged != "" {
		d, err = fetchDocument(ctx, c.http, challenged, false)
	} else {
		locations := []string{wellKnown(server, resourceDocument), wellKnown(root, resourceDocument)}
		d, err = findDocument(ctx, c.http, slices.Compact(locations))
	}
	switch {
	case errors.Is(err, errAbsent):
		return &resourceMetadata{resource: syntax.Canonical(server), issuers: []string{root.String()}, legacy: true}, nil
	case err != nil:
		return nil, err
	}
	return parseResourceMetadata(d, server)
}

// parseResourceMetadata parses the metadata of a resource that covers the server.
func parseResourceMetadata(d *document, server *url.URL) (*resourceMetadata, error) {
	r := &resourceMetadata{}
	d.get("resource", &r.resource)
	d.get("authorization_servers", &r.issuers)
	d.get("scopes_supported", &r.scopes)
	d.get("dpop_bound_access_tokens_required", &r.dpopRequired)
	switch {
	case d.err != nil:
		return nil, d.err
	case !covers(r.resource, server):
		return nil, d.wrong(fmt.Sprintf("expected the resource %s or one that contains it, got %s", quote(syntax.Canonical(server)), quote(r.resource)))
	case len(r.issuers) == 0 || len(r.issuers) > maxIssuers:
		return nil, d.wrong(fmt.Sprintf("expected 1 to %d authorization servers, got %d", maxIssuers, len(r.issuers)))
	}
	r.scopes = syntax.UniqueScopes(r.scopes)
	return r, nil
}

// covers reports whether a resource is a server or contains it.
func covers(resource string, server *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || u.Host == "" || u.User != nil || strings.Contains(resource, "#") || !httpclient.SameOrigin(u, server) {
		return false
	}
	if u.RawQuery != "" && u.RawQuery != server.RawQuery {
		return false
	}
	rest, ok := strings.CutPrefix(server.EscapedPath(), strings.TrimSuffix(u.EscapedPath(), "/"))
	return ok && (rest == "" || rest[0] == '/')
}
