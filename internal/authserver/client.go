package authserver

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// authenticate finds out which client asks.
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
		return client, s.isAssertion(r.PostForm, client)
	}
	return client, known && subtle.ConstantTimeCompare([]byte(secret), []byte(client.Secret)) == 1
}

// isAssertion checks a client's word on who it is. RFC 7523, section 3.
func (s *Server) isAssertion(form url.Values, client Client) bool {
	token, err := jwt.ParseSigned(form.Get("client_assertion"), []jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.EdDSA})
	var claims jwt.Claims
	if err != nil || form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || token.Claims(client.Key, &claims) != nil {
		return false
	}
	return claims.Expiry != nil && claims.Validate(jwt.Expected{
		Issuer: client.ID, Subject: client.ID, AnyAudience: jwt.Audience{s.URL}, Time: s.options.Clock(),
	}) == nil
}

// register registers a client. RFC 7591.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var about struct {
		Name         string   `json:"client_name,omitempty"`
		RedirectURIs []string `json:"redirect_uris,omitempty"`
		Method       string   `json:"token_endpoint_auth_method"`
	}
	if err := json.NewDecoder(r.Body).Decode(&about); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", "expected JSON")
		return
	}
	client := Client{ID: rand.Text(), RedirectURIs: about.RedirectURIs}
	if about.Method == "" {
		about.Method = "client_secret_basic"
	}
	if about.Method != "none" {
		client.Secret = rand.Text()
	}
	s.mu.Lock()
	remember(s.clients, client.ID, client)
	s.mu.Unlock()
	answer(w, http.StatusCreated, map[string]any{
		"client_id": client.ID, "client_secret": client.Secret, "client_name": about.Name, "redirect_uris": client.RedirectURIs,
		"token_endpoint_auth_method": about.Method,
	})
}
