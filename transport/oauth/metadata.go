package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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
	// maxIssuers is how many authorization servers of a resource are considered.
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
	members, err := jsonscan.ReadObject(jsonscan.TrimBOM(body))
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
		d.fail(name)
	}
}

// fail records the first member that had another type than expected.
func (d *document) fail(name string) {
	if d.err == nil {
		d.err = d.wrong("the member " + name + " is of another type than expected")
	}
}

// list decodes a member that lists strings. A member of another type counts as absent, and
// elements that are no strings are left out.
func (d *document) list(name string) []string {
	var all []any
	_ = json.Unmarshal(d.members.Get(name), &all) // nil if it is absent
	var list []string
	for _, element := range all {
		if text, ok := element.(string); ok {
			list = append(list, text)
		}
	}
	return list
}

// flag decodes a member that is true or false, also in a string.
func (d *document) flag(name string) bool {
	switch strings.ToLower(strings.Trim(string(d.members.Get(name)), `"`)) {
	case "true":
		return true
	case "", "false", "null":
	default:
		d.fail(name)
	}
	return false
}

// number decodes a member that is a number, also in a string. It returns 0 if the member is
// absent or anything else.
func (d *document) number(name string) float64 {
	n, err := strconv.ParseFloat(strings.Trim(string(d.members.Get(name)), `" `), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0
	}
	return n
}

func (d *document) wrong(reason string) error { return &MetadataError{URL: d.url, Reason: reason} }

// fetchDocument fetches a metadata document. Its content type does not matter, because static
// file servers do not know the type of a file without an extension.
func fetchDocument(ctx context.Context, client *http.Client, place string) (*document, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, &MetadataError{Reason: "expected a URL"}
	}
	req.Header.Set("Accept", "application/json")
	at := shown(req.URL)
	res, err := send(client, req)
	switch {
	case err != nil:
		return nil, &MetadataError{URL: at, Err: err, failure: failureOf(err)}
	case res.status/100 != 2:
		return nil, &MetadataError{URL: at, Reason: strings.TrimSpace(fmt.Sprintf("status %d %s", res.status, http.StatusText(res.status))), failure: failureOfStatus(res.status)}
	}
	return parseDocument(at, res.body)
}

// A failure says how the program continues after a [MetadataError].
type failure int

const (
	unusable  failure = iota // the document is malformed, or not at a permitted place
	absent                   // there is no document: status 404
	temporary                // the network or the server failed
	decisive                 // the document is refused, and no other place replaces it
)

func failureOf(err error) failure {
	_, url := errors.AsType[*URLError](err)
	_, address := errors.AsType[*netguard.RefusedError](err)
	_, size := errors.AsType[*netguard.SizeError](err)
	if url || address || size {
		return unusable
	}
	return temporary
}

func failureOfStatus(status int) failure {
	switch {
	case status == http.StatusNotFound:
		return absent
	case status >= http.StatusInternalServerError || status == http.StatusRequestTimeout || status == http.StatusTooEarly || status == http.StatusTooManyRequests:
		return temporary
	}
	return unusable
}

// failureOfAll returns absent if all errors are that, else temporary if one is that.
func failureOfAll(errs ...error) failure {
	all := absent
	for _, err := range errs {
		e, ok := errors.AsType[*MetadataError](err)
		switch {
		case !ok || e.failure == temporary:
			return temporary
		case e.failure != absent:
			all = e.failure
		}
	}
	return all
}

// isAbsent reports whether an error says that every place has answered with status 404.
func isAbsent(err error) bool {
	e, ok := errors.AsType[*MetadataError](err)
	return ok && e.failure == absent
}

// findDocument fetches documents from places until read accepts one. The error lists what
// failed at each place.
func findDocument[T any](ctx context.Context, client *http.Client, places []string, read func(*document) (T, error)) (found T, err error) {
	var failures placesError
	timeouts := make(map[string]int) // by origin: after two, the other places there would not answer either
	for i, place := range places {
		origin := ""
		if u, err := url.Parse(place); err == nil {
			origin = u.Scheme + "://" + u.Host
		}
		if slices.Contains(places[:i], place) || timeouts[origin] == 2 {
			continue
		}
		d, err := fetchDocument(ctx, client, place)
		if err == nil {
			if found, err = read(d); err == nil {
				return found, nil
			}
		}
		if ctx.Err() != nil {
			return found, err
		}
		failures = append(failures, err)
		if failureOfAll(err) == decisive {
			return found, err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			timeouts[origin]++
		}
	}
	return found, &MetadataError{Reason: "no well-known location has a usable document", Err: failures, failure: failureOfAll(failures...)}
}

