package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

const (
	// maxBearerToken is the maximum length of a token that [Protect] accepts, in bytes.
	maxBearerToken = 8 << 10
	// maxRequest is the maximum duration of a request whose token has no known expiry.
	maxRequest = time.Hour
	// metadataAge is how long the metadata may be cached, in seconds.
	metadataAge = "300"
)

// Error codes of challenges. RFC 6750, section 3.1; RFC 9449, sections 7.1 and 9.
const (
	codeInvalidRequest    = "invalid_request"
	codeInvalidToken      = "invalid_token"
	codeInsufficientScope = "insufficient_scope"
	codeInvalidProof      = "invalid_dpop_proof"
	codeUseNonce          = "use_dpop_nonce"
)

// Protect returns a handler that calls another handler for requests with a valid token in
// one Authorization header. Protect returns an error if the options are invalid.
//
// All other requests are refused, whatever their path, with the status and the challenge of
// RFC 6750, section 3, and RFC 9449, section 7.1:
//
//   - 401 without a token, or with one that is not valid;
//   - 403 with a token that lacks a scope;
//   - 400 with a malformed header;
//   - 503 if the token cannot be verified at present.
//
// The metadata of the resource (RFC 9728) is public, unless no authorization server is named. Its well-known path exists with the
// path of the resource and without. So return the handler from Wrap of streamable.ServeOptions, which serves these paths
// too, or use it as an http.Server's Handler or for
// the pattern "/"; or for the paths of the other handler, for
// "/.well-known/oauth-protected-resource", and for that with the path of the resource.
//
// The other handler finds the caller with [transport.Principal] and the grant with
// [FromContext]. Transports check each call against [ProtectOptions].CallScopes. The token
// and the proof are removed from the request.
func Protect(handler http.Handler, opts *ProtectOptions) (http.Handler, error) {
	p, err := newProtector(handler, opts)
	if err != nil {
		return nil, fmt.Errorf("oauth.Protect: %w", err)
	}
	return p, nil
}

type protector struct {
	handler                  http.Handler
	options                  ProtectOptions
	metadata                 *publishedMetadata // nil if there is no authorization server
	implies                  map[string][]string
	guard                    *httpguard.Guard
	proofs                   *proofChecker
	lastFailure, lastRefusal atomic.Int64 // when one was last logged, in seconds
}

func newProtector(handler http.Handler, opts *ProtectOptions) (*protector, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	resource, err := url.Parse(options.Resource)
	if err != nil {
		return nil, errors.New("oauth: ProtectOptions.Resource is not a URL")
	}
	p := &protector{handler: handler, options: options, implies: closure(options.Implies)}
	if len(options.AuthorizationServers) > 0 {
		if p.metadata, err = newPublishedMetadata(resource, &options); err != nil {
			return nil, err
		}
	}
	if p.guard, err = httpguard.NewGuard(nil, options.Origins); err != nil {
		return nil, err
	}
	p.proofs, err = newProofChecker(resource, options.DPoP, options.Store)
	return p, err
}

// Format prints a constant, so that no secret of the verifier is printed.
func (p *protector) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "oauth.Protect") }

func (p *protector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.metadata != nil && p.metadata.isAt(r.URL.Path) {
		p.metadata.serve(w, r)
		return
	}
	grant, err := p.authorize(r)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	ctx, cancel := p.requestContext(r.Context(), grant)
	defer cancel()
	admitted := r.WithContext(ctx)
	admitted.Header = r.Header.Clone()
	delete(admitted.Header, "Authorization") // the handler might forward it
	delete(admitted.Header, "Dpop")
	p.handler.ServeHTTP(w, admitted)
}

// ServedPaths makes p an [httpguard.PathServer]: the metadata are at further paths, and so is what the other handler serves.
func (p *protector) ServedPaths() []string {
	paths := httpguard.ServedPaths(p.handler)
	if p.metadata != nil {
		paths = append(paths, p.metadata.paths[:]...)
	}
	return paths
}

