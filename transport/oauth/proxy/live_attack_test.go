package proxy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// agreed returns the URL with which the provider sends a person's browser back, and the browser.
func (p *proxied) agreed(id string) (*browser, *url.URL) {
	p.t.Helper()
	b := newBrowser(p.t, p.issuer+"/callback")
	_, page := b.open(p.authorizeURL(id, nil))
	back, err := b.decide(p.issuer+"/authorize", page, "allow", nil).Location()
	if err != nil {
		p.t.Fatal(err)
	}
	b.client.CheckRedirect = newBrowser(p.t, clientRedirect).client.CheckRedirect
	return b, back
}

// An attacker logs in at the provider and brings the response into the browser of a victim, who would then
// use the attacker's account. RFC 9700, section 4.5 and 4.7.
func TestInjectedResponses(t *testing.T) {
	for name, inject := range map[string]func(victim, attacker url.Values){
		"the code of the attacker":  func(victim, attacker url.Values) { victim.Set("code", attacker.Get("code")) },
		"the state of the attacker": func(victim, attacker url.Values) { victim.Set("state", attacker.Get("state")) },
		"the whole response":        func(victim, attacker url.Values) { clear(victim); maps.Copy(victim, attacker) },
		"both codes":                func(victim, attacker url.Values) { victim["code"] = []string{attacker.Get("code"), victim.Get("code")} },
		"both states": func(victim, attacker url.Values) {
			victim["state"] = []string{victim.Get("state"), attacker.Get("state")}
		},
		"the other states": func(victim, attacker url.Values) {
			victim["state"] = []string{attacker.Get("state"), victim.Get("state")}
		},
		"another issuer":  func(victim, _ url.Values) { victim.Set("iss", "https://evil.example") },
		"no issuer":       func(victim, _ url.Values) { victim.Del("iss") },
		"a chosen state":  func(victim, _ url.Values) { victim.Set("state", strings.Repeat("A", 26)) },
		"a similar state": func(victim, _ url.Values) { victim.Set("state", victim.Get("state")[:8]+strings.Repeat("A", 18)) },
		"an error beside the code": func(victim, attacker url.Values) {
			victim.Set("code", attacker.Get("code"))
			victim.Set("error", "server_error")
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxied(t, nil)
			id := p.registered()
			_, mine := p.agreed(id)
			victim, back := p.agreed(id)
			query := back.Query()
			inject(query, mine.Query())
			back.RawQuery = query.Encode()
			res, _ := victim.open(back.String())
			if to := res.Header.Get("Location"); strings.Contains(to, "code=") || res.StatusCode == http.StatusOK {
				t.Errorf("got %d, %s", res.StatusCode, to)
			}
		})
	}
}

// A code is redeemed only with the verifier of its challenge.
func TestVerifierDowngrade(t *testing.T) {
	p := newProxied(t, nil)
	id := p.registered()
	sum := sha256.Sum256([]byte(clientVerifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	for name, change := range map[string]func(url.Values){
		"no verifier":                  func(f url.Values) { f.Del("code_verifier") },
		"an empty verifier":            func(f url.Values) { f.Set("code_verifier", "") },
		"the challenge":                func(f url.Values) { f.Set("code_verifier", challenge) },
		"the challenge as plain":       func(f url.Values) { f.Set("code_verifier", challenge); f.Set("code_challenge_method", "plain") },
		"a challenge of the request":   func(f url.Values) { f.Set("code_verifier", "x"); f.Set("code_challenge", "x") },
		"two verifiers":                func(f url.Values) { f["code_verifier"] = []string{"x", clientVerifier} },
		"in capitals":                  func(f url.Values) { f.Set("code_verifier", strings.ToUpper(clientVerifier)) },
		"with a space":                 func(f url.Values) { f.Set("code_verifier", clientVerifier+" ") },
		"the verifier of a new client": func(f url.Values) { f.Set("client_id", p.registered()) },
	} {
		form := p.login(id)
		change(form)
		if status, given := p.token(form); status != http.StatusBadRequest || given["access_token"] != nil {
			t.Errorf("%s: got %d, %v", name, status, given)
		}
	}
}

// An ID token that the provider has not signed for this login does not log a person in.
func TestForgedIDTokens(t *testing.T) {
	thief, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(algorithm jose.SignatureAlgorithm, key any, opts *jose.SignerOptions, payload []byte) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, opts.WithType("JWT"))
		if err != nil {
			t.Error(err)
			return ""
		}
		object, err := signer.Sign(payload)
		if err != nil {
			t.Error(err)
			return ""
		}
		text, _ := object.CompactSerialize()
		return text
	}
	segment := func(text []byte) string { return base64.RawURLEncoding.EncodeToString(text) }
	secret := []byte(strings.Repeat("upstream-secret", 3)) // HS256 needs 32 bytes
	for name, forge := range map[string]func(payload []byte) string{
		"alg none": func(payload []byte) string {
			return segment([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + segment(payload) + "."
		},
		"another key": func(payload []byte) string { return signed(jose.ES256, thief, &jose.SignerOptions{}, payload) },
		"a key in the token": func(payload []byte) string {
			return signed(jose.ES256, thief, &jose.SignerOptions{EmbedJWK: true}, payload)
		},
		"a key at a URL": func(payload []byte) string {
			return signed(jose.ES256, thief, (&jose.SignerOptions{}).WithHeader("jku", "https://evil.example/keys"), payload)
		},
		"the client's secret": func(payload []byte) string { return signed(jose.HS256, secret, &jose.SignerOptions{}, payload) },
		"no signature": func(payload []byte) string {
			return segment([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + segment(payload) + "."
		},
		"an empty text": func([]byte) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxied(t, nil)
			p.replace("/token", func(w http.ResponseWriter, _ *http.Request) {
				payload, err := json.Marshal(map[string]any{
					"iss": p.identityProvider.url, "sub": "admin", "aud": "proxy", "exp": time.Now().Add(time.Hour).Unix(), "nonce": p.forms("/authorize")[0].Get("nonce"),
				})
				if err != nil {
					t.Error(err)
				}
				writeJSON(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": forge(payload)})
			})
			b, back := p.agreed(p.registered())
			res, _ := b.open(back.String())
			if got := location(t, res); got.Get("error") != "server_error" || got.Has("code") {
				t.Errorf("got %v", got)
			}
		})
	}
}
