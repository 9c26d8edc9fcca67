package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

const (
	exchangeGrant = "urn:ietf:params:oauth:grant-type:token-exchange"
	accessType    = "urn:ietf:params:oauth:token-type:access_token"
	grantType     = "urn:ietf:params:oauth:token-type:id-jag"
)

// newGranting returns an OpenID provider that also grants access to other authorization servers (Identity Assertion JWT Authorization
// Grants).
func newGranting(t *testing.T) issuer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := oauthtest.New("http://"+listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	own := tokenVerifier(t, s.URL)
	serveLogin(t, listener, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.ParseForm() != nil || r.PostForm.Get("grant_type") != exchangeGrant {
			s.ServeHTTP(w, r)
			return
		}
		who, err := own.Verify(r.Context(), oauth.Secret(r.PostForm.Get("subject_token")), "shop")
		id, secret, _ := r.BasicAuth()
		if err != nil || id != "gateway" || secret != "gateway-secret" || r.PostForm.Get("subject_token_type") != accessType || who.Subject == "eve" {
			answerToken(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		granted, err := s.Sign(claimsOf(s.URL, who.Subject, r.PostForm.Get("audience")))
		if err != nil {
			t.Error(err)
		}
		answerToken(w, http.StatusOK, map[string]any{"access_token": granted, "issued_token_type": grantType, "token_type": "N_A"})
	})
	return issuer{s}
}

func serveLogin(t *testing.T, at net.Listener, handler http.HandlerFunc) {
	t.Helper()
	login := &http.Server{Handler: handler}
	go func() { _ = login.Serve(at) }()
	t.Cleanup(func() { _ = login.Close() })
}

func tokenVerifier(t *testing.T, issuer string) oauth.Verifier {
	t.Helper()
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer, AnyType: true, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = verifier.Close() })
	return verifier
}

func claimsOf(issuer, subject, audience string) map[string]any {
	now := time.Now().Unix()
	return map[string]any{"iss": issuer, "sub": subject, "aud": audience, "client_id": "gateway", "iat": now, "exp": now + 300, "jti": fmt.Sprint(time.Now().UnixNano())}
}

func answerToken(w http.ResponseWriter, status int, answer map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the caller has left
}

// exchange makes the authorization server of the upstream exchange the tokens and grants of a provider.
func (u *upstream) exchange(t *testing.T, of issuer) {
	verifier := tokenVerifier(t, of.URL)
	u.grant.Store(new(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var who *oauth.Grant
		var err error
		if r.PostForm.Get("grant_type") == exchangeGrant {
			who, err = verifier.Verify(r.Context(), oauth.Secret(r.PostForm.Get("subject_token")), "shop")
		} else {
			who, err = verifier.Verify(r.Context(), oauth.Secret(r.PostForm.Get("assertion")), u.issuer)
		}
		id, secret, _ := r.BasicAuth()
		if err != nil || id != "gateway-at-notes" || secret != "notes-secret" || who.Subject == "eve" {
			answerToken(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			return
		}
		token, err := u.provider.Load().Sign(claimsOf(u.issuer, accountOf(who.Subject), r.PostForm.Get("resource")))
		if err != nil {
			t.Error(err)
		}
		u.exchanged.Add(1)
		answerToken(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 300, "issued_token_type": accessType})
	})))
}

// TestTokensOfCallersAreExchanged: with auth exchange and enterprise, each call has a token that was given for that of its caller, and
// nobody connects an account.
func TestTokensOfCallersAreExchanged(t *testing.T) {
	for _, auth := range []string{"exchange", "enterprise"} {
		t.Run(auth, func(t *testing.T) {
			u := newUpstream(t, time.Hour)
			login := newGranting(t)
			u.exchange(t, login)
			key, entry := newKey(t, "ci")
			keys := (&program{folder: t.TempDir()}).write(t, "keys.json", keysOf(entry))
			u.entry = map[string]any{
				"url": u.url, "oauth": map[string]any{"clientId": "gateway-at-notes", "clientSecret": "notes-secret", "issuer": u.issuer},
				"dovetail": map[string]any{"auth": auth},
			}
			g := startGateway(t, u, login, "-keys", keys)
			sessions := make(map[string]*client.Session)
			for _, person := range []string{"ada", "bob"} {
				sessions[person] = g.offersTools(t, person)
			}
			for range 10 {
				for person, session := range sessions {
					if who, err := whoami(t.Context(), session); err != nil || who != accountOf(person) {
						t.Errorf("the call of %s is one of %q: %v", person, who, err)
					}
				}
			}
			if n := u.exchanged.Load(); n > 8 {
				t.Errorf("tokens were exchanged %d times for two people", n)
			}
			ci := g.as(t, "ci")
			ci.token = key
			for name, caller := range map[string]struct {
				of   *team
				want string
			}{
				"a person without access": {g.as(t, "eve"), "the authorization server says invalid_grant"},
				"an API key":              {ci, "a login in place of an API key"},
			} {
				if who, err := whoami(t.Context(), caller.of.connect(t, nil)); err == nil || !strings.Contains(err.Error(), caller.want) {
					t.Errorf("%s: the call is one of %q: %v", name, who, err)
				}
			}
		})
	}
}

// TestTokensOfCallersAreForgotten: they are kept only while they are valid, and while a server needs them.
func TestTokensOfCallersAreForgotten(t *testing.T) {
	kept, err := newCallerTokens()
	if err != nil {
		t.Fatal(err)
	}
	kept.last.Add("ada", callerToken{"a", time.Now().Add(time.Hour)})
	kept.last.Add("bob", callerToken{"b", time.Now().Add(-time.Second)})
	for principal, want := range map[string]string{"ada": "a", "bob": "", "cy": ""} {
		if token, err := kept.of(principal); string(token) != want || (err == nil) != (want != "") {
			t.Errorf("the token of %s is known %t: %v", principal, token != "", err)
		}
	}
	kept.need(true)
	if _, err := kept.of("ada"); err != nil {
		t.Error(err)
	}
	kept.need(false)
	if n := kept.last.Len(); n != 0 {
		t.Errorf("%d tokens are kept for no server", n)
	}
}

// TestTokensOfUsersGoToNoOtherServer: a server that names another authorization server than the file gets no token.
func TestTokensOfUsersGoToNoOtherServer(t *testing.T) {
	u, other := newUpstream(t, time.Hour), newUpstream(t, time.Hour)
	login := newGranting(t)
	u.exchange(t, login)
	u.entry = map[string]any{
		"url": u.url, "oauth": map[string]any{"clientId": "gateway-at-notes", "clientSecret": "notes-secret", "issuer": other.issuer},
		"dovetail": map[string]any{"auth": "exchange"},
	}
	g := startGateway(t, u, login)
	session := g.as(t, "ada").connect(t, nil)
	waittest.Until(t, "the refusal", func() bool { return strings.Contains(g.said.String(), "the lists of a server were not read") })
	if names := offeredNames(t, session); names != "" || u.exchanged.Load() != 0 || other.exchanged.Load() != 0 {
		t.Errorf("%s is offered, and a token was exchanged", names)
	}
}
