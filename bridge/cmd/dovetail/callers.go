package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dovetail-go/dovetail/bridge/console"
	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/oauth"
)

const (
	// keyPrefix begins the principals of API keys, so that no subject of the issuer is one of them.
	keyPrefix = "key:"
	// keysIssuer is the issuer of API keys in grants.
	keysIssuer = "https://keys.invalid"
	// maxCallerName is the maximum size of the claim that names a caller, in bytes.
	maxCallerName = 256
	// maxCallerRoles is the maximum number of roles in a token or of a key.
	maxCallerRoles = 256
	// rolesLife is how long calls may continue after the last request of their caller.
	rolesLife = 48 * time.Hour
	// maxKnownCallers is for how many callers the roles are known to calls that continue after their request.
	maxKnownCallers = 10_000
)

// callerOptions are the flags that say who calls.
type callerOptions struct {
	issuer, audience, scopes, url, name, roles, keys string
}

func (c *callerOptions) flags(flags *flagSet) {
	flags.StringVar(&c.issuer, "issuer", "", "the `URL` of the OpenID provider at which callers log in: each caller needs a token of it in place of one that all share")
	flags.StringVar(&c.audience, "audience", "", "the `audience` that tokens of -issuer must have (default -url). It must not be the ID of a client of the provider: its ID tokens would be accepted")
	flags.StringVar(&c.scopes, "scopes", "", "the `scopes`, separated by spaces, that clients request when they log in at -issuer, such as openid: some providers refuse a login without one. Tokens need none")
	flags.StringVar(&c.url, "url", "", "the `URL` under which clients reach this program, such as https://tools.example.com (default http:// and the address of -http, if that is a loopback address)")
	flags.StringVar(&c.name, "name-claim", "sub", "the `claim` of a token that names the caller in policies, logs and approvals. It must be one that the provider never gives to another person")
	flags.StringVar(&c.roles, "roles-claim", "roles", "the `claim` of a token with the roles of the caller, for policies; a JSON pointer such as /realm_access/roles for one in an object")
	flags.StringVar(&c.keys, "keys", "", "the `file` of API keys, one for each program or person; see dovetail help key")
}

// check returns an error for flags that do not fit together, and adds the host of -url to those of o.
func (c *callerOptions) check(o *serveOptions) error {
	switch {
	case c.isSet() && (o.token != "" || o.open):
		return misuse("-issuer and -keys give each caller a token of its own: leave out -token and -open")
	case c.issuer == "" && (c.audience != "" || c.scopes != "" || c.name != "sub" || c.roles != "roles"):
		return misuse("-audience, -scopes, -name-claim and -roles-claim are for -issuer")
	case c.url != "" && !c.isSet():
		return misuse("-url is for -issuer and -keys")
	case c.isSet() && c.url == "" && !o.isLoopback():
		return misuse("-url: expected the URL under which clients reach this program, since %s is not a loopback address", o.http)
	}
	if c.url == "" {
		return nil
	}
	public, err := url.Parse(c.url)
	if err != nil || public.Host == "" || public.Scheme != "https" && public.Scheme != "http" {
		return misuse("-url: expected a URL such as https://tools.example.com")
	}
	o.hosts = append(o.hosts, public.Host)
	return nil
}

// base returns the URL of this program, without a slash at its end. address is where it listens.
func (c *callerOptions) base(address string) string {
	return cmp.Or(strings.TrimSuffix(c.url, "/"), "http://"+address)
}

// isSet reports whether each caller has a token of its own.
func (c *callerOptions) isSet() bool { return c.issuer != "" || c.keys != "" }

// callers knows the callers of -issuer and -keys.
type callers struct {
	opts     *callerOptions
	name     []string // the path of the claim with the name
	rolesAt  []string // the path of the claim with the roles
	verifier oauth.Verifier
	keys     *oauth.APIKeyVerifier // nil without -keys
	keysSeen string                // the result of modified before the keys were read
	keyRoles atomic.Pointer[map[string][]string]
	roles    *lru.Cache[string, knownRoles] // of the last token of each caller
	people   bool                           // operators have names and roles
	shared   *state.Records[[]string]       // the roles that other replicas may need; nil without a store
	tokens   *callerTokens
	logger   *slog.Logger
}

