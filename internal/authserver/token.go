package authserver

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// giveToken is the token endpoint.
func (s *Server) giveToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "the form cannot be read")
		return
	}
	client, ok := s.authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Basic")
		refuse(w, http.StatusUnauthorized, "invalid_client", "the client is not known, or has not shown who it is")
		return
	}
	key, err := s.checkProof(r)
	if err != nil {
		w.Header().Set("DPoP-Nonce", s.currentNonce())
		refuse(w, http.StatusBadRequest, err.Error(), "the proof is not accepted")
		return
	}
	s.mu.Lock()
	a, code := s.redeem(client, r.PostForm)
	s.mu.Unlock()
	switch {
	case code != "":
		refuse(w, http.StatusBadRequest, code, "")
	case a.key != "" && a.key != key:
		refuse(w, http.StatusBadRequest, "invalid_dpop_proof", "the token was bound to another key")
	default:
		a.key = key
		s.issue(w, client, a)
	}
}

// redeem finds out what a grant is worth. Codes and refresh tokens are used once. The
// caller has the lock.
func (s *Server) redeem(client Client, form url.Values) (a authorization, code string) {
	switch form.Get("grant_type") {
	case "client_credentials":
		if client.Secret == "" && client.Key == nil {
			return a, "unauthorized_client"
		}
		return authorization{client: client.ID, scopes: s.granted(form.Get("scope")), resource: form.Get("resource")}, ""
	case "authorization_code":
		a, known := s.codes[form.Get("code")]
		delete(s.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		challenge := base64.RawURLEncoding.EncodeToString(sum[:])
		if !known || a.client != client.ID || a.redirect != form.Get("redirect_uri") || s.options.Clock().After(a.expires) ||
			subtle.ConstantTimeCompare([]byte(challenge), []byte(a.challenge)) != 1 {
			return a, "invalid_grant"
		}
		return a, s.narrow(&a, form)
	case "refresh_token":
		a, known := s.refreshes[form.Get("refresh_token")]
		delete(s.refreshes, form.Get("refresh_token"))
		if !known || a.client != client.ID {
			return a, "invalid_grant"
		}
		return a, s.narrow(&a, form)
	}
	return a, "unsupported_grant_type"
}

// narrow checks that no more is asked for than was agreed to.
func (s *Server) narrow(a *authorization, form url.Values) string {
	switch {
	case form.Has("resource") && form.Get("resource") != a.resource:
		return "invalid_target"
	case slices.ContainsFunc(s.granted(form.Get("scope")), func(scope string) bool { return !slices.Contains(a.scopes, scope) }):
		return "invalid_scope"
	}
	return ""
}

// Claims are those of a token. RFC 9068, section 2.2.
type Claims struct {
	jwt.Claims
	ClientID     string            `json:"client_id"`
	Scope        string            `json:"scope,omitempty"`
	Confirmation map[string]string `json:"cnf,omitempty"`
}

// issue answers with a token.
func (s *Server) issue(w http.ResponseWriter, client Client, a authorization) {
	now := s.options.Clock()
	subject := a.subject
	if subject == "" {
		subject = client.ID
	}
	claims := Claims{
		Claims: jwt.Claims{
			Issuer: s.URL, Subject: subject, Audience: jwt.Audience{a.resource}, ID: rand.Text(),
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(s.options.TokenLife)),
		},
		ClientID: client.ID, Scope: strings.Join(a.scopes, " "),
	}
	given := map[string]any{"token_type": "Bearer", "expires_in": int(s.options.TokenLife / time.Second), "scope": claims.Scope}
	if a.key != "" {
		given["token_type"] = "DPoP"
		claims.Confirmation = map[string]string{"jkt": a.key}
	}
	token, err := s.Sign(claims)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", "")
		return
	}
	given["access_token"] = token
	s.mu.Lock()
	if a.subject != "" {
		next := rand.Text()
		remember(s.refreshes, next, a)
		given["refresh_token"] = next
	}
	s.nonce = rand.Text()
	s.mu.Unlock()
	answer(w, http.StatusOK, given)
}

// Sign makes a token of any claims.
func (s *Server) Sign(claims any) (string, error) {
	s.mu.Lock()
	key := s.key
	s.mu.Unlock()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

// introspect says what a token is worth, to clients with a secret. RFC 7662.
func (s *Server) introspect(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "the form cannot be read")
		return
	}
	if client, ok := s.authenticate(r); !ok || client.Secret == "" && client.Key == nil {
		w.Header().Set("WWW-Authenticate", "Basic")
		refuse(w, http.StatusUnauthorized, "invalid_client", "only clients with a secret may ask")
		return
	}
	s.mu.Lock()
	public := s.key.Public()
	s.mu.Unlock()
	var claims Claims
	token, err := jwt.ParseSigned(r.PostForm.Get("token"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || token.Claims(public, &claims) != nil || claims.Validate(jwt.Expected{Issuer: s.URL, Time: s.options.Clock()}) != nil {
		answer(w, http.StatusOK, map[string]bool{"active": false})
		return
	}
	answer(w, http.StatusOK, struct {
		Active bool `json:"active"`
		Claims
		TokenType string `json:"token_type"`
	}{true, claims, "Bearer"})
}
