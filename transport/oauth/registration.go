package oauth

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/cryptosigner"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A Registration identifies and authenticates a client at an authorization server.
type Registration struct {
	// Issuer is the authorization server; the registration is used with no other. Empty
	// means the first authorization server that an MCP server names. That one is saved in
	// the store, and the registration is then used with it alone.
	Issuer string
	// ClientID is the client's ID at the authorization server. Required.
	ClientID string
	// Secret is the client secret, if there is one.
	Secret Secret
	// Key signs the client's assertions (private_key_jwt, RFC 7523), if there is one: an
	// RSA, ECDSA or Ed25519 key.
	Key crypto.Signer
	// KeyID is the ID of the key at the authorization server, if it has one.
	KeyID string
	// Method is how the client authenticates: "none", "client_secret_basic", "client_secret_post" or
	// "private_key_jwt". Default the first of private_key_jwt, client_secret_basic,
	// client_secret_post and none that the server lists and for which the registration
	// has a Key or a Secret. If there is none, client_secret_post with a Secret, else none.
	Method string
}

// Methods of client authentication. RFC 7591, section 2, and OpenID Connect Core, section 9.
const (
	methodNone          = "none"
	methodBasic         = "client_secret_basic"
	methodPost          = "client_secret_post"
	methodPrivateKeyJWT = "private_key_jwt"
)

// shownRegistration is a registration without its secrets.
type shownRegistration struct {
	Issuer, ClientID string
	Secret           Secret
	Key              any
	KeyID, Method    string
}

func (r Registration) shown() shownRegistration {
	shown := shownRegistration{r.Issuer, r.ClientID, r.Secret, nil, r.KeyID, r.Method}
	if r.Key != nil {
		shown.Key = Secret(redacted)
	}
	return shown
}

// Format redacts the secret and the key.
func (r Registration) Format(to fmt.State, verb rune) {
	fmt.Fprintf(to, fmt.FormatString(to, verb), r.shown())
}

// LogValue redacts the secret and the key.
func (r Registration) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

// MarshalJSON redacts the secret and the key. The result cannot be used to save a
// registration.
func (r Registration) MarshalJSON() ([]byte, error) { return json.Marshal(r.shown()) }

func (r *Registration) check() error {
	switch {
	case r.ClientID == "":
		return errors.New("expected a ClientID")
	case r.Method != "" && !slices.Contains(methods[:], r.Method):
		return fmt.Errorf("expected one of %q as Method, got %s", methods, quote(r.Method))
	case r.Method != "" && !r.supports(r.Method):
		return fmt.Errorf("the Method %s needs a Key or a Secret", r.Method)
	}
	return nil
}

// methods are the supported methods, the most preferred first.
var methods = [...]string{methodPrivateKeyJWT, methodBasic, methodPost, methodNone}

// supports reports whether the registration has what a method needs.
func (r *Registration) supports(method string) bool {
	switch method {
	case methodPrivateKeyJWT:
		return r.Key != nil
	case methodBasic, methodPost:
		return r.Secret != ""
	}
	return method == methodNone
}

// chooseMethod returns the method for a server. A server that lists none supports
// client_secret_basic: RFC 8414, section 2. If the server lists no method that the registration
// supports, it is client_secret_post or none: many servers do not list what they support.
func (r *Registration) chooseMethod(supported []string) string {
	if r.Method != "" {
		return r.Method
	}
	if len(supported) == 0 {
		supported = []string{methodBasic, methodNone}
	}
	for _, method := range methods {
		if slices.Contains(supported, method) && r.supports(method) {
			return method
		}
	}
	if r.Secret != "" {
		return methodPost
	}
	return methodNone
}