// A placesError is what failed at each place of a document, as a [*MetadataError] each.
type placesError []error

func (e placesError) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = strings.TrimPrefix(err.Error(), "the metadata at ")
	}
	return "tried " + strings.Join(texts, "; ")
}

func (e placesError) Unwrap() []error { return e }

// wellKnown returns a URL with a well-known path inserted before its own path. RFC 8414,
// section 3.1, and RFC 9728, section 3.1.
func wellKnown(u *url.URL, name string) string {
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	return u.Scheme + "://" + u.Host + "/.well-known/" + name + path
}

// findServerDocument fetches the metadata of an authorization server (RFC 8414 or OpenID
// Connect Discovery) from the places and in the order of MCP. read parses it and gets the issuer
// as the metadata names it.
func findServerDocument[T any](ctx context.Context, client *http.Client, issuer string, read func(d *document, issuer string) (T, error)) (found T, err error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(issuer, "#") {
		return found, &MetadataError{Reason: "expected an issuer that is a URL without user, query and fragment (RFC 8414, section 2), got " + quote(issuer)}
	}
	const openID = "openid-configuration"
	places := []string{wellKnown(u, "oauth-authorization-server"), wellKnown(u, openID)}
	if path := strings.TrimSuffix(u.EscapedPath(), "/"); path != "" {
		places = append(places, u.Scheme+"://"+u.Host+path+"/.well-known/"+openID)
	}
	found, err = findDocument(ctx, client, places, func(d *document) (T, error) {
		named, err := d.issuer(issuer)
		if err != nil {
			var none T
			return none, err
		}
		return read(d, named)
	})
	if all, ok := errors.AsType[*MetadataError](err); ok && all.URL == "" {
		all.URL = issuer
	}
	return found, err
}

// issuer returns the issuer that metadata name. It must be the expected one (RFC 8414, section
// 3.3), except for a slash at the end: the well-known locations of both are the same.
func (d *document) issuer(expected string) (named string, err error) {
	d.get("issuer", &named)
	if d.err == nil && !sameIssuer(named, expected) {
		return "", &MetadataError{URL: d.url, Err: &IssuerError{Expected: expected, Got: named}}
	}
	return named, d.err
}

// sameIssuer compares an issuer in an option or in the metadata of a resource with the one in
// the metadata of an authorization server. It ignores one slash at the end.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

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
	sendsIssuer           bool  // in authorization responses: RFC 9207
	readsClientDocuments  bool  // Client ID Metadata Documents
	missing               error // why there are no metadata, and the endpoints are the default ones
}

// authorizationServer fetches the metadata of an issuer. With legacy, an issuer without
// metadata has the default endpoints of MCP 2025-03-26.
func (c *Client) authorizationServer(ctx context.Context, issuer string, legacy bool) (*serverMetadata, error) {
	m, err := findServerDocument(ctx, c.http, issuer, c.parseServerMetadata)
	if legacy && isAbsent(err) {
		return defaultServerMetadata(issuer, err), nil
	}
	return m, err
}

// explain adds to an error of a default endpoint where the client has looked for metadata. It leaves an OAuth error code and the
// refusal of a person as they are, because those come from an endpoint that works.
func (m *serverMetadata) explain(err error) error {
	_, unregistered := errors.AsType[*RegistrationError](err)
	refused, ok := errors.AsType[*Error](err)
	if m.missing == nil || !unregistered && (!ok || refused.Code != "") {
		return err
	}
	return fmt.Errorf("%w; the endpoints are the default ones of a server without metadata: %w", err, m.missing)
}

func (c *Client) parseServerMetadata(d *document, issuer string) (*serverMetadata, error) {
	m := &serverMetadata{url: d.url, issuer: issuer}
	d.get("authorization_endpoint", &m.authorizationEndpoint)
	d.get("token_endpoint", &m.tokenEndpoint)
	d.get("registration_endpoint", &m.registrationEndpoint)
	d.get("revocation_endpoint", &m.revocationEndpoint)
	m.scopes = d.list("scopes_supported")
	m.challengeMethods = d.list("code_challenge_methods_supported")
	m.authMethods = d.list("token_endpoint_auth_methods_supported")
	m.signingAlgorithms = d.list("token_endpoint_auth_signing_alg_values_supported")
	m.sendsIssuer = d.flag("authorization_response_iss_parameter_supported")
	m.readsClientDocuments = d.flag("client_id_metadata_document_supported")
	if d.err != nil {
		return nil, d.err
	}
	if err := c.checkEndpoint(d, "token_endpoint", m.tokenEndpoint); err != nil {
		return nil, err
	}
	if m.registrationEndpoint == "" {
		return m, nil
	}
	if err := c.checkEndpoint(d, "registration_endpoint", m.registrationEndpoint); err != nil {
		return nil, err
	}
	return m, nil
}