// newCallers returns the callers of the flags.
func newCallers(o *callerOptions, logins *loginOptions, shared *state.Records[[]string], logger *slog.Logger) (c *callers, err error) {
	c = &callers{opts: o, shared: shared, logger: logger}
	if c.name, err = claimPath(o.name); err != nil {
		return nil, misuse("-name-claim: %v", err)
	}
	if c.rolesAt, err = claimPath(o.roles); err != nil {
		return nil, misuse("-roles-claim: %v", err)
	}
	if c.roles, err = lru.New[string, knownRoles](maxKnownCallers); err != nil {
		return nil, err
	}
	if c.tokens, err = newCallerTokens(); err != nil {
		return nil, err
	}
	issuers := make(oauth.Issuers)
	if o.keys != "" {
		if c.keys, err = oauth.NewAPIKeyVerifier(keysIssuer, nil); err != nil {
			return nil, err
		}
		c.keysSeen = modified(o.keys)
		if err := c.readKeys(); err != nil {
			return nil, err
		}
		c.verifier, issuers[""] = c.keys, c.keys
	}
	if o.issuer != "" {
		issuer, err := url.Parse(o.issuer)
		if err != nil {
			return nil, misuse("-issuer: %v", err)
		}
		tokens, err := oauth.NewJWTVerifier(&oauth.JWTOptions{
			Issuer: o.issuer, AnyType: true, AllowLoopback: isLoopback(issuer.Hostname()), AllowNetworks: logins.networks,
		})
		if err != nil {
			return nil, misuse("-issuer: %v", err)
		}
		// Tokens name the issuer of its metadata, which may differ by a slash at the end. The verifier compares it exactly.
		bare := strings.TrimSuffix(o.issuer, "/")
		keeping := &keepingVerifier{tokens, c}
		issuers[bare], issuers[bare+"/"] = keeping, keeping
		c.verifier = issuers
	}
	return c, nil
}

// String says which tokens clients need.
func (c *callers) String() string {
	var kinds []string
	if c.opts.issuer != "" {
		kinds = append(kinds, "a token of "+c.opts.issuer)
	}
	if c.keys != nil {
		kinds = append(kinds, "an API key of "+c.opts.keys)
	}
	return "Authorization: Bearer with " + strings.Join(kinds, " or ")
}

// followKeys reads the keys whenever their file changes. A file that is not valid changes nothing.
func (c *callers) followKeys(ctx context.Context) {
	if c == nil || c.keys == nil {
		return
	}
	followFile(ctx, c.opts.keys, c.keysSeen, func() {
		if err := c.readKeys(); err != nil {
			c.logger.Error("the new API keys are not valid, and the old ones stay valid", "error", err)
			return
		}
		c.logger.Info("the new API keys are valid, and no others", "file", c.opts.keys)
	})
}

// readKeys reads the file of keys.
func (c *callers) readKeys() error {
	text, err := os.ReadFile(c.opts.keys)
	if err != nil {
		return err
	}
	keys, roles, err := parseKeys(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.opts.keys, err)
	}
	if err := c.keys.Replace(keys); err != nil {
		return fmt.Errorf("%s: %w", c.opts.keys, err)
	}
	c.keyRoles.Store(&roles)
	return nil
}

// protect returns a handler that admits callers with a token of the issuer or a key. address is where the program listens, and
// scopes returns the scopes that a call needs.
func (c *callers) protect(next http.Handler, address string, scopes func(method, name string) []string, origins []string) (http.Handler, error) {
	resource := c.opts.base(address)
	protection := &oauth.ProtectOptions{
		Resource: resource, AllowHTTP: strings.HasPrefix(resource, "http://"), Verifier: c.verifier, Audience: c.opts.audience, CallScopes: scopes,
		ScopesSupported: strings.Fields(c.opts.scopes), Origins: origins, Name: "dovetail", Logger: c.logger,
	}
	if c.opts.issuer != "" {
		protection.AuthorizationServers = []string{c.opts.issuer}
	}
	protected, err := oauth.Protect(c.identify(next), protection)
	if err != nil {
		return nil, misuse("-url, -issuer, -audience, -scopes: %v", err)
	}
	return protected, nil
}

