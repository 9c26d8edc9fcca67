package proxy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Options configure a [Proxy].
type Options struct {
	// Issuer is the URL of the proxy as an authorization server, such as
	// "https://example.com/oauth": https, or http on a loopback host, without query and fragment.
	// Its endpoints are below this URL. Required.
	Issuer string
	// Resource is the URL of the protected endpoint, as in [oauth.ProtectOptions]. It is the audience
	// of all tokens of the proxy. Required.
	Resource string
	// Name is the name of the service on the consent page. Default the host of Resource.
	Name string

	// Provider is the issuer URL of the identity provider. Required.
	Provider string
	// Client is the registration of the proxy at the provider. Its redirect URI there is Issuer
	// and "/callback". Its ClientID is required, and its Issuer is empty or Provider.
	Client oauth.Registration
	// ProviderScopes are requested from the provider. Default "openid".
	ProviderScopes []string
	// ProviderParams are added to authorization requests to the provider. Some providers issue
	// refresh tokens only with such a parameter, such as access_type=offline.
	ProviderParams url.Values
	// AuthorizationEndpoint and TokenEndpoint are the endpoints of a provider that has no
	// metadata (RFC 8414 or OpenID Connect Discovery). Default the endpoints that the
	// metadata names.
	AuthorizationEndpoint string
	TokenEndpoint         string

	// Scopes are the scopes that clients may request. A client that requests none gets all.
	Scopes []string
	// Admit decides about a login after the provider has authenticated the person. If it returns
	// an error, the login is refused. Default: everyone with an account at the provider is
	// admitted, if the provider issues an ID token. So set it for a provider with public
	// accounts. It is called concurrently, and not for refreshes.
	Admit func(ctx context.Context, login *Login) error
	// RedirectSchemes are the private-use URI schemes (RFC 8252, section 7.1) that redirect URIs
	// of clients may have besides https and, for loopback hosts, http. Default none.
	RedirectSchemes []string

	// Keys seal tokens, client IDs and cookies. Each needs at least 32 bytes from a cryptographic
	// random source. The first seals, and all of them open. Processes with the same keys can
	// serve the same clients. Default a random key: then all clients have to register again after
	// a restart.
	Keys []oauth.Secret
	// Store makes a code or refresh token that was used at one process invalid at all others with
	// the same Store and Keys, also after restarts. Then Keys are required. It needs a value of about
	// 100 bytes for each login. While it fails, tokens are neither issued nor refreshed, with status
	// 503; access tokens are verified without it. If it has lost the value of a login, its person has
	// to log in again. Default a store in the memory of the process.
	Store store.KV
	// TokenLife is how long an access token is valid. Default 1 h, at most 24 h.
	TokenLife time.Duration
	// LoginLife is how long after a login its tokens can be refreshed. Default 30 days, at most a
	// year. Refreshing needs a provider that issues refresh tokens.
	LoginLife time.Duration

	// AllowLoopback allows a provider on this machine, also over http. It is for development.
	AllowLoopback bool
	// AllowNetworks lists networks that are allowed although they are not public, such as a
	// company's own. They still need https.
	AllowNetworks []netip.Prefix
	// Resolver looks up names. Default net.DefaultResolver.
	Resolver *net.Resolver
	// Logger receives log records, without secrets. Default slog.Default().
	Logger *slog.Logger
}

// A Login is the login of a person at the identity provider of a [Proxy].
type Login struct {
	// Subject becomes [oauth.Grant].Subject. It is the subject of the ID token; without an ID token it
	// is "", and [Options].Admit must set it.
	Subject string
	// Claims are the claims of the verified ID token, a JSON object; nil without one.
	Claims json.RawMessage
	// AccessToken is the provider's token. Admit may use it for requests to the provider.
	AccessToken oauth.Secret
	// Scopes are the scopes to which the person has agreed. Admit may remove some.
	Scopes []string
}