// request returns a request of the client with a form. It adds the client's authentication to
// the form. RFC 7009, section 2.1; RFC 7662,
// section 2.1.
func (r *Registration) request(ctx context.Context, endpoint string, form url.Values, method string, server *serverMetadata, now time.Time) (*http.Request, error) {
	switch method {
	case methodPrivateKeyJWT:
		if err := r.addAssertion(form, server, now); err != nil {
			return nil, err
		}
	case methodPost:
		form.Set("client_id", r.ClientID)
		form.Set("client_secret", string(r.Secret))
	case methodNone:
		if r.ClientID != "" { // an assertion may identify the client instead
			form.Set("client_id", r.ClientID)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, errors.New("the endpoint is not a URL")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if method == methodBasic { // form-encoded: RFC 6749, section 2.3.1
		req.SetBasicAuth(url.QueryEscape(r.ClientID), url.QueryEscape(string(r.Secret)))
	}
	return req, nil
}

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// addAssertion adds a signed client assertion to the parameters of a request. RFC 7523,
// sections 2.2 and 3. The issuer is the only audience, so that a server cannot use the
// assertion at another one.
func (r *Registration) addAssertion(params url.Values, server *serverMetadata, now time.Time) error {
	algorithm, err := signingAlgorithm(r.Key, server.signingAlgorithms)
	if err != nil {
		return err
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	if r.KeyID != "" {
		options = options.WithHeader("kid", r.KeyID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: cryptosigner.Opaque(r.Key)}, options)
	if err != nil {
		return fmt.Errorf("oauth: the registration's key: %w", err)
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: r.ClientID, Subject: r.ClientID, Audience: jwt.Audience{server.issuer}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Minute)),
	}).Serialize()
	if err != nil {
		return fmt.Errorf("oauth: signing with the registration's key: %w", err)
	}
	params.Set("client_assertion_type", assertionType)
	params.Set("client_assertion", text)
	return nil
}

// signingAlgorithm returns an algorithm that fits a key and that a server supports.
func signingAlgorithm(key crypto.Signer, supported []string) (jose.SignatureAlgorithm, error) {
	var candidates []jose.SignatureAlgorithm
	switch public := key.Public().(type) {
	case *rsa.PublicKey:
		candidates = []jose.SignatureAlgorithm{jose.RS256, jose.PS256}
	case ed25519.PublicKey:
		candidates = []jose.SignatureAlgorithm{jose.EdDSA}
	case *ecdsa.PublicKey:
		if algorithm := curveAlgorithm(public.Curve); algorithm != "" {
			candidates = []jose.SignatureAlgorithm{algorithm}
		}
	}
	for _, algorithm := range candidates {
		if len(supported) == 0 || slices.Contains(supported, string(algorithm)) {
			return algorithm, nil
		}
	}
	return "", fmt.Errorf("oauth: the registration's key, a %T, fits none of the algorithms that the server supports: %.256q", key.Public(), supported)
}

// configuredRegistration returns the one of ClientOptions.Registrations for the server, nil
// if there is none. A registration without an issuer belongs to the first server that it
// is used with, also in later runs of the program.
func (r *tokenRequest) configuredRegistration(ctx context.Context) (*Registration, error) {
	all, store, issuer := r.client.options.Registrations, r.client.options.Store, r.server.issuer
	for _, registration := range all {
		if registration.Issuer != "" && sameIssuer(registration.Issuer, issuer) {
			registration.Issuer = issuer
			return &registration, nil
		}
	}
	i := slices.IndexFunc(all, func(known Registration) bool { return known.Issuer == "" })
	if i < 0 {
		return nil, nil
	}
	registration := all[i]
	key := "issuer of " + registration.ClientID
	unlock, err := r.client.locks.lock(ctx, key) // requests to two issuers must not both be the first
	if err != nil {
		return nil, err
	}
	defer unlock()
	first, err := store.Load(ctx, key)
	switch {
	case err != nil:
		return nil, &StoreError{"load the issuer of a registration", err}
	case first == "":
		if err := store.Save(ctx, key, Secret(issuer)); err != nil {
			return nil, &StoreError{"save the issuer of a registration", err}
		}
	case string(first) != issuer:
		return nil, &IssuerError{Expected: string(first), Got: issuer}
	}
	registration.Issuer = issuer
	return &registration, nil
}