func defaultServerMetadata(issuer string, missing error) *serverMetadata {
	u, _ := url.Parse(issuer) // fetchServerDocument has checked it
	origin := u.Scheme + "://" + u.Host
	return &serverMetadata{
		issuer: issuer, missing: missing, authorizationEndpoint: origin + "/authorize", tokenEndpoint: origin + "/token",
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

// checkPKCE refuses a server that does not declare PKCE with S256, which MCP requires. With
// assume, it accepts a server that declares nothing.
func (m *serverMetadata) checkPKCE(assume bool) error {
	if slices.Contains(m.challengeMethods, "S256") || assume && len(m.challengeMethods) == 0 {
		return nil
	}
	return &MetadataError{URL: m.url, Reason: fmt.Sprintf("expected code_challenge_methods_supported to contain S256 (RFC 7636), got %.256q", m.challengeMethods)}
}

// resourceMetadata describes a protected resource. RFC 9728, section 2.
type resourceMetadata struct {
	resource     string
	issuers      []string // at least one
	scopes       []string
	dpopRequired bool  // tokens must be bound to a key
	missing      error // why there is no document: the server is its own authorization server, as in MCP 2025-03-26
}

// discover fetches the metadata of a server from the URL in its challenge, else from the
// well-known locations. Without usable metadata, the origin of the server is the authorization
// server.
func (c *Client) discover(ctx context.Context, server *url.URL, challenged string) (*resourceMetadata, error) {
	origin := (&url.URL{Scheme: server.Scheme, Host: server.Host}).String()
	places := []string{wellKnown(server, resourceDocument), origin + "/.well-known/" + resourceDocument}
	if challenged = strings.TrimSpace(challenged); challenged != "" {
		if at, err := server.Parse(challenged); err == nil {
			challenged = at.String()
		}
		places = append([]string{challenged}, places...)
	}
	r, err := findDocument(ctx, c.http, places, func(d *document) (*resourceMetadata, error) { return parseResourceMetadata(d, server) })
	if all, ok := errors.AsType[*MetadataError](err); ok && all.URL == "" {
		all.URL = shown(server)
	}
	switch {
	case err != nil && (ctx.Err() != nil || failureOfAll(err) == decisive || failureOfAll(err) == temporary):
		return nil, err // after a temporary failure, no other authorization server is assumed
	case err != nil:
		return &resourceMetadata{resource: syntax.Canonical(server), issuers: []string{origin}, missing: err}, nil
	case len(r.issuers) == 0:
		r.issuers = []string{origin}
	}
	return r, nil
}

// parseResourceMetadata parses the metadata of a resource that covers the server.
func parseResourceMetadata(d *document, server *url.URL) (*resourceMetadata, error) {
	r := &resourceMetadata{scopes: syntax.UniqueScopes(d.list("scopes_supported"))}
	var issuers []string
	d.get("resource", &r.resource)
	d.get("authorization_servers", &issuers)
	r.dpopRequired = d.flag("dpop_bound_access_tokens_required")
	u, err := url.Parse(r.resource)
	switch {
	case d.err != nil:
		return nil, d.err
	case err != nil || u.Host == "":
		return nil, d.wrong("expected the member resource to be a URL, got " + quote(r.resource))
	case !covers(r.resource, server):
		return nil, &MetadataError{URL: d.url, failure: decisive, Reason: fmt.Sprintf("expected the resource %s or one that contains it, got %s", quote(syntax.Canonical(server)), quote(r.resource))}
	}
	for _, issuer := range issuers[:min(len(issuers), maxIssuers)] {
		if u, err := url.Parse(issuer); err == nil && u.Host != "" {
			r.issuers = append(r.issuers, issuer)
		}
	}
	if len(issuers) > 0 && len(r.issuers) == 0 {
		return nil, d.wrong("expected authorization servers that are URLs, got " + quote(issuers[0]))
	}
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