const (
	defaultTokenLife = time.Hour
	maxTokenLife     = 24 * time.Hour
	defaultLoginLife = 30 * 24 * time.Hour
	maxLoginLife     = 366 * 24 * time.Hour
	// clientLife is how long a client ID is valid.
	clientLife = 5 * 366 * 24 * time.Hour
	// consentLife is how long a person may take to agree, and providerLife how long to log in at
	// the provider. The MCP security best practices recommend ten minutes.
	consentLife  = 10 * time.Minute
	providerLife = 10 * time.Minute
	// codeLife is how long a code is valid. RFC 6749, section 4.1.2.
	codeLife = time.Minute
	// maxUsed is the number of used states, and the number of ended logins, that a proxy
	// remembers. Without Options.Store, it is also the number of all logins.
	maxUsed = 100_000
	// maxForm is the maximum length of a form or registration, in bytes.
	maxForm = 64 << 10
	// maxRedirects is the number of redirect URIs of a client, and maxRedirect the length of one.
	maxRedirects = 10
	maxRedirect  = 512
	// maxClientName is the maximum length of the name of a client, in bytes.
	maxClientName = 128
	// maxClientState is the maximum length of the state of a client's authorization request. It
	// is part of a cookie, for which browsers allow 4096 bytes.
	maxClientState = 1 << 10
	// maxProviderRefresh is the maximum length of a provider's refresh token that is used.
	maxProviderRefresh = 4 << 10
	// maxSubject is the maximum length of the subject of a login, in bytes.
	maxSubject = 1 << 10
	// maxClockSkew is how much the clocks of processes with a common store may differ.
	maxClockSkew = time.Minute
	// providerTimeout bounds a login or a refresh at the provider, which may need several requests.
	providerTimeout = 25 * time.Second
	// metadataAge is how long the metadata of the proxy may be cached, in seconds.
	metadataAge = "300"
)

// A Proxy is an authorization server in front of an identity provider with which clients cannot
// register dynamically. Clients register with the proxy (RFC 7591), which has one registration
// at the provider. Use [New]. It is safe for concurrent use, and there is nothing to close.
type Proxy struct {
	options  *Options // a pointer, so that fmt does not print it as part of another struct
	base     string   // path of the issuer, without a slash at the end
	location string   // path of the metadata
	secure   bool     // the issuer is https
	metadata []byte
	ring     *token.Ring
	provider *oauth.Provider
	logins   state.Records[loginUses]
	recent   *lru.Cache[string, struct{}]   // keys of logins in the memory of this process; nil with Options.Store
	states   *lru.Cache[[16]byte, struct{}] // hashes of states of logins that have come back; anyone can add some
	ended    *lru.Cache[[16]byte, struct{}] // hashes of logins
	origin   *http.CrossOriginProtection
	page     *template.Template
}

var _ oauth.Verifier = (*Proxy)(nil)

// New returns a proxy. It fetches nothing. It returns an error if the options are invalid.
//
// Use [Proxy.Wrap] for its endpoints, and the proxy itself as the verifier of its tokens:
//
//	p, err := proxy.New(&proxy.Options{...})
//	handler, err := oauth.Protect(endpoint, &oauth.ProtectOptions{
//		Resource:             "https://example.com/mcp",
//		AuthorizationServers: []string{"https://example.com/oauth"},
//		Verifier:             p,
//	})
//	handler = p.Wrap(handler)
func New(opts *Options) (*Proxy, error) {
	p, err := newProxy(*cmp.Or(opts, &Options{}))
	if err != nil {
		return nil, fmt.Errorf("proxy.New: %w", err)
	}
	return p, nil
}