// authorize returns the grant of a request. The error is a *refusal, or says why the token
// could not be verified.
func (p *protector) authorize(r *http.Request) (*Grant, error) {
	presented, err := readToken(r.Header)
	if err != nil {
		return nil, err
	}
	grant, err := p.options.Verifier.Verify(r.Context(), presented.token, p.options.Audience)
	if _, invalid := errors.AsType[*InvalidTokenError](err); invalid {
		return nil, &refusal{status: http.StatusUnauthorized, code: codeInvalidToken, dpop: presented.dpop, err: err}
	}
	if err == nil && (grant == nil || grant.Principal() == "") {
		err = errors.New("the verifier returned a grant without a principal")
	}
	if err != nil {
		return nil, err
	}
	if !p.deadline(grant).After(time.Now()) { // within the verifier's Skew
		return nil, &refusal{status: http.StatusUnauthorized, code: codeInvalidToken, dpop: presented.dpop, err: errExpired}
	}
	if err := p.proofs.check(r, presented, grant); err != nil {
		return nil, err
	}
	if !p.has(grant, p.options.Scopes) {
		return nil, &refusal{status: http.StatusForbidden, code: codeInsufficientScope, dpop: presented.dpop, err: errScope, scopes: p.options.Scopes}
	}
	return grant, nil
}

var errScope = errors.New("the token lacks a scope that every request needs")

// requestContext returns the context of an admitted request.
func (p *protector) requestContext(ctx context.Context, grant *Grant) (context.Context, context.CancelFunc) {
	ctx = transport.WithPrincipal(ctx, grant.Principal())
	ctx = transport.WithAuthorizer(ctx, p.authorizeCall)
	ctx = context.WithValue(ctx, authorizationKey{}, &authorization{p, grant})
	return context.WithDeadlineCause(ctx, p.deadline(grant), ErrTokenExpired)
}

// deadline returns when a request that begins now must end.
func (p *protector) deadline(grant *Grant) time.Time {
	if grant.Expires.IsZero() {
		return time.Now().Add(maxRequest)
	}
	return grant.Expires.Add(max(p.options.Grace, 0))
}

// A presentedToken is the token of a request.
type presentedToken struct {
	token Secret
	dpop  bool // the scheme is DPoP
}

var (
	errNoToken       = errors.New("expected a token in the header Authorization")
	errManyTokens    = errors.New("the header Authorization is given more than once")
	errUnknownScheme = errors.New("expected the scheme Bearer or DPoP in the header Authorization")
	errTokenSyntax   = errors.New("expected one token in the header Authorization, of the characters in RFC 6750, section 2.1")
	errTokenLength   = errors.New("the token is too long")
)

// readToken reads the Authorization header. RFC 6750, section 2.1; RFC 9449, section 7.1.
func readToken(header http.Header) (presentedToken, error) {
	malformed := func(err error) (presentedToken, error) {
		return presentedToken{}, &refusal{status: http.StatusBadRequest, code: codeInvalidRequest, err: err}
	}
	lines := header["Authorization"]
	switch {
	case len(lines) == 0:
		return presentedToken{}, &refusal{status: http.StatusUnauthorized, err: errNoToken}
	case len(lines) > 1:
		return malformed(errManyTokens)
	}
	scheme, token, _ := strings.Cut(lines[0], " ")
	dpop := strings.EqualFold(scheme, "DPoP")
	if !dpop && !strings.EqualFold(scheme, "Bearer") {
		return presentedToken{}, &refusal{status: http.StatusUnauthorized, err: errUnknownScheme}
	}
	token = strings.TrimLeft(token, " ")
	switch {
	case len(token) > maxBearerToken:
		return malformed(errTokenLength)
	case !isToken68(token):
		return malformed(errTokenSyntax)
	}
	return presentedToken{Secret(token), dpop}, nil
}

// isToken68 reports whether a text can be a token. RFC 9110, section 11.2.
func isToken68(text string) bool {
	text = strings.TrimRight(text, "=")
	for i := range len(text) {
		if !isToken68Byte(text[i]) {
			return false
		}
	}
	return text != ""
}

// A refusal says why a request is refused.
type refusal struct {
	status int
	code   string // of the challenge; "" if the request has no token
	dpop   bool   // the challenge is for the scheme DPoP
	nonce  string // for the next proof
	scopes []string
	err    error // sent to the client
}

func (r *refusal) Error() string { return r.err.Error() }

