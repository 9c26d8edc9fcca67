package oauth_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A loginVariant is a server and its authorization server with one peculiarity. In its texts, RESOURCE
// and ISSUER are the origins of both.
type loginVariant struct {
	name string
	// answers are the answers at places such as "resource/.well-known/oauth-protected-resource/mcp": a
	// status, "302 URL", "hang up", or a body, which may follow its content type. They replace those of
	// defaultAnswers. All other places have status 404.
	answers map[string]string
	// challenge has the lines of the header WWW-Authenticate. Default: the metadata of the resource.
	challenge string
	// stepUp is the challenge with status 403 until the token has the scope "more".
	stepUp string
	// iss is the issuer in the authorization response.
	iss string
	// secret is what the token endpoint requires.
	secret string
	// atOrigin has the endpoints of the authorization server at the origin of the resource, too.
	atOrigin bool
	// noResource refuses requests with the parameter resource.
	noResource bool
	// refused is why a login fails, "" if it succeeds.
	refused string
}

const (
	resourcePath = "resource/.well-known/oauth-protected-resource/mcp"
	resourceRoot = "resource/.well-known/oauth-protected-resource"
	issuerOAuth  = "issuer/.well-known/oauth-authorization-server"
	issuerOpenID = "issuer/.well-known/openid-configuration"
	originOAuth  = "resource/.well-known/oauth-authorization-server"
	originOpenID = "resource/.well-known/openid-configuration"

	resourceDoc     = `{"resource":"RESOURCE/mcp","authorization_servers":["ISSUER"]}`
	resourceRootDoc = `{"resource":"RESOURCE","authorization_servers":["ISSUER"]}`
)

// issuerDoc is the metadata of an authorization server at a URL, with more members.
func issuerDoc(issuer, at string, more ...string) string {
	members := map[string]string{
		"issuer": `"` + issuer + `"`, "authorization_endpoint": `"` + at + `/authorize"`, "token_endpoint": `"` + at + `/token"`, "registration_endpoint": `"` + at + `/register"`,
		"jwks_uri": `"` + at + `/jwks"`, "response_types_supported": `["code"]`, "code_challenge_methods_supported": `["S256"]`,
		"token_endpoint_auth_methods_supported": `["none","client_secret_basic","client_secret_post"]`,
		"subject_types_supported":               `["public"]`, "id_token_signing_alg_values_supported": `["ES256"]`,
	}
	for i := 0; i < len(more); i += 2 {
		if members[more[i]] = more[i+1]; more[i+1] == "" {
			delete(members, more[i])
		}
	}
	var list []string
	for name, value := range members {
		list = append(list, fmt.Sprintf("%q:%s", name, value))
	}
	slices.Sort(list)
	return "{" + strings.Join(list, ",") + "}"
}

// defaultAnswers are the answers of a server and its authorization server without a peculiarity.
func defaultAnswers() map[string]string {
	return map[string]string{
		resourcePath: resourceDoc, issuerOAuth: issuerDoc("ISSUER", "ISSUER"), "resource/page": "text/html <title>x</title>", "issuer/page": "text/html <title>x</title>",
		"register": `{"client_id":"app","token_endpoint_auth_method":"none","redirect_uris":REDIRECTS}`,
		"token":    `{"access_token":"TOKEN","token_type":"Bearer","expires_in":3600}`,
	}
}

// A loginSite is a running variant.
type loginSite struct {
	*loginVariant
	resource, issuer *httptest.Server
	all              map[string]string // answers

	mu       sync.Mutex
	codes    map[string]url.Values // authorization requests
	tokens   map[string][]string   // scopes
	accepted bool                  // a request had a valid token
	problem  string                // what the authorization server has refused
}

func newLoginSite(t testing.TB, v *loginVariant) *loginSite {
	s := &loginSite{loginVariant: v, all: defaultAnswers(), codes: make(map[string]url.Values), tokens: make(map[string][]string)}
	maps.Copy(s.all, v.answers)
	start := func(side string) *httptest.Server {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(side, w, r) }))
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handlers that hang up
		server.Start()
		t.Cleanup(server.Close)
		return server
	}
	s.resource, s.issuer = start("resource"), start("issuer")
	return s
}