// requiredRegistration is configuredRegistration for flows without a person, which have no
// other way to register.
func (r *tokenRequest) requiredRegistration(ctx context.Context) (*Registration, error) {
	registration, err := r.configuredRegistration(ctx)
	if registration == nil && err == nil {
		err = &RegistrationError{Issuer: r.server.issuer, Reason: fmt.Sprintf("expected one for it in ClientOptions.Registrations, which has %d", len(r.client.options.Registrations))}
	}
	return registration, err
}

// existingRegistration returns a registration that needs no registering: one that is
// configured, the Client ID Metadata Document, or one in the store. It returns nil if there
// is none.
func (r *tokenRequest) existingRegistration(ctx context.Context) (*Registration, error) {
	registration, err := r.configuredRegistration(ctx)
	switch {
	case registration != nil || err != nil:
		return registration, err
	case r.server.readsClientDocuments && r.client.options.MetadataURL != "":
		return &Registration{Issuer: r.server.issuer, ClientID: r.client.options.MetadataURL, Method: methodNone}, nil
	}
	saved, err := r.loadRegistration(ctx)
	if saved == nil || err != nil {
		return nil, err
	}
	return saved.registration(r.server.issuer), nil
}

// register returns an existing registration for the redirect URI, or registers the client
// dynamically (RFC 7591). The caller holds the issuer's lock.
func (r *tokenRequest) register(ctx context.Context) (*Registration, error) {
	registration, err := r.existingRegistration(ctx)
	if err != nil {
		return nil, err
	}
	if registration != nil {
		saved, err := r.loadRegistration(ctx)
		if err != nil {
			return nil, err
		}
		if saved == nil || saved.ClientID != registration.ClientID || saved.RedirectURI == r.redirectURI {
			return registration, nil
		}
	}
	if r.server.registrationEndpoint == "" {
		return nil, &RegistrationError{Issuer: r.server.issuer, Reason: "the server does not support dynamic registration, and neither ClientOptions.Registrations nor a MetadataURL identifies this client"}
	}
	saved, err := r.registerDynamically(ctx)
	if err != nil {
		return nil, &RegistrationError{Issuer: r.server.issuer, Reason: "dynamic registration failed", Err: err}
	}
	if err := r.saveRegistration(ctx, saved); err != nil {
		return nil, err
	}
	return saved.registration(r.server.issuer), nil
}

// clientMetadata is a registration request. RFC 7591, section 2; application_type is of
// OpenID Connect Dynamic Client Registration.
type clientMetadata struct {
	Name            string   `json:"client_name"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	Method          string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type"`
	BoundTokens     bool     `json:"dpop_bound_access_tokens,omitempty"`
}