func newProxy(o Options) (*Proxy, error) {
	if err := o.prepare(); err != nil {
		return nil, err
	}
	issuer, err := url.Parse(o.Issuer)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		options: &o, base: strings.TrimSuffix(issuer.Path, "/"), secure: issuer.Scheme == "https",
		origin: http.NewCrossOriginProtection(),
	}
	if p.states, err = lru.New[[16]byte, struct{}](maxUsed); err != nil {
		return nil, err
	}
	if p.ended, err = lru.New[[16]byte, struct{}](maxUsed); err != nil {
		return nil, err
	}
	if err := p.openStore(maxUsed); err != nil {
		return nil, err
	}
	if err := p.origin.AddTrustedOrigin(issuer.Scheme + "://" + issuer.Host); err != nil {
		return nil, err
	}
	if p.page, err = template.New("").Parse(consentTemplate); err != nil {
		return nil, err
	}
	p.location = "/.well-known/oauth-authorization-server" + p.base
	var keys [][]byte
	for _, key := range o.Keys {
		keys = append(keys, []byte(key))
	}
	if p.ring, err = token.NewRing(keys...); err != nil {
		return nil, err
	}
	client, err := oauth.NewClient(&oauth.ClientOptions{AllowLoopback: o.AllowLoopback, AllowNetworks: o.AllowNetworks, Resolver: o.Resolver})
	if err != nil {
		return nil, err
	}
	if p.provider, err = client.Provider(o.Client, o.AuthorizationEndpoint, o.TokenEndpoint); err != nil {
		return nil, err
	}
	p.metadata, err = p.marshalMetadata()
	return p, err
}

// prepare checks the options and sets defaults.
func (o *Options) prepare() error {
	for _, identifier := range [][2]string{{"Issuer", o.Issuer}, {"Resource", o.Resource}} {
		if err := syntax.CheckIdentifier(identifier[0], identifier[1]); err != nil {
			return err
		}
	}
	o.Issuer = strings.TrimSuffix(o.Issuer, "/")
	if o.Issuer == strings.TrimSuffix(o.Provider, "/") {
		return errors.New("expected an Issuer that differs from the Provider, got the Provider itself")
	}
	if o.Client.Issuer != "" && o.Client.Issuer != o.Provider {
		return fmt.Errorf("the Client: %w", &oauth.IssuerError{Expected: o.Provider, Got: o.Client.Issuer})
	}
	if o.Store != nil && len(o.Keys) == 0 {
		return errors.New("expected Keys, which processes with the same Store need to open each other's tokens")
	}
	o.Client.Issuer = o.Provider
	if (o.AuthorizationEndpoint == "") != (o.TokenEndpoint == "") {
		return errors.New("expected both AuthorizationEndpoint and TokenEndpoint, or neither")
	}
	if err := syntax.CheckScopes(slices.Concat(o.Scopes, o.ProviderScopes)); err != nil {
		return err
	}
	for _, scheme := range o.RedirectSchemes {
		if !isPrivateScheme(scheme) {
			return fmt.Errorf("expected RedirectSchemes in lower case that are private (RFC 8252, section 7.1), got %s", jsonscan.Quote(scheme))
		}
	}
	o.TokenLife, o.LoginLife = cmp.Or(o.TokenLife, defaultTokenLife), cmp.Or(o.LoginLife, defaultLoginLife)
	if o.TokenLife < 0 || o.TokenLife > maxTokenLife || o.LoginLife < 0 || o.LoginLife > maxLoginLife {
		return fmt.Errorf("expected a TokenLife of at most %v and a LoginLife of at most %v", maxTokenLife, maxLoginLife)
	}
	if len(o.ProviderScopes) == 0 {
		o.ProviderScopes = []string{"openid"}
	}
	if u, err := url.Parse(o.Resource); err == nil && o.Name == "" {
		o.Name = u.Host
	}
	o.Scopes, o.ProviderScopes, o.RedirectSchemes = slices.Clone(o.Scopes), slices.Clone(o.ProviderScopes), slices.Clone(o.RedirectSchemes)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	return nil
}

// isPrivateScheme reports whether a text is a URI scheme that no browser interprets by itself.
func isPrivateScheme(scheme string) bool {
	switch scheme {
	case "", "http", "https", "javascript", "vbscript", "data", "blob", "file", "filesystem", "about", "view-source", "ws", "wss", "ftp", "mailto", "tel", "sms":
		return false
	}
	return scheme[0] >= 'a' && scheme[0] <= 'z' && strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") == ""
}