func (s *loginSite) expand(text string, more ...string) string {
	return strings.NewReplacer(append(more, "RESOURCEHOST", s.resource.Listener.Addr().String(), "RESOURCE", s.resource.URL, "ISSUER", s.issuer.URL)...).Replace(text)
}

func (s *loginSite) serve(side string, w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	s.mu.Lock()
	defer s.mu.Unlock()
	hasEndpoints := side == "issuer" || s.atOrigin
	switch path := r.URL.Path; {
	case side == "resource" && path == "/mcp":
		s.serveMCP(w, r, body)
	case hasEndpoints && path == "/authorize":
		s.authorize(w, r)
	case hasEndpoints && path == "/register":
		var request struct {
			Redirects json.RawMessage `json:"redirect_uris"`
		}
		_ = json.Unmarshal(body, &request)
		s.answer(w, s.all["register"], "REDIRECTS", string(request.Redirects))
	case hasEndpoints && path == "/token":
		s.serveToken(w, r, body)
	default:
		answer, ok := s.all[side+path]
		if !ok {
			answer = "404"
		}
		s.answer(w, answer)
	}
}

// answer sends an answer, which is a text of [loginVariant].
func (s *loginSite) answer(w http.ResponseWriter, text string, more ...string) {
	text = s.expand(text, more...)
	status, kind := http.StatusOK, "application/json"
	switch first, rest, _ := strings.Cut(text, " "); {
	case text == "hang up":
		panic(http.ErrAbortHandler)
	case len(first) == 3 && first > "1" && first < "6":
		status, _ = strconv.Atoi(first)
		text = rest
		if status/100 == 3 {
			w.Header().Set("Location", rest)
			text = ""
		}
	case strings.Contains(first, "/") && !strings.ContainsAny(first, `{"`):
		kind, text = first, rest
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

func (s *loginSite) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	answer := url.Values{"state": query["state"]}
	switch {
	case s.noResource && query.Has("resource"):
		s.problem = "resource"
		answer.Set("error", "invalid_target")
	case query.Get("client_id") != "app" || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256":
		s.problem = r.URL.RawQuery
		answer.Set("error", "invalid_request")
	default:
		code := rand.Text()
		s.codes[code] = query
		answer.Set("code", code)
	}
	if s.iss != "" {
		answer.Set("iss", s.expand(s.iss))
	}
	w.Header().Set("Location", query.Get("redirect_uri")+"?"+answer.Encode())
	w.WriteHeader(http.StatusFound)
}

func (s *loginSite) serveToken(w http.ResponseWriter, r *http.Request, body []byte) {
	form, _ := url.ParseQuery(string(body))
	request := s.codes[form.Get("code")]
	challenge := sha256.Sum256([]byte(form.Get("code_verifier")))
	_, secret, _ := r.BasicAuth()
	if secret == "" {
		secret = form.Get("client_secret")
	}
	if request == nil || request.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]) || secret != s.secret || s.noResource && form.Has("resource") {
		s.problem = "token " + string(body)
		s.answer(w, `400 {"error":"invalid_request"}`)
		return
	}
	token := rand.Text()
	s.tokens[token] = strings.Fields(request.Get("scope"))
	s.answer(w, s.all["token"], "TOKEN", token)
}

func (s *loginSite) serveMCP(w http.ResponseWriter, r *http.Request, body []byte) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	scopes, known := s.tokens[token]
	status, challenge := http.StatusUnauthorized, s.challenge
	if challenge == "" {
		challenge = `Bearer resource_metadata="RESOURCE/.well-known/oauth-protected-resource/mcp"`
	}
	if known && s.stepUp != "" && !slices.Contains(scopes, "more") {
		status, challenge = http.StatusForbidden, s.stepUp
	} else if known {
		s.accepted = true
		var request struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		switch _ = json.Unmarshal(body, &request); {
		case request.Method == "initialize":
			s.answer(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`, request.ID))
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case request.ID != nil:
			s.answer(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, request.ID))
		default:
			w.WriteHeader(http.StatusAccepted)
		}
		return
	}
	for line := range strings.SplitSeq(s.expand(challenge), "\n") {
		if line != "none" {
			w.Header().Add("WWW-Authenticate", line)
		}
	}
	w.WriteHeader(status)
}

// outcome reports whether a request had a valid token.
func (s *loginSite) outcome() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}