func (r *tokenRequest) registerDynamically(ctx context.Context) (*savedRegistration, error) {
	metadata := clientMetadata{
		Name: r.client.options.Name, RedirectURIs: []string{r.redirectURI}, GrantTypes: []string{"authorization_code"},
		ResponseTypes: []string{"code"}, Method: r.server.registrationMethod(), ApplicationType: applicationType(r.redirectURI), BoundTokens: r.key != nil,
	}
	if !r.client.options.NoRefresh {
		metadata.GrantTypes = append(metadata.GrantTypes, "refresh_token")
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.server.registrationEndpoint, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	res, err := send(r.client.http, req)
	if err != nil {
		return nil, err
	}
	d, err := parseDocument(shown(req.URL), res.body)
	if res.status/100 != 2 {
		refused := &Error{Status: res.status}
		if err == nil {
			d.get("error", &refused.Code)
			d.get("error_description", &refused.Description)
		}
		refused.Code, refused.Description = excerpt(refused.Code), excerpt(refused.Description)
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	saved := &savedRegistration{RedirectURI: r.redirectURI}
	d.get("client_id", &saved.ClientID)
	d.get("client_secret", &saved.Secret)
	d.get("token_endpoint_auth_method", &saved.Method)
	if saved.Method == "" && saved.Secret == "" {
		saved.Method = metadata.Method // with a secret, the methods of the server decide
	}
	if saved.Secret != "" {
		saved.Expires = secretExpiry(d.number("client_secret_expires_at"))
	}
	if d.err != nil {
		return nil, d.err
	}
	if err := saved.registration("").check(); err != nil {
		return nil, d.wrong("the registration cannot be used: " + err.Error())
	}
	return saved, nil
}

// secretExpiry returns the time at which a client secret expires, zero for never. Some servers
// send milliseconds.
func secretExpiry(seconds float64) time.Time {
	const year5138 = 1e11 // seconds, and in milliseconds a time in 1973
	if seconds > year5138 {
		seconds /= 1000
	}
	if seconds <= 0 || seconds > year5138 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

// registrationMethod returns the method that the client registers with. It is none where
// possible, because a program on a person's machine cannot keep a secret.
func (m *serverMetadata) registrationMethod() string {
	for _, method := range []string{methodNone, methodBasic, methodPost} {
		if slices.Contains(m.authMethods, method) {
			return method
		}
	}
	return methodBasic // of a server that lists none: RFC 8414, section 2
}

func applicationType(redirectURI string) string {
	if u, err := url.Parse(redirectURI); err == nil && u.Scheme == "https" {
		return "web"
	}
	return "native"
}

// A savedRegistration is a dynamic registration as the store holds it.
type savedRegistration struct {
	ClientID    string    `json:"client_id"`
	Secret      string    `json:"client_secret,omitempty"`
	Method      string    `json:"token_endpoint_auth_method"`
	Expires     time.Time `json:"expires,omitzero"`
	RedirectURI string    `json:"redirect_uri"`
}

func (s *savedRegistration) registration(issuer string) *Registration {
	return &Registration{Issuer: issuer, ClientID: s.ClientID, Secret: Secret(s.Secret), Method: s.Method}
}

// registrationKey is the key of the store for the registration with the server.
func (r *tokenRequest) registrationKey() string { return "client of " + r.server.issuer }

// loadRegistration returns the dynamic registration with the server, nil if there is none
// or it has expired.
func (r *tokenRequest) loadRegistration(ctx context.Context) (*savedRegistration, error) {
	unlock, err := r.client.locks.lock(ctx, r.registrationKey())
	if err != nil {
		return nil, err
	}
	text, err := r.client.options.Store.Load(ctx, r.registrationKey())
	unlock()
	if err != nil {
		return nil, &StoreError{"load a registration", err}
	}
	var saved savedRegistration
	if text == "" || json.Unmarshal([]byte(text), &saved) != nil || saved.registration("").check() != nil {
		return nil, nil
	}
	if !saved.Expires.IsZero() && !r.client.options.Clock().Before(saved.Expires) {
		return nil, nil
	}
	return &saved, nil
}

// saveRegistration saves a dynamic registration. nil deletes it.
func (r *tokenRequest) saveRegistration(ctx context.Context, saved *savedRegistration) error {
	unlock, err := r.client.locks.lock(ctx, r.registrationKey())
	if err != nil {
		return err
	}
	defer unlock()
	var text []byte
	if saved != nil {
		text, err = json.Marshal(saved) //nolint:gosec // the store keeps secrets
	}
	if err == nil {
		err = r.client.options.Store.Save(ctx, r.registrationKey(), Secret(text))
	}
	if err != nil {
		return &StoreError{"save a registration", err}
	}
	return nil
}

// forgetRegistration deletes the dynamic registration with an ID, which the server no longer knows, so that the next login
// makes another one. It reports whether there was one.
func (r *tokenRequest) forgetRegistration(ctx context.Context, clientID string) (forgotten bool, err error) {
	saved, err := r.loadRegistration(ctx)
	if err != nil || saved == nil || saved.ClientID != clientID {
		return false, err
	}
	return true, r.saveRegistration(ctx, nil)
}
