package oauthtest

import (
	"cmp"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// serveToken is the token endpoint.
func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "the form cannot be read")
		return
	}
	client, ok := s.authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Basic")
		refuse(w, http.StatusUnauthorized, "invalid_client", "unknown client, or authentication failed")
		return
	}
	key, err := s.checkProof(r)
	if err != nil {
		w.Header().Set("DPoP-Nonce", s.currentNonce())
		refuse(w, http.StatusBadRequest, err.Error(), "the proof is not valid")
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

// redeem returns the authorization for a grant, or an error code. Codes and refresh tokens
// can be used once. The caller holds the mutex.
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
		return a, s.checkSubset(&a, form)
	case "refresh_token":
		a, known := s.refreshes[form.Get("refresh_token")]
		delete(s.refreshes, form.Get("refresh_token"))
		if !known || a.client != client.ID {
			return a, "invalid_grant"
		}
		return a, s.checkSubset(&a, form)
	}
	return a, "unsupported_grant_type"
}

// checkSubset returns an error code if a form requests more than was authorized.
func (s *Server) checkSubset(a *authorization, form url.Values) string {
	switch {
	case form.Has("resource") && form.Get("resource") != a.resource:
		return "invalid_target"
	case slices.ContainsFunc(s.granted(form.Get("scope")), func(scope string) bool { return !slices.Contains(a.scopes, scope) }):
		return "invalid_scope"
	}
	return ""
}

// tokenClaims are the claims of a token. RFC 9068, section 2.2.
type tokenClaims struct {
	jwt.Claims
	ClientID     string            `json:"client_id"`
	Scope        string            `json:"scope,omitempty"`
	Confirmation map[string]string `json:"cnf,omitempty"`
}

// issue sends a token response.
func (s *Server) issue(w http.ResponseWriter, client Client, a authorization) {
	now := s.options.Clock()
	claims := tokenClaims{
		Claims: jwt.Claims{
			Issuer: s.URL, Subject: cmp.Or(a.subject, client.ID), Audience: jwt.Audience{a.resource}, ID: rand.Text(),
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(s.options.TokenLife)),
		},
		ClientID: client.ID, Scope: strings.Join(a.scopes, " "),
	}
	response := map[string]any{"token_type": "Bearer", "expires_in": int(s.options.TokenLife / time.Second), "scope": claims.Scope}
	if a.key != "" {
		response["token_type"] = "DPoP"
		claims.Confirmation = map[string]string{"jkt": a.key}
	}
	further := s.options.Claims(claims.Subject)
	token, err := s.sign("at+jwt", further, claims)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", "")
		return
	}
	response["access_token"] = token
	if slices.Contains(a.scopes, "openid") {
		identity := idClaims{Claims: claims.Claims, Nonce: a.nonce}
		identity.Audience = jwt.Audience{client.ID}
		if response["id_token"], err = s.sign("JWT", further, identity); err != nil {
			refuse(w, http.StatusInternalServerError, "server_error", "")
			return
		}
	}
	s.mu.Lock()
	if a.subject != "" {
		next := rand.Text()
		remember(s.refreshes, next, a)
		response["refresh_token"] = next
	}
	s.nonce = rand.Text()
	s.mu.Unlock()
	answer(w, http.StatusOK, response)
}

// idClaims are the claims of an ID token. OpenID Connect Core, section 2.
type idClaims struct {
	jwt.Claims
	Nonce string `json:"nonce,omitempty"`
}

// Sign returns an access token (RFC 9068) with any claims: a value that encoding/json marshals
// to an object, whose claim "iss" should be [Server].URL. Sign returns an error if
// claims cannot be marshaled.
func (s *Server) Sign(claims any) (string, error) { return s.sign("at+jwt", claims) }

// sign returns a token with claims. Of two claims with one name, the later is used.
func (s *Server) sign(kind jose.ContentType, claims ...any) (string, error) {
	s.mu.Lock()
	key := s.key
	s.mu.Unlock()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithType(kind))
	if err != nil {
		return "", err
	}
	token := jwt.Signed(signer)
	for _, some := range claims {
		token = token.Claims(some)
	}
	return token.Serialize()
}

// introspect is the introspection endpoint, for clients with a secret or a key. RFC 7662.
func (s *Server) introspect(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "the form cannot be read")
		return
	}
	if client, ok := s.authenticate(r); !ok || client.Secret == "" && client.Key == nil {
		w.Header().Set("WWW-Authenticate", "Basic")
		refuse(w, http.StatusUnauthorized, "invalid_client", "only clients with a secret or a key may introspect tokens")
		return
	}
	s.mu.Lock()
	public := s.key.Public()
	_, revoked := s.revoked[r.PostForm.Get("token")]
	s.mu.Unlock()
	var claims tokenClaims
	token, err := jwt.ParseSigned(r.PostForm.Get("token"), []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || revoked || token.Claims(public, &claims) != nil || claims.Validate(jwt.Expected{Issuer: s.URL, Time: s.options.Clock()}) != nil {
		answer(w, http.StatusOK, map[string]bool{"active": false})
		return
	}
	answer(w, http.StatusOK, struct {
		Active bool `json:"active"`
		tokenClaims
		TokenType string `json:"token_type"`
	}{true, claims, "Bearer"})
}