// An identity is who calls, with a token of its own.
type identity struct {
	principal string
	roles     []string
}

// callerOf returns who calls with a grant.
func (c *callers) callerOf(grant *oauth.Grant) (identity, error) {
	if grant.Issuer == keysIssuer {
		return identity{keyPrefix + grant.Subject, (*c.keyRoles.Load())[grant.Subject]}, nil
	}
	name, err := claimText(grant.Claims, c.name)
	if err != nil {
		return identity{}, fmt.Errorf("the claim %q of the token: %w", c.opts.name, err)
	}
	roles, err := claimTexts(grant.Claims, c.rolesAt)
	if err != nil {
		return identity{}, fmt.Errorf("the claim %q of the token: %w", c.opts.roles, err)
	}
	return identity{name, roles}, nil
}

type rolesKey struct{}

// identify passes on requests with the principal and the roles of their grant.
func (c *callers) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := c.callerOf(oauth.FromContext(r.Context()))
		if err != nil {
			c.logger.Warn("refused a token that does not say who calls", "error", err)
			httpguard.RefuseUnread(w, r, http.StatusForbidden, jsonrpc.InvalidRequest, err.Error())
			return
		}
		c.remember(r.Context(), caller)
		ctx := context.WithValue(transport.WithPrincipal(r.Context(), caller.principal), rolesKey{}, caller.roles)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// subject returns the roles of a caller, for policies: those of the request or, for a call that continues after it, those of the
// last token.
func (c *callers) subject(ctx context.Context, caller *mcp.Caller) (policy.Subject, error) {
	s := policy.Subject{Principal: caller.Principal}
	if transport.Principal(ctx) == s.Principal {
		if roles, ok := ctx.Value(rolesKey{}).([]string); ok {
			s.Roles = roles
			return s, nil
		}
	}
	name, made := strings.CutPrefix(s.Principal, console.PrincipalPrefix)
	if made && !c.people { // an operator with the token of all, whose calls are decided by the names of tools alone
		return s, nil
	}
	roles, ok := c.lastRoles(ctx, name)
	if name, isKey := strings.CutPrefix(s.Principal, keyPrefix); isKey && c.keys != nil {
		roles, ok = (*c.keyRoles.Load())[name]
	}
	if !ok {
		return s, errors.New("the roles of the caller are not known: no request of the caller has reached this program lately")
	}
	s.Roles = roles
	return s, nil
}

// knownRoles are the roles of a caller, and when they were written to the store.
type knownRoles struct {
	roles  []string
	stored time.Time
}

// remember keeps the roles of a caller for calls that continue after its request, also at other replicas.
func (c *callers) remember(ctx context.Context, caller identity) {
	known, ok := c.roles.Get(caller.principal)
	if ok && slices.Equal(known.roles, caller.roles) && time.Since(known.stored) < rolesLife/2 {
		return
	}
	known = knownRoles{caller.roles, time.Now()}
	c.roles.Add(caller.principal, known)
	if c.shared == nil {
		return
	}
	_, err := c.shared.Put(ctx, rolesName(caller.principal), func(r *state.Record[[]string]) error {
		r.Value = caller.roles
		r.Extend(known.stored.Add(rolesLife))
		return nil
	})
	if err != nil {
		c.logger.Warn("the roles of a caller were not written to the store: calls that continue at another replica may be refused", "principal", caller.principal, "error", err)
	}
}

// lastRoles returns the roles of the last token of a caller.
func (c *callers) lastRoles(ctx context.Context, principal string) ([]string, bool) {
	if known, ok := c.roles.Get(principal); ok {
		return known.roles, true
	}
	if c.shared == nil {
		return nil, false
	}
	record, err := c.shared.Load(ctx, rolesName(principal))
	if err != nil {
		return nil, false
	}
	return record.Value, true
}

