package oauthtest_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

const (
	issuer   = "https://as.example"
	verifier = "a-verifier-of-at-least-forty-three-characters-1"
	redirect = "http://127.0.0.1:1234/callback"
)

func newServer(t *testing.T) *oauthtest.Server {
	t.Helper()
	s, err := oauthtest.New(issuer, &oauthtest.Options{Scopes: []string{"read"}, Clients: []oauthtest.Client{
		{ID: "app", RedirectURIs: []string{"http://127.0.0.1/callback", "https://app.example/back"}}, {ID: "robot", Secret: "password"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(s *oauthtest.Server, method, path string, form url.Values, header http.Header) (int, http.Header, map[string]any) {
	body := ""
	if method == http.MethodPost {
		body = form.Encode()
	} else {
		path += "?" + form.Encode()
	}
	req := httptest.NewRequest(method, issuer+path, strings.NewReader(body))
	maps.Copy(req.Header, header)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res := httptest.NewRecorder()
	s.ServeHTTP(res, req)
	var answer map[string]any
	_ = json.Unmarshal(res.Body.Bytes(), &answer)
	return res.Code, res.Header(), answer
}

func codeRequest() url.Values {
	sum := sha256.Sum256([]byte(verifier))
	return url.Values{
		"response_type": {"code"}, "client_id": {"app"}, "redirect_uri": {redirect}, "state": {"s"}, "scope": {"read write"}, "resource": {"https://r.example"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
}

// login returns a token request with a new code.
func login(t *testing.T, s *oauthtest.Server) url.Values {
	t.Helper()
	status, header, _ := serve(s, http.MethodGet, "/authorize", codeRequest(), nil)
	back, err := url.Parse(header.Get("Location"))
	if err != nil || status != http.StatusFound || back.Query().Get("iss") != issuer || back.Query().Get("state") != "s" {
		t.Fatalf("got %d, %v", status, header)
	}
	return url.Values{"grant_type": {"authorization_code"}, "client_id": {"app"}, "code": {back.Query().Get("code")}, "code_verifier": {verifier}, "redirect_uri": {redirect}}
}

func TestCodeIsUsedOnce(t *testing.T) {
	s := newServer(t)
	form := login(t, s)
	status, _, answer := serve(s, http.MethodPost, "/token", form, nil)
	if status != http.StatusOK || answer["scope"] != "read" || answer["token_type"] != "Bearer" {
		t.Fatalf("got %d, %v", status, answer)
	}
	if status, _, answer = serve(s, http.MethodPost, "/token", form, nil); answer["error"] != "invalid_grant" {
		t.Errorf("again: got %d, %v", status, answer)
	}
}

func TestRefreshTokenIsUsedOnce(t *testing.T) {
	s := newServer(t)
	_, _, first := serve(s, http.MethodPost, "/token", login(t, s), nil)
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"app"}, "refresh_token": {fmt.Sprint(first["refresh_token"])}}
	if status, _, answer := serve(s, http.MethodPost, "/token", form, nil); status != http.StatusOK || answer["refresh_token"] == first["refresh_token"] {
		t.Errorf("got %d, %v", status, answer)
	}
	if _, _, answer := serve(s, http.MethodPost, "/token", form, nil); answer["error"] != "invalid_grant" {
		t.Errorf("again: got %v", answer)
	}
}

func TestTokenRequestsThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(form url.Values)
		header http.Header
		want   string
	}{
		"no verifier":      {func(f url.Values) { f.Del("code_verifier") }, nil, "invalid_grant"},
		"other verifier":   {func(f url.Values) { f.Set("code_verifier", "x") }, nil, "invalid_grant"},
		"other redirect":   {func(f url.Values) { f.Set("redirect_uri", "http://127.0.0.1:1/callback") }, nil, "invalid_grant"},
		"other resource":   {func(f url.Values) { f.Set("resource", "https://other.example") }, nil, "invalid_target"},
		"unknown client":   {func(f url.Values) { f.Set("client_id", "nobody") }, nil, "invalid_client"},
		"another client":   {func(f url.Values) { f.Set("client_id", "robot"); f.Set("client_secret", "password") }, nil, "invalid_grant"},
		"no password":      {func(f url.Values) { f.Set("client_id", "robot") }, nil, "invalid_client"},
		"public client":    {func(f url.Values) { f.Set("grant_type", "client_credentials") }, nil, "unauthorized_client"},
		"unknown grant":    {func(f url.Values) { f.Set("grant_type", "password") }, nil, "unsupported_grant_type"},
		"a proof of sorts": {func(url.Values) {}, http.Header{"Dpop": {"x"}}, "invalid_dpop_proof"},
	} {
		s := newServer(t)
		form := login(t, s)
		test.change(form)
		if status, _, answer := serve(s, http.MethodPost, "/token", form, test.header); status < 400 || answer["error"] != test.want {
			t.Errorf("%s: got %d, %v", name, status, answer)
		}
	}
}

// A response is redirected only to a registered URI.
func TestRedirectsOfOthers(t *testing.T) {
	s := newServer(t)
	for _, to := range []string{"", "https://evil.example/back", "https://app.example/back/more", "https://app.example/back?x", "http://127.0.0.1:1/other", "http://localhost:1/callback", "http://127.0.0.1.evil.example/callback", "http://user@127.0.0.1/callback", "https://127.0.0.1/callback", "javascript:x"} {
		form := codeRequest()
		form.Set("redirect_uri", to)
		if status, header, _ := serve(s, http.MethodGet, "/authorize", form, nil); status != http.StatusBadRequest || header.Get("Location") != "" {
			t.Errorf("%q: got %d, %v", to, status, header)
		}
	}
	for name, change := range map[string]func(url.Values){
		"no challenge": func(f url.Values) { f.Del("code_challenge") }, "plain": func(f url.Values) { f.Set("code_challenge_method", "plain") }, "token": func(f url.Values) { f.Set("response_type", "token") },
	} {
		form := codeRequest()
		change(form)
		_, header, _ := serve(s, http.MethodGet, "/authorize", form, nil)
		if back, _ := url.Parse(header.Get("Location")); back.Query().Get("error") == "" || back.Query().Has("code") {
			t.Errorf("%s: got %v", name, header)
		}
	}
}

func TestIntrospection(t *testing.T) {
	s := newServer(t)
	_, _, given := serve(s, http.MethodPost, "/token", login(t, s), nil)
	for name, test := range map[string]struct {
		token, client, secret string
		status                int
		active                any
	}{
		"good":          {fmt.Sprint(given["access_token"]), "robot", "password", 200, true},
		"garbage":       {"x", "robot", "password", 200, false},
		"no password":   {fmt.Sprint(given["access_token"]), "robot", "", 401, nil},
		"public client": {fmt.Sprint(given["access_token"]), "app", "", 401, nil},
	} {
		form := url.Values{"token": {test.token}, "client_id": {test.client}, "client_secret": {test.secret}}
		if status, _, answer := serve(s, http.MethodPost, "/introspect", form, nil); status != test.status || answer["active"] != test.active {
			t.Errorf("%s: got %d, %v", name, status, answer)
		}
	}
	if err := s.Rotate(); err != nil {
		t.Fatal(err)
	}
	form := url.Values{"token": {fmt.Sprint(given["access_token"])}, "client_id": {"robot"}, "client_secret": {"password"}}
	if _, _, answer := serve(s, http.MethodPost, "/introspect", form, nil); answer["active"] != false {
		t.Errorf("after the key was changed: %v", answer)
	}
}

func TestRevocation(t *testing.T) {
	s := newServer(t)
	_, _, given := serve(s, http.MethodPost, "/token", login(t, s), nil)
	access, refresh := fmt.Sprint(given["access_token"]), fmt.Sprint(given["refresh_token"])
	revoke := func(token, client, secret string) int {
		status, _, _ := serve(s, http.MethodPost, "/revoke", url.Values{"token": {token}, "client_id": {client}, "client_secret": {secret}}, nil)
		return status
	}
	active := func() any {
		_, _, answer := serve(s, http.MethodPost, "/introspect", url.Values{"token": {access}, "client_id": {"robot"}, "client_secret": {"password"}}, nil)
		return answer["active"]
	}
	if status := revoke(access, "robot", ""); status != http.StatusUnauthorized {
		t.Errorf("without the secret: got %d", status)
	}
	if status := revoke(access, "robot", "password"); status != http.StatusOK || active() != true {
		t.Errorf("the token of another client: got %d, and the token is active: %v", status, active())
	}
	for _, token := range []string{access, refresh, "garbage"} {
		if status := revoke(token, "app", ""); status != http.StatusOK {
			t.Errorf("got %d", status)
		}
	}
	if active() != false {
		t.Error("the access token is active after its revocation")
	}
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {"app"}, "refresh_token": {refresh}}
	if _, _, answer := serve(s, http.MethodPost, "/token", form, nil); answer["error"] != "invalid_grant" {
		t.Errorf("the refresh token after its revocation: %v", answer)
	}
}

func TestIDToken(t *testing.T) {
	s, err := oauthtest.New(issuer, &oauthtest.Options{Subject: "ada", Clients: []oauthtest.Client{{ID: "app", RedirectURIs: []string{redirect}}}})
	if err != nil {
		t.Fatal(err)
	}
	form := codeRequest()
	form.Set("scope", "openid")
	form.Set("nonce", "n")
	_, header, _ := serve(s, http.MethodGet, "/authorize", form, nil)
	back, err := url.Parse(header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, given := serve(s, http.MethodPost, "/token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"app"}, "code": {back.Query().Get("code")}, "code_verifier": {verifier}, "redirect_uri": {redirect},
	}, nil)
	parts := strings.Split(fmt.Sprint(given["id_token"]), ".")
	if len(parts) != 3 {
		t.Fatalf("got %v", given)
	}
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil || claims["sub"] != "ada" || claims["aud"] != "app" || claims["nonce"] != "n" || claims["iss"] != issuer {
		t.Errorf("got %v, %v", claims, err)
	}
}

// The token of each browser is that of its person.
func TestSeveralPeople(t *testing.T) {
	s, err := oauthtest.New(issuer, &oauthtest.Options{
		Clients: []oauthtest.Client{{ID: "app", RedirectURIs: []string{redirect}}},
		Person:  func(r *http.Request) string { return r.URL.Query().Get("login_hint") },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, person := range []string{"ada", "bob"} {
		form := codeRequest()
		form.Set("login_hint", person)
		_, header, _ := serve(s, http.MethodGet, "/authorize", form, nil)
		back, err := url.Parse(header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		_, _, given := serve(s, http.MethodPost, "/token", url.Values{
			"grant_type": {"authorization_code"}, "client_id": {"app"}, "code": {back.Query().Get("code")}, "code_verifier": {verifier}, "redirect_uri": {redirect},
		}, nil)
		parts := strings.Split(fmt.Sprint(given["access_token"]), ".")
		if len(parts) != 3 {
			t.Fatalf("got %v", given)
		}
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		var claims map[string]any
		if err := json.Unmarshal(payload, &claims); err != nil || claims["sub"] != person {
			t.Errorf("the token of %s has %v, %v", person, claims, err)
		}
	}
}

// A test of a verifier signs a token of its own.
func ExampleNew() {
	issuer, err := oauthtest.New("https://login.example.com", nil)
	if err != nil {
		log.Fatal(err)
	}
	token, err := issuer.Sign(map[string]any{"iss": issuer.URL, "sub": "ada", "aud": "https://example.com/mcp"})
	fmt.Println(len(strings.Split(token, ".")), err)
	// Output: 3 <nil>
}

func ExampleStart() {
	as, err := oauthtest.Start(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer as.Close()
	res, err := http.Get(as.URL + "/.well-known/oauth-authorization-server")
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	fmt.Println(res.Status, res.Header.Get("Content-Type"))
	http.DefaultClient.CloseIdleConnections()
	// Output: 200 OK application/json
}

func TestMain(m *testing.M) { leaktest.Main(m) }
