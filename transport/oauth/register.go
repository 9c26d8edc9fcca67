package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// known is what the authorization server knows this client by, without a person: nil if
// nothing. Whoever asks has the turn of the issuer.
func (a *ask) known(ctx context.Context) (*Registration, error) {
	registration, err := a.given(ctx)
	switch {
	case registration != nil || err != nil:
		return registration, err
	case a.server.readsClientDocuments && a.client.options.MetadataURL != "":
		return &Registration{Issuer: a.server.issuer, ClientID: a.client.options.MetadataURL, Method: MethodNone}, nil
	}
	saved, err := a.registered(ctx)
	if saved == nil || err != nil {
		return nil, err
	}
	return saved.registration(a.server.issuer), nil
}

// given is the registration that the program has given for the server. One without an
// issuer belongs to the first that it is used with, also in later runs.
func (a *ask) given(ctx context.Context) (*Registration, error) {
	all := a.client.options.Registrations
	for i := range all {
		if all[i].Issuer == a.server.issuer {
			return &all[i], nil
		}
	}
	i := slices.IndexFunc(all, func(r Registration) bool { return r.Issuer == "" })
	if i < 0 {
		return nil, nil
	}
	registration := all[i]
	key := "issuer of " + registration.ClientID
	first, err := a.client.options.Store.Load(ctx, key)
	switch {
	case err != nil:
		return nil, &StoreError{"load the issuer of a registration", err}
	case first == "":
		if err := a.client.options.Store.Save(ctx, key, Secret(a.server.issuer)); err != nil {
			return nil, &StoreError{"save the issuer of a registration", err}
		}
	case string(first) != a.server.issuer:
		return nil, &IssuerError{Expected: string(first), Got: a.server.issuer}
	}
	registration.Issuer = a.server.issuer
	return &registration, nil
}

// register is known, or registers the client for answers at a redirect URI. RFC 7591.
func (a *ask) register(ctx context.Context, redirect string) (*Registration, error) {
	registration, err := a.known(ctx)
	if err != nil {
		return nil, err
	}
	if registration != nil {
		saved, err := a.registered(ctx)
		if err != nil {
			return nil, err
		}
		if saved == nil || saved.ClientID != registration.ClientID || saved.Redirect == redirect {
			return registration, nil
		}
	}
	if a.server.registrationEndpoint == "" {
		return nil, &RegistrationError{Issuer: a.server.issuer, Reason: "the server registers nobody by itself, and knows this client neither by ClientOptions.Registrations nor by a MetadataURL"}
	}
	saved, err := a.registerAt(ctx, redirect)
	if err != nil {
		return nil, &RegistrationError{Issuer: a.server.issuer, Reason: "the server was asked", Err: err}
	}
	if err := a.keepRegistered(ctx, saved); err != nil {
		return nil, err
	}
	return saved.registration(a.server.issuer), nil
}

// A clientMetadata is what a client says of itself. RFC 7591, section 2; application_type
// is of OpenID Connect Dynamic Client Registration.
type clientMetadata struct {
	Name            string   `json:"client_name"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	Method          string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type"`
	Scope           string   `json:"scope,omitempty"`
	BoundTokens     bool     `json:"dpop_bound_access_tokens,omitempty"`
}

