package authserver

import (
	"crypto/rand"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// An authorization is what a person, or nobody, has agreed to.
type authorization struct {
	client    string
	subject   string
	scopes    []string
	resource  string
	redirect  string
	challenge string // of PKCE
	key       string // thumbprint that tokens are bound to, if they are
	expires   time.Time
}

// authorize has the person agree. Before it is known where answers may go, they go
// nowhere: RFC 6749, section 4.1.2.1.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	s.mu.Lock()
	client, known := s.clients[asked.Get("client_id")]
	s.mu.Unlock()
	redirect, err := url.Parse(asked.Get("redirect_uri"))
	if !known || err != nil || !slices.ContainsFunc(client.RedirectURIs, func(uri string) bool { return sameRedirect(uri, asked.Get("redirect_uri")) }) {
		refuse(w, http.StatusBadRequest, "invalid_request", "the client or its redirect URI is not known")
		return
	}
	answer := url.Values{"state": {asked.Get("state")}, "iss": {s.URL}}
	switch {
	case asked.Get("response_type") != "code":
		answer.Set("error", "unsupported_response_type")
	case asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") == "":
		answer.Set("error", "invalid_request")
		answer.Set("error_description", "expected a code_challenge of the method S256")
	default:
		code := rand.Text()
		s.mu.Lock()
		remember(s.codes, code, authorization{
			client: client.ID, subject: s.options.Subject, scopes: s.granted(asked.Get("scope")), resource: asked.Get("resource"),
			redirect: asked.Get("redirect_uri"), challenge: asked.Get("code_challenge"), expires: s.options.Clock().Add(codeLife),
		})
		s.mu.Unlock()
		answer.Set("code", code)
	}
	redirect.RawQuery = answer.Encode()
	http.Redirect(w, r, redirect.String(), http.StatusFound) //nolint:gosec // the client has registered it
}

// granted are the scopes that are given of those that were asked for.
func (s *Server) granted(asked string) []string {
	return slices.DeleteFunc(strings.Fields(asked), func(scope string) bool {
		return len(s.options.Scopes) > 0 && !slices.Contains(s.options.Scopes, scope)
	})
}

// sameRedirect compares redirect URIs, at a loopback address without their ports.
func sameRedirect(known, asked string) bool {
	if known == asked {
		return true
	}
	a, errA := url.Parse(known)
	b, errB := url.Parse(asked)
	if errA != nil || errB != nil {
		return false
	}
	addr, err := netip.ParseAddr(a.Hostname())
	return err == nil && addr.IsLoopback() && a.Scheme == "http" && b.Scheme == "http" && a.Hostname() == b.Hostname() &&
		a.Path == b.Path && a.RawQuery == b.RawQuery && b.User == nil && b.Fragment == ""
}