// refuse answers a request that is refused. A CORS preflight, which never has credentials,
// is answered according to the page's origin.
func (p *protector) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if p.guard.AllowOrigin(w, r, http.MethodGet, http.MethodPost, http.MethodDelete) {
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		p.log(&p.lastFailure, slog.LevelError, "oauth: a token could not be verified", err)
		header.Set("Retry-After", "5")
		httpguard.RefuseUnread(w, r, http.StatusServiceUnavailable, jsonrpc.Busy, "tokens cannot be verified at present")
		return
	}
	if _, invalid := errors.AsType[*InvalidTokenError](refused.err); invalid && !errors.Is(refused.err, errExpired) {
		p.log(&p.lastRefusal, slog.LevelWarn, "oauth: a token was refused", refused.err)
	}
	if refused.nonce != "" {
		header.Set("DPoP-Nonce", refused.nonce)
	}
	if refused.status != http.StatusBadRequest {
		for _, challenge := range p.challenges(refused) {
			header.Add("WWW-Authenticate", string(challenge.Append(nil)))
		}
	}
	httpguard.RefuseUnread(w, r, refused.status, jsonrpc.InvalidRequest, refused.err.Error())
}

// log logs what is wrong with a token, at most once a second: anyone can cause that. at is when it was last logged.
func (p *protector) log(at *atomic.Int64, level slog.Level, message string, err error) {
	now, last := time.Now().Unix(), at.Load()
	if now != last && at.CompareAndSwap(last, now) {
		p.options.Logger.Log(context.Background(), level, message, "audience", p.options.Audience, "error", err)
	}
}

// challenges returns a challenge for each scheme. The first is the one of the refusal.
func (p *protector) challenges(refused *refusal) []Challenge {
	first := Challenge{Scheme: "Bearer", Params: make(map[string]string)}
	if p.metadata != nil {
		first.Params["resource_metadata"] = p.metadata.url
	}
	if refused.code != "" {
		first.Params["error"] = refused.code
		first.Params["error_description"] = refused.err.Error()
	}
	scopes := refused.scopes
	if scopes == nil {
		scopes = p.options.Scopes
	}
	if len(scopes) > 0 {
		first.Params["scope"] = strings.Join(scopes, " ")
	}
	if refused.dpop || p.proofs.required {
		first.Scheme = "DPoP"
		first.Params["algs"] = proofAlgorithmNames
		return []Challenge{first}
	}
	if !p.proofs.offered {
		return []Challenge{first}
	}
	return []Challenge{first, {Scheme: "DPoP", Params: map[string]string{"algs": proofAlgorithmNames}}}
}

// publishedMetadata is the metadata document of a protected resource. RFC 9728, section 2.
type publishedMetadata struct {
	url   string
	paths [2]string // without the path of the resource, and with it
	body  []byte
}

func newPublishedMetadata(resource *url.URL, o *ProtectOptions) (*publishedMetadata, error) {
	document := struct {
		Resource             string   `json:"resource"`
		Name                 string   `json:"resource_name,omitempty"`
		Documentation        string   `json:"resource_documentation,omitempty"`
		AuthorizationServers []string `json:"authorization_servers"`
		Scopes               []string `json:"scopes_supported,omitempty"`
		Methods              []string `json:"bearer_methods_supported"`
		ProofAlgorithms      []string `json:"dpop_signing_alg_values_supported,omitempty"`
		ProofsRequired       bool     `json:"dpop_bound_access_tokens_required,omitempty"`
	}{
		o.Resource, o.Name, o.Documentation, o.AuthorizationServers, o.ScopesSupported, []string{"header"}, nil, false,
	}
	if o.DPoP != nil {
		document.ProofAlgorithms = strings.Fields(proofAlgorithmNames)
		document.ProofsRequired = o.DPoP.Required
	}
	body, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	root := "/.well-known/" + resourceDocument
	return &publishedMetadata{
		url:   wellKnown(resource, resourceDocument),
		paths: [2]string{root, root + strings.TrimSuffix(resource.Path, "/")},
		body:  body,
	}, nil
}

func (m *publishedMetadata) isAt(path string) bool {
	return path == m.paths[0] || path == m.paths[1]
}

// serve answers a request for the document. Every origin may read it: RFC 9728, section
// 3.1.
func (m *publishedMetadata) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Allow", "GET, HEAD, OPTIONS")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		header.Set("Content-Type", "application/json")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "public, max-age="+metadataAge)
		header.Set("Content-Length", strconv.Itoa(len(m.body)))
		_, _ = w.Write(m.body) // net/http sends no body for HEAD
	case http.MethodOptions:
		header.Set("Access-Control-Allow-Methods", "GET, HEAD")
		header.Set("Access-Control-Allow-Headers", "MCP-Protocol-Version")
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}