// revoke is the revocation endpoint. It ignores tokens of other clients. RFC 7009, section 2.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "the form cannot be read")
		return
	}
	client, ok := s.authenticate(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Basic")
		refuse(w, http.StatusUnauthorized, "invalid_client", "unknown client, or authentication failed")
		return
	}
	token := r.PostForm.Get("token")
	var claims tokenClaims
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, known := s.refreshes[token]; known && a.client == client.ID {
		delete(s.refreshes, token)
	}
	public := s.key.Public()
	if parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256}); err == nil && parsed.Claims(public, &claims) == nil && claims.ClientID == client.ID {
		remember(s.revoked, token, struct{}{})
	}
	w.WriteHeader(http.StatusOK)
}

// authenticate returns the client of a request.
func (s *Server) authenticate(r *http.Request) (Client, bool) {
	id, secret, basic := r.BasicAuth()
	if basic { // both are form-encoded: RFC 6749, section 2.3.1
		var errID, errSecret error
		id, errID = url.QueryUnescape(id)
		secret, errSecret = url.QueryUnescape(secret)
		if errID != nil || errSecret != nil {
			return Client{}, false
		}
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	s.mu.Lock()
	client, known := s.clients[id]
	s.mu.Unlock()
	if known && client.Key != nil {
		return client, s.checkAssertion(r.PostForm, client)
	}
	return client, known && subtle.ConstantTimeCompare([]byte(secret), []byte(client.Secret)) == 1
}

// checkAssertion verifies a client assertion. RFC 7523, section 3.
func (s *Server) checkAssertion(form url.Values, client Client) bool {
	token, err := jwt.ParseSigned(form.Get("client_assertion"), []jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.EdDSA})
	var claims jwt.Claims
	if err != nil || form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || token.Claims(client.Key, &claims) != nil {
		return false
	}
	return claims.Expiry != nil && claims.Validate(jwt.Expected{
		Issuer: client.ID, Subject: client.ID, AnyAudience: jwt.Audience{s.URL}, Time: s.options.Clock(),
	}) == nil
}

// register is the registration endpoint. RFC 7591.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Name         string   `json:"client_name,omitempty"`
		RedirectURIs []string `json:"redirect_uris,omitempty"`
		Method       string   `json:"token_endpoint_auth_method"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", "expected JSON")
		return
	}
	client := Client{ID: rand.Text(), RedirectURIs: request.RedirectURIs}
	if request.Method == "" {
		request.Method = "client_secret_basic"
	}
	if request.Method != "none" {
		client.Secret = rand.Text()
	}
	s.mu.Lock()
	remember(s.clients, client.ID, client)
	s.mu.Unlock()
	answer(w, http.StatusCreated, map[string]any{
		"client_id": client.ID, "client_secret": client.Secret, "client_name": request.Name, "redirect_uris": client.RedirectURIs,
		"token_endpoint_auth_method": request.Method,
	})
}

var (
	errProof = errors.New("invalid_dpop_proof")
	errNonce = errors.New("use_dpop_nonce")
)

func (s *Server) currentNonce() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nonce
}

// checkProof returns the thumbprint of the key of a DPoP proof, "" without a proof. RFC
// 9449, section 5.
func (s *Server) checkProof(r *http.Request) (string, error) {
	lines := r.Header["Dpop"]
	if len(lines) == 0 {
		return "", nil
	}
	token, err := jwt.ParseSigned(lines[0], []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(lines) > 1 || len(token.Headers) != 1 || token.Headers[0].JSONWebKey == nil || token.Headers[0].ExtraHeaders["typ"] != "dpop+jwt" {
		return "", errProof
	}
	key := token.Headers[0].JSONWebKey
	var proof struct {
		ID       string           `json:"jti"`
		Method   string           `json:"htm"`
		URI      string           `json:"htu"`
		IssuedAt *jwt.NumericDate `json:"iat"`
		Nonce    string           `json:"nonce"`
	}
	if !key.IsPublic() || token.Claims(key, &proof) != nil || proof.ID == "" || proof.IssuedAt == nil ||
		proof.Method != r.Method || proof.URI != s.URL+r.URL.Path || s.options.Clock().Sub(proof.IssuedAt.Time()).Abs() > proofLife {
		return "", errProof
	}
	if s.options.Nonces && subtle.ConstantTimeCompare([]byte(proof.Nonce), []byte(s.currentNonce())) != 1 {
		return "", errNonce
	}
	thumbprint, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", errProof
	}
	return base64.RawURLEncoding.EncodeToString(thumbprint), nil
}