// rolesName returns the name of the record of a caller's roles.
func rolesName(principal string) string {
	hash := sha256.Sum256([]byte(principal))
	return "serve/roles/" + hex.EncodeToString(hash[:])
}

// claimText returns the value of a claim that is one text.
func claimText(claims json.RawMessage, path []string) (string, error) {
	texts, err := claimTexts(claims, path)
	if err != nil {
		return "", err
	}
	if len(texts) != 1 || len(texts[0]) == 0 || len(texts[0]) > maxCallerName ||
		strings.ContainsFunc(texts[0], func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", fmt.Errorf("expected a text of 1 to %d bytes in one line", maxCallerName)
	}
	for _, prefix := range []string{keyPrefix, console.PrincipalPrefix} {
		if strings.HasPrefix(texts[0], prefix) {
			return "", fmt.Errorf("names that begin with %s are not of people", prefix)
		}
	}
	return texts[0], nil
}

// claimTexts returns the value of a claim that is a list of texts or one text. It returns nil if there is none.
func claimTexts(claims json.RawMessage, path []string) ([]string, error) {
	value, err := jsonscan.FindPointer(claims, path...)
	if err != nil {
		return nil, err
	}
	var texts []string
	var text string
	switch jsonscan.KindOf(value) {
	case jsonscan.String:
		err = json.Unmarshal(value, &text)
		texts = []string{text}
	case jsonscan.Array:
		err = json.Unmarshal(value, &texts)
	case jsonscan.Null, jsonscan.EOF: // there is none
		return nil, nil
	default:
		err = errors.New("another type")
	}
	if err != nil {
		return nil, errors.New("expected a text or a list of texts")
	}
	if len(texts) > maxCallerRoles {
		return nil, fmt.Errorf("expected at most %d texts, found %d", maxCallerRoles, len(texts))
	}
	return slices.Compact(slices.Sorted(slices.Values(texts))), nil
}

// claimPath returns where a claim is: by its name, or by its JSON Pointer (RFC 6901).
func claimPath(claim string) ([]string, error) {
	if strings.HasPrefix(claim, "/") {
		return jsonscan.ParsePointer(claim)
	}
	return []string{claim}, nil
}

// An apiKey is an entry of the file of keys.
type apiKey struct {
	// Name names the program or person. Several keys may have the same name, such as an old and a new one.
	Name string `json:"name"`
	// Hash is the SHA-256 of the key in hexadecimal.
	Hash    string    `json:"hash"`
	Roles   []string  `json:"roles,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}

// parseKeys reads the keys of a file, and the roles of each name.
func parseKeys(text []byte) (keys []oauth.APIKey, roles map[string][]string, err error) {
	var file struct {
		Keys []apiKey `json:"keys"`
	}
	if err := jsonv2.Unmarshal(text, &file, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, nil, fmt.Errorf(`expected {"keys": [{"name": …, "hash": …, "roles": […], "expires": …}]}: %w`, err)
	}
	roles = make(map[string][]string)
	entries := make(map[string]int) // by hash
	for i, key := range file.Keys {
		own := slices.Compact(slices.Sorted(slices.Values(key.Roles)))
		if known, ok := roles[key.Name]; ok && !slices.Equal(own, known) {
			return nil, nil, fmt.Errorf("entry %d: another key of %q has other roles", i+1, key.Name)
		}
		if len(own) > maxCallerRoles {
			return nil, nil, fmt.Errorf("entry %d, of %q: expected at most %d roles, found %d", i+1, key.Name, maxCallerRoles, len(own))
		}
		if earlier, ok := entries[key.Hash]; ok {
			return nil, nil, fmt.Errorf("entry %d, of %q, has the same hash as entry %d: remove one of them", i+1, key.Name, earlier)
		}
		roles[key.Name], entries[key.Hash] = own, i+1
		keys = append(keys, oauth.APIKey{Hash: key.Hash, Subject: key.Name, Expires: key.Expires})
	}
	return keys, roles, nil
}