// registerAt registers the client.
func (a *ask) registerAt(ctx context.Context, redirect string) (*savedRegistration, error) {
	about := clientMetadata{
		Name: a.client.options.Name, RedirectURIs: []string{redirect}, GrantTypes: []string{"authorization_code"},
		ResponseTypes: []string{"code"}, Method: a.registeredMethod(), ApplicationType: applicationType(redirect), BoundTokens: a.key != nil,
	}
	if !a.client.options.NoRefresh {
		about.GrantTypes = append(about.GrantTypes, "refresh_token")
	}
	text, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.server.registrationEndpoint, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	res, err := send(a.client.http, req)
	if err != nil {
		return nil, err
	}
	d := &document{url: shown(req.URL)}
	readable := d.read(res.body)
	if res.status != http.StatusCreated && res.status != http.StatusOK {
		refused := &Error{Code: "status " + http.StatusText(res.status), Status: res.status}
		if readable == nil {
			d.get("error", &refused.Code)
			d.get("error_description", &refused.Description)
		}
		refused.Code, refused.Description = excerpt(refused.Code), excerpt(refused.Description)
		return nil, refused
	}
	if readable != nil {
		return nil, readable
	}
	saved := &savedRegistration{Method: about.Method, Redirect: redirect}
	var expires int64
	d.get("client_id", &saved.ClientID)
	d.get("client_secret", &saved.Secret)
	d.get("client_secret_expires_at", &expires)
	d.get("token_endpoint_auth_method", &saved.Method)
	if expires > 0 {
		saved.Expires = time.Unix(expires, 0)
	}
	if d.err != nil {
		return nil, d.err
	}
	if err := saved.registration("").check(); err != nil {
		return nil, d.wrong("the registration cannot be used: " + err.Error())
	}
	return saved, nil
}

// registeredMethod is how the client asks to authenticate: not at all, if that is
// possible, since what lies on people's machines keeps no secret of its own.
func (a *ask) registeredMethod() string {
	for _, method := range []string{MethodNone, MethodBasic, MethodPost} {
		if slices.Contains(a.server.authMethods, method) {
			return method
		}
	}
	return MethodBasic // what a server supports that does not say: RFC 8414, section 2
}

// applicationType tells an application on a person's machine from one on the web.
func applicationType(redirect string) string {
	if u, err := url.Parse(redirect); err == nil && u.Scheme == "https" {
		return "web"
	}
	return "native"
}

// A savedRegistration is one that the client has made, as it is kept.
type savedRegistration struct {
	ClientID string    `json:"client_id"`
	Secret   string    `json:"client_secret,omitempty"`
	Method   string    `json:"token_endpoint_auth_method"`
	Expires  time.Time `json:"expires,omitzero"`
	Redirect string    `json:"redirect_uri"`
}

func (s *savedRegistration) registration(issuer string) *Registration {
	return &Registration{Issuer: issuer, ClientID: s.ClientID, Secret: Secret(s.Secret), Method: s.Method}
}

// registrationKey is where the registration with an issuer is kept.
func (a *ask) registrationKey() string { return "client of " + a.server.issuer }

// registered is the registration that the client has made with the server, nil if none.
func (a *ask) registered(ctx context.Context) (*savedRegistration, error) {
	text, err := a.client.options.Store.Load(ctx, a.registrationKey())
	if err != nil {
		return nil, &StoreError{"load a registration", err}
	}
	var saved savedRegistration
	if text == "" || json.Unmarshal([]byte(text), &saved) != nil || saved.registration("").check() != nil {
		return nil, nil
	}
	if !saved.Expires.IsZero() && !a.client.options.Clock().Before(saved.Expires) {
		return nil, nil
	}
	return &saved, nil
}

// keepRegistered remembers a registration, nil to forget it.
func (a *ask) keepRegistered(ctx context.Context, saved *savedRegistration) error {
	var text []byte
	var err error
	if saved != nil {
		text, err = json.Marshal(saved) //nolint:gosec // it is for the store
	}
	if err == nil {
		err = a.client.options.Store.Save(ctx, a.registrationKey(), Secret(text))
	}
	if err != nil {
		return &StoreError{"save a registration", err}
	}
	return nil
}

// mustBeGiven is the registration that the program has given; a flow without a person
// has no other.
func (a *ask) mustBeGiven(ctx context.Context) (*Registration, error) {
	registration, err := a.given(ctx)
	if registration == nil && err == nil {
		err = &RegistrationError{Issuer: a.server.issuer, Reason: fmt.Sprintf("expected one for it in ClientOptions.Registrations, which has %d", len(a.client.options.Registrations))}
	}
	return registration, err
}
