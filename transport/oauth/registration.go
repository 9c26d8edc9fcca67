package oauth

import (
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// A Registration is what an authorization server knows a client by.
type Registration struct {
	// Issuer is the authorization server that it is for; nothing of it goes to another
	// one. Empty means the first one that a server names for itself, whichever that is:
	// from then on it is for that one.
	Issuer string
	// ClientID is the client's name there. Required.
	ClientID string
	// Secret is the client's password, if it has one.
	Secret Secret
	// Key signs the client's assertions (private_key_jwt, RFC 7523), if it has one: an
	// RSA, ECDSA or Ed25519 key.
	Key crypto.Signer
	// KeyID names the key, if the server knows it by a name.
	KeyID string
	// Method is how the client proves who it is: [MethodNone], [MethodBasic],
	// [MethodPost] or [MethodPrivateKeyJWT]. By default it is the first of
	// private_key_jwt, client_secret_basic, client_secret_post and none that the server
	// supports and that the registration has the means for.
	Method string
}

// shownRegistration is a registration for people to read.
type shownRegistration struct {
	Issuer   string
	ClientID string
	Secret   Secret
	Key      any
	KeyID    string
	Method   string
}

func (r Registration) shown() shownRegistration {
	return shownRegistration{r.Issuer, r.ClientID, r.Secret, shownSecret(r.Key != nil), r.KeyID, r.Method}
}

// Format tells neither the secret nor the key.
func (r Registration) Format(to fmt.State, verb rune) {
	fmt.Fprintf(to, fmt.FormatString(to, verb), r.shown())
}

// LogValue tells neither the secret nor the key.
func (r Registration) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

// MarshalJSON tells neither the secret nor the key: it is not for keeping a registration.
func (r Registration) MarshalJSON() ([]byte, error) { return json.Marshal(r.shown()) }

// How a client authenticates to an authorization server. RFC 7591, section 2, and OpenID
// Connect Core, section 9.
const (
	MethodNone          = "none"
	MethodBasic         = "client_secret_basic"
	MethodPost          = "client_secret_post"
	MethodPrivateKeyJWT = "private_key_jwt"
)

func (r *Registration) check() error {
	switch {
	case r.ClientID == "":
		return errors.New("expected a ClientID")
	case r.Method != "" && !slices.Contains(methods[:], r.Method):
		return fmt.Errorf("expected one of %q as Method, got %s", methods, quote(r.Method))
	case r.Method != "" && !r.can(r.Method):
		return fmt.Errorf("the Method %s needs a Key or a Secret", r.Method)
	}
	return nil
}

// methods are those that exist here, the best first.
var methods = [...]string{MethodPrivateKeyJWT, MethodBasic, MethodPost, MethodNone}

// can tells whether the registration has the means for a method.
func (r *Registration) can(method string) bool {
	switch method {
	case MethodPrivateKeyJWT:
		return r.Key != nil
	case MethodBasic, MethodPost:
		return r.Secret != ""
	}
	return method == MethodNone
}

// method chooses how to authenticate to a server that supports some methods. One that
// does not say which supports client_secret_basic: RFC 8414, section 2.
func (r *Registration) method(supported []string) (string, error) {
	if r.Method != "" {
		return r.Method, nil
	}
	if len(supported) == 0 {
		supported = []string{MethodBasic, MethodNone}
	}
	for _, method := range methods {
		if slices.Contains(supported, method) && r.can(method) {
			return method, nil
		}
	}
	return "", &RegistrationError{Issuer: r.Issuer, Reason: fmt.Sprintf("the server supports none of the ways in which the client can authenticate; it has %s", excerpt(fmt.Sprintf("%q", supported)))}
}