// Format prints a constant, so that no secret is printed.
func (p *Proxy) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, "proxy.Proxy") }

// marshalMetadata returns the metadata of the proxy. RFC 8414, section 2.
func (p *Proxy) marshalMetadata() ([]byte, error) {
	metadata := map[string]any{
		"issuer":                                         p.options.Issuer,
		"authorization_endpoint":                         p.options.Issuer + "/authorize",
		"token_endpoint":                                 p.options.Issuer + "/token",
		"registration_endpoint":                          p.options.Issuer + "/register",
		"revocation_endpoint":                            p.options.Issuer + "/revoke",
		"response_types_supported":                       []string{"code"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token"},
		"token_endpoint_auth_methods_supported":          []string{"none"},
		"revocation_endpoint_auth_methods_supported":     []string{"none"},
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
	}
	if len(p.options.Scopes) > 0 {
		metadata["scopes_supported"] = p.options.Scopes
	}
	return json.Marshal(metadata)
}

// Wrap returns a handler that answers the requests for the endpoints of the proxy, and calls
// next for all others. The endpoints are the paths authorize, callback, token, register and
// revoke below the path of [Options].Issuer, and the metadata (RFC 8414) at
// /.well-known/oauth-authorization-server with that path.
func (p *Proxy) Wrap(next http.Handler) http.Handler {
	routes := map[string]http.HandlerFunc{
		p.location:            p.public(http.MethodGet, p.serveMetadata),
		p.base + "/register":  p.public(http.MethodPost, p.register),
		p.base + "/token":     p.public(http.MethodPost, p.serveToken),
		p.base + "/revoke":    p.public(http.MethodPost, p.revoke),
		p.base + "/authorize": p.authorize,
		p.base + "/callback":  p.callback,
	}
	return &wrapped{routes, next}
}

// A wrapped handler has the endpoints of a proxy before another handler.
type wrapped struct {
	routes map[string]http.HandlerFunc
	next   http.Handler
}

func (h *wrapped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if serve := h.routes[r.URL.Path]; serve != nil {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		serve(w, r)
		return
	}
	h.next.ServeHTTP(w, r)
}

// ServedPaths makes h an [httpguard.PathServer].
func (h *wrapped) ServedPaths() []string {
	return slices.AppendSeq(httpguard.ServedPaths(h.next), maps.Keys(h.routes))
}

// public returns a handler for an endpoint that uses no cookies, so that scripts of every
// origin may use it.
func (p *Proxy) public(method string, serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Access-Control-Allow-Origin", "*")
		header.Set("Allow", method+", OPTIONS")
		switch r.Method {
		case method:
			serve(w, r)
		case http.MethodOptions:
			header.Set("Access-Control-Allow-Methods", method)
			header.Set("Access-Control-Allow-Headers", "Content-Type, MCP-Protocol-Version")
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	}
}

func (p *Proxy) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "public, max-age="+metadataAge)
	_, _ = w.Write(p.metadata)
}

// seal seals a value for a purpose.
func (p *Proxy) seal(value any, life time.Duration, purpose ...string) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return p.ring.Seal(text, p.binding(purpose), time.Now().Add(life))
}

// open opens a value that was sealed for a purpose.
func (p *Proxy) open(sealed string, value any, purpose ...string) error {
	text, err := p.ring.Open(sealed, p.binding(purpose), time.Now())
	if err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}

func (p *Proxy) binding(purpose []string) []byte {
	return token.Binding(append([]string{"oauth.Proxy", p.options.Issuer}, purpose...)...)
}

// clientHash returns the short name of a client ID, which is long.
func clientHash(id string) string {
	hash := hashOf(id)
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

func hashOf(text string) [16]byte {
	hash := sha256.Sum256([]byte(text))
	return [16]byte(hash[:16])
}
