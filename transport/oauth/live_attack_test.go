package oauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// protectResource puts Protect in front of the resource, with a verifier that trusts the fixture's
// authorization server. It returns the requests that got through.
func (w *fixture) protectResource(t *testing.T, change func(*oauth.ProtectOptions)) *recordingHandler {
	t.Helper()
	v, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: w.issuer.URL, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	opts := &oauth.ProtectOptions{Resource: w.mcp(), AuthorizationServers: []string{w.issuer.URL}, Verifier: v, Logger: quiet()}
	if change != nil {
		change(opts)
	}
	inner := &recordingHandler{}
	h, err := oauth.Protect(inner, opts)
	if err != nil {
		t.Fatal(err)
	}
	w.replace("resource/mcp", h.ServeHTTP)
	return inner
}

// send sends a request to the protected endpoint.
func (w *fixture) send(method, path string, header http.Header) *http.Response {
	w.t.Helper()
	req, err := http.NewRequest(method, w.resource.URL+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	res.Body.Close()
	return res
}

// claims are the claims of a valid token of the fixture's authorization server.
func (w *fixture) claims(others claimSet) claimSet {
	return validClaims(claimSetWith(claimSet{"iss": w.issuer.URL, "aud": w.mcp()}, others))
}

func claimSetWith(c, others claimSet) claimSet {
	maps.Copy(c, others)
	return c
}

func (w *fixture) sign(claims claimSet) string {
	w.t.Helper()
	text, err := w.as.Sign(map[string]any(claims))
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// An evil authorization server, which its own resource names, tries to get a code or token of an honest
// one, where the person is logged in. RFC 9700, section 4.4.
func TestMixUpAttacks(t *testing.T) {
	for name, attack := range map[string]func(evil, honest *fixture){
		"the honest login": func(evil, honest *fixture) {
			evil.editMetadata = func(m map[string]any) {
				m["authorization_endpoint"], m["registration_endpoint"] = honest.issuer.URL+"/authorize", honest.issuer.URL+"/register"
			}
		},
		"the honest login, without iss in the metadata": func(evil, honest *fixture) {
			evil.editMetadata = func(m map[string]any) {
				m["authorization_endpoint"], m["registration_endpoint"] = honest.issuer.URL+"/authorize", honest.issuer.URL+"/register"
				delete(m, "authorization_response_iss_parameter_supported")
			}
		},
		"a redirect to the honest login": func(evil, honest *fixture) {
			evil.editMetadata = func(m map[string]any) { m["registration_endpoint"] = honest.issuer.URL + "/register" }
			evil.replace("issuer/authorize", func(res http.ResponseWriter, r *http.Request) {
				http.Redirect(res, r, honest.issuer.URL+"/authorize?"+r.URL.RawQuery, http.StatusFound)
			})
		},
		"a redirect to the honest login for its resource": func(evil, honest *fixture) {
			evil.editMetadata = func(m map[string]any) { m["registration_endpoint"] = honest.issuer.URL + "/register" }
			evil.replace("issuer/authorize", func(res http.ResponseWriter, r *http.Request) {
				query := r.URL.Query()
				query.Set("resource", honest.mcp())
				http.Redirect(res, r, honest.issuer.URL+"/authorize?"+query.Encode(), http.StatusFound)
			})
		},
		"two issuers in the response": func(evil, honest *fixture) {
			evil.callback = func(answer url.Values) { answer["iss"] = []string{evil.issuer.URL, honest.issuer.URL} }
		},
		"metadata of the honest issuer": func(evil, honest *fixture) {
			evil.editMetadata = func(m map[string]any) { m["issuer"] = honest.issuer.URL }
		},
		"the honest issuer as a query": func(evil, honest *fixture) {
			evil.metadata["authorization_servers"] = []string{evil.issuer.URL + "?" + honest.issuer.URL}
		},
		"the honest issuer as a user": func(evil, honest *fixture) {
			evil.metadata["authorization_servers"] = []string{strings.Replace(evil.issuer.URL, "://", "://"+strings.TrimPrefix(honest.issuer.URL, "http://")+"@", 1)}
		},
		"the honest resource": func(evil, honest *fixture) { evil.metadata["resource"] = honest.mcp() },
		"the evil token endpoint in the honest metadata's place": func(evil, honest *fixture) {
			evil.replace("issuer/.well-known/oauth-authorization-server", func(res http.ResponseWriter, r *http.Request) {
				http.Redirect(res, r, honest.issuer.URL+"/.well-known/oauth-authorization-server", http.StatusFound)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			honest, evil := newFixture(t, nil), newFixture(t, nil)
			inner := honest.protectResource(t, nil)
			attack(evil, honest)
			if status, err := evil.request(evil.client(nil)); err == nil {
				t.Errorf("the login succeeded with status %d", status)
			}
			if evil.count("issuer/token") > 0 || honest.count("issuer/token") > 0 || len(evil.tokens) > 0 || inner.takeRequests() != nil {
				t.Errorf("a code or token was sent:\n%v\n%v", evil.requests, honest.requests)
			}
		})
	}
}

// An honest server without RFC 9207 cannot be told from the evil one in a response. Then the evil server
// gets a code, and with it only a token for its own resource. RFC 8707.
func TestMixUpWithoutIssuer(t *testing.T) {
	honest, evil := newFixture(t, nil), newFixture(t, nil)
	inner := honest.protectResource(t, nil)
	var stolen url.Values
	evil.editMetadata = func(m map[string]any) {
		m["authorization_endpoint"], m["registration_endpoint"] = honest.issuer.URL+"/authorize", honest.issuer.URL+"/register"
		delete(m, "authorization_response_iss_parameter_supported")
	}
	evil.callback = func(answer url.Values) { answer.Del("iss") }
	evil.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		stolen = r.PostForm
		res.WriteHeader(http.StatusBadRequest)
	})
	if _, err := evil.request(evil.client(nil)); err == nil || stolen == nil {
		t.Fatalf("got %v, and the code %v", err, stolen)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	redeem := func(resource string) map[string]any {
		form := maps.Clone(stolen)
		form.Set("resource", resource)
		res, err := client.PostForm(honest.issuer.URL+"/token", form)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var given map[string]any
		if err := json.NewDecoder(res.Body).Decode(&given); err != nil {
			t.Fatal(err)
		}
		return given
	}
	given := redeem(evil.mcp())
	token, _ := given["access_token"].(string)
	if token == "" {
		t.Fatalf("the honest server gives %v", given)
	}
	if res := honest.send(http.MethodPost, "/mcp", bearer(token)); res.StatusCode != http.StatusUnauthorized || inner.takeRequests() != nil {
		t.Errorf("the token is accepted by the honest resource: %d", res.StatusCode)
	}
}

// A code that an attacker got at the same server is useless in the login of another person: PKCE binds it
// to the attacker's login. RFC 9700, section 4.5.
func TestCodeInjection(t *testing.T) {
	for name, challenge := range map[string]func(url.Values){
		"with a challenge of the attacker": func(url.Values) {},
		"with the challenge plain":         func(q url.Values) { q.Set("code_challenge_method", "plain") },
		"without a challenge":              func(q url.Values) { q.Del("code_challenge"); q.Del("code_challenge_method") },
		"with an empty challenge":          func(q url.Values) { q.Set("code_challenge", "") },
		"without a method":                 func(q url.Values) { q.Del("code_challenge_method") },
		"with a method in small letters":   func(q url.Values) { q.Set("code_challenge_method", "s256") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, nil)
			w.callback = func(answer url.Values) {
				mine := queryOf(t, w.opened[0]) // the attacker's login of the same client
				sum := sha256.Sum256([]byte(strings.Repeat("attacker", 6)))
				mine.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
				challenge(mine)
				client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				res, err := client.Get(w.issuer.URL + "/authorize?" + mine.Encode())
				if err != nil {
					t.Error(err)
					return
				}
				res.Body.Close()
				back, err := res.Location()
				if err != nil {
					answer.Set("code", "none")
					return
				}
				answer.Set("code", back.Query().Get("code"))
			}
			status, err := w.request(w.client(nil))
			if err == nil || len(w.tokens) > 0 {
				t.Errorf("got %d, %v and the tokens %v", status, err, w.tokens)
			}
		})
	}
}

// Tokens that are forged from what the authorization server publishes.
func TestForgedFromPublishedKeys(t *testing.T) {
	w := newFixture(t, nil)
	inner := w.protectResource(t, nil)
	try := func(name, token string) {
		t.Helper()
		for _, header := range []http.Header{bearer(token), {"Authorization": {"bearer " + token}}} {
			if res := w.send(http.MethodPost, "/mcp", header); res.StatusCode != http.StatusUnauthorized || inner.takeRequests() != nil {
				t.Errorf("%s: status %d", name, res.StatusCode)
			}
		}
	}
	if res := w.send(http.MethodPost, "/mcp", bearer(w.sign(w.claims(nil)))); res.StatusCode != http.StatusOK || inner.takeRequests() == nil {
		t.Fatalf("a valid token: status %d", res.StatusCode)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var metadata struct {
		Keys string `json:"jwks_uri"`
	}
	published := func(at string) []byte {
		res, err := client.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	if err := json.Unmarshal(published(w.issuer.URL+"/.well-known/oauth-authorization-server"), &metadata); err != nil {
		t.Fatal(err)
	}
	document := published(metadata.Keys)
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(document, &set); err != nil || len(set.Keys) == 0 {
		t.Fatalf("%s: %v", document, err)
	}
	public := set.Keys[0]
	der, err := x509.MarshalPKIXPublicKey(public.Key)
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := public.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	thief, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	payload := w.claims(claimSet{"sub": "admin"}).marshal(t)
	for name, secret := range map[string][]byte{
		"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "the JWK": jwk, "the JWK Set": document,
	} {
		for _, algorithm := range []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512} {
			try(string(algorithm)+" with "+name, sign(t, jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: secret, KeyID: public.KeyID}}, (&jose.SignerOptions{}).WithType("at+jwt"), payload))
		}
	}
	segment := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, algorithm := range []string{"none", "None", "NONE", "nOnE", "", "null", "ES256K", "HS256 "} {
		header := segment(fmt.Sprintf(`{"typ":"at+jwt","alg":%q,"kid":%q}`, algorithm, public.KeyID))
		for _, signature := range []string{"", "AA", base64.RawURLEncoding.EncodeToString(make([]byte, 64))} {
			try("alg "+algorithm, header+"."+segment(string(payload))+"."+signature)
		}
	}
	evil := serve(t, http.HandlerFunc(func(res http.ResponseWriter, _ *http.Request) {
		t.Error("a URL in a token was fetched")
		writeJSON(res, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: thief.Public(), KeyID: public.KeyID}}})
	}))
	certificate := base64.StdEncoding.EncodeToString(der)
	for name, headers := range map[string]map[jose.HeaderKey]any{
		"jku":                   {"jku": evil.URL},
		"jku of the issuer":     {"jku": metadata.Keys + "?" + evil.URL},
		"x5u":                   {"x5u": evil.URL},
		"x5c":                   {"x5c": []string{certificate}},
		"x5t":                   {"x5t": "AAAA", "x5t#S256": "AAAA"},
		"a kid as URL":          {"kid": evil.URL},
		"a kid as file":         {"kid": "/dev/null"},
		"a kid as an SQL query": {"kid": "' OR 1=1 --"},
		"a kid with a null":     {"kid": public.KeyID + "\x00"},
		"the published kid":     {"kid": public.KeyID},
		"no kid":                {},
		"iss in the header":     {"iss": w.issuer.URL, "kid": public.KeyID},
	} {
		headers["typ"] = "at+jwt"
		try(name, sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: thief}, &jose.SignerOptions{ExtraHeaders: headers}, payload))
	}
	try("jwk", sign(t, jose.SigningKey{Algorithm: jose.ES256, Key: thief}, (&jose.SignerOptions{EmbedJWK: true}).WithType("at+jwt"), payload))
}

// A JWK Set that turns bad neither admits a forged token nor locks out valid ones.
func TestKeysThatTurnBad(t *testing.T) {
	thief, password := newSigner(t, "thief"), []byte("0123456789abcdef0123456789abcdef")
	forged := func(w *fixture) []string {
		payload := w.claims(claimSet{"sub": "admin"})
		return []string{
			thief.token(t, payload),
			sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: password, KeyID: "password"}}, (&jose.SignerOptions{}).WithType("at+jwt"), payload.marshal(t)),
		}
	}
	secret, err := jose.JSONWebKey{Key: password, KeyID: "password", Algorithm: "HS256"}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	stolen := keySet(t, thief)
	many := `{"keys":[` + strings.Repeat(string(secret)+",", 64) + strings.TrimSuffix(strings.TrimPrefix(string(stolen), `{"keys":[`), `]}`) + `]}`
	for name, keys := range map[string]string{
		"a symmetric key":      `{"keys":[` + string(secret) + `]}`,
		"no keys":              `{"keys":[]}`,
		"a page":               `<html>`,
		"nothing":              ``,
		"two lists":            `{"keys":[],` + strings.TrimPrefix(string(stolen), "{"),
		"too many keys":        many,
		"a huge document":      `{"x":"` + strings.Repeat("a", 2<<20) + `",` + strings.TrimPrefix(string(stolen), "{"),
		"deep nesting":         strings.Repeat("[", 100_000),
		"a list without a set": strings.TrimSuffix(strings.TrimPrefix(string(stolen), `{"keys":`), `}`),
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, nil)
			inner := w.protectResource(t, nil)
			valid := w.sign(w.claims(nil))
			if res := w.send(http.MethodPost, "/mcp", bearer(valid)); res.StatusCode != http.StatusOK {
				t.Fatalf("a valid token: status %d", res.StatusCode)
			}
			inner.takeRequests()
			v, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: w.issuer.URL, KeysURL: serve(t, respondJSON(keys)).URL, AllowLoopback: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, token := range forged(w) {
				if grant, err := v.Verify(t.Context(), oauth.Secret(token), w.mcp()); err == nil || grant != nil {
					t.Errorf("a forged token is accepted by a new verifier: %v", grant)
				}
			}
			w.replace("issuer/jwks", respondJSON(keys))
			for _, token := range append(forged(w), forged(w)...) {
				if res := w.send(http.MethodPost, "/mcp", bearer(token)); res.StatusCode == http.StatusOK || inner.takeRequests() != nil {
					t.Errorf("a forged token: status %d", res.StatusCode)
				}
			}
			if res := w.send(http.MethodPost, "/mcp", bearer(valid)); res.StatusCode != http.StatusOK {
				t.Errorf("a valid token afterwards: status %d", res.StatusCode)
			}
		})
	}
}

// Tokens of one issuer or for one resource are refused for another.
func TestConfusedIssuersAndAudiences(t *testing.T) {
	first, second := newFixture(t, nil), newFixture(t, nil)
	verifierOf := func(w *fixture) *oauth.JWTVerifier {
		v, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: w.issuer.URL, AllowLoopback: true})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for mode, v := range map[string]oauth.Verifier{
		"one issuer":  verifierOf(first),
		"two issuers": oauth.Issuers{first.issuer.URL: verifierOf(first), second.issuer.URL: verifierOf(second), "": verifierOf(first)},
	} {
		inner := first.protectResource(t, func(o *oauth.ProtectOptions) { o.Verifier = v })
		if res := first.send(http.MethodPost, "/mcp", bearer(first.sign(first.claims(nil)))); res.StatusCode != http.StatusOK || inner.takeRequests() == nil {
			t.Fatalf("%s: a valid token: status %d", mode, res.StatusCode)
		}
		at, sub := first.mcp(), second.issuer.URL+"#ada"
		for name, token := range map[string]string{
			"for another resource":              first.sign(first.claims(claimSet{"aud": second.mcp()})),
			"for the issuer":                    first.sign(first.claims(claimSet{"aud": first.issuer.URL})),
			"for the origin":                    first.sign(first.claims(claimSet{"aud": first.resource.URL})),
			"for the client":                    first.sign(first.claims(claimSet{"aud": "app"})),
			"for a resource below":              first.sign(first.claims(claimSet{"aud": at + "/x"})),
			"for a resource with a slash":       first.sign(first.claims(claimSet{"aud": at + "/"})),
			"for a resource with a query":       first.sign(first.claims(claimSet{"aud": at + "?x"})),
			"for a resource in other words":     first.sign(first.claims(claimSet{"aud": strings.Replace(at, "127.0.0.1", "localhost", 1)})),
			"for a list in a text":              first.sign(first.claims(claimSet{"aud": second.mcp() + " " + at})),
			"for a resource in another claim":   first.sign(first.claims(claimSet{"aud": second.mcp(), "resource": at, "azp": at})),
			"of the second as the first":        second.sign(first.claims(nil)),
			"of the first as the second":        first.sign(first.claims(claimSet{"iss": second.issuer.URL})),
			"of two issuers":                    second.sign(first.claims(claimSet{"iss": []string{first.issuer.URL, second.issuer.URL}})),
			"of no issuer":                      second.sign(first.claims(claimSet{"iss": nil})),
			"of an issuer with a slash":         first.sign(first.claims(claimSet{"iss": first.issuer.URL + "/"})),
			"of the second as a subject":        second.sign(first.claims(claimSet{"iss": first.issuer.URL, "sub": sub})),
			"of the second for its own":         second.sign(second.claims(nil)),
			"of the second with a principal":    second.sign(second.claims(claimSet{"aud": second.mcp(), "sub": first.issuer.URL + "#ada"})),
			"with an issuer that names the key": second.sign(first.claims(claimSet{"iss": first.issuer.URL, "jku": second.issuer.URL + "/jwks"})),
		} {
			if res := first.send(http.MethodPost, "/mcp", bearer(token)); res.StatusCode != http.StatusUnauthorized || inner.takeRequests() != nil {
				t.Errorf("%s: %s: status %d", mode, name, res.StatusCode)
			}
		}
	}
}

// Whoever records a request of a client with a bound token cannot send another one.
func TestRecordedProofs(t *testing.T) {
	w := newFixture(t, nil)
	inner := w.protectResource(t, func(o *oauth.ProtectOptions) { o.DPoP = &oauth.DPoPOptions{Required: true} })
	var seen []http.Header // by an attacker who reads the requests
	intercepts := false    // whether the attacker drops them
	guarded := w.handlers["resource/mcp"]
	w.replace("resource/mcp", func(res http.ResponseWriter, r *http.Request) {
		if r.Header.Get("DPoP") != "" {
			seen = append(seen, r.Header.Clone())
		}
		if intercepts {
			res.WriteHeader(http.StatusBadGateway)
			return
		}
		guarded(res, r)
	})
	client := w.client(func(o *oauth.ClientOptions) { o.DPoP = true })
	if status, err := w.request(client); err != nil || status != http.StatusOK {
		t.Fatalf("got %d, %v", status, err)
	}
	if status, err := w.request(client); err != nil || status != http.StatusOK {
		t.Fatalf("the second request: %d, %v", status, err)
	}
	if got := len(inner.takeRequests()); got != 2 || len(seen) != 2 {
		t.Fatalf("%d requests got through, %d were seen", got, len(seen))
	}
	recorded := http.Header{"Authorization": seen[0]["Authorization"], "Dpop": seen[0]["Dpop"]}
	other := seen[1]["Dpop"]
	_, token, _ := strings.Cut(recorded.Get("Authorization"), " ")
	proof := recorded.Get("DPoP")
	parts := strings.Split(proof, ".")
	with := func(scheme, token string, proofs ...string) http.Header {
		return http.Header{"Authorization": {scheme + " " + token}, "Dpop": proofs}
	}
	thief := newSigner(t, "")
	hash := sha256.Sum256([]byte(token))
	own := func(others claimSet) string {
		c := claimSet{"jti": rand.Text(), "htm": "POST", "htu": w.mcp(), "iat": time.Now().Unix(), "ath": base64.RawURLEncoding.EncodeToString(hash[:])}
		return thief.proof(t, claimSetWith(c, others))
	}
	fresh := w.sign(w.claims(nil))
	for _, test := range []struct {
		name, method, path string
		header             http.Header
	}{
		{"the same", "POST", "/mcp", recorded},
		{"the second", "POST", "/mcp", with("DPoP", token, other...)},
		{"with a query", "POST", "/mcp?x=1", recorded},
		{"another method", "GET", "/mcp", recorded},
		{"another method that is overridden", "DELETE", "/mcp", http.Header{"Authorization": recorded["Authorization"], "Dpop": recorded["Dpop"], "X-Http-Method-Override": {"POST"}}},
		{"no proof", "POST", "/mcp", with("DPoP", token)},
		{"as a bearer token", "POST", "/mcp", with("Bearer", token)},
		{"as a bearer token with a proof", "POST", "/mcp", with("Bearer", token, proof)},
		{"scheme in small letters", "POST", "/mcp", with("dpop", token, proof)},
		{"two proofs", "POST", "/mcp", with("DPoP", token, proof, own(nil))},
		{"two proofs in a line", "POST", "/mcp", with("DPoP", token, proof+","+own(nil))},
		{"another key", "POST", "/mcp", with("DPoP", token, own(nil))},
		{"another key and token", "POST", "/mcp", with("DPoP", fresh, own(nil))},
		{"a token that is not bound", "POST", "/mcp", with("Bearer", fresh)},
		{"a token that is not bound with the proof", "POST", "/mcp", with("DPoP", fresh, proof)},
		{"without a signature", "POST", "/mcp", with("DPoP", token, parts[0]+"."+parts[1]+".")},
		{"padding", "POST", "/mcp", with("DPoP", token, proof+"==")},
		{"other claims", "POST", "/mcp", with("DPoP", token, parts[0]+"."+base64.RawURLEncoding.EncodeToString([]byte(`{"jti":"x"}`))+"."+parts[2])},
	} {
		if res := w.send(test.method, test.path, test.header); res.StatusCode != http.StatusUnauthorized || inner.takeRequests() != nil {
			t.Errorf("%s: status %d", test.name, res.StatusCode)
		}
	}
	if status, err := w.request(client); err != nil || status != http.StatusOK {
		t.Errorf("the client afterwards: %d, %v", status, err)
	}
	inner.takeRequests()
	// A proof that has not arrived is only for its own method, URL and token.
	intercepts = true
	if status, err := w.request(client); err != nil || status != http.StatusBadGateway {
		t.Fatalf("got %d, %v", status, err)
	}
	intercepts = false
	unused := seen[len(seen)-1].Get("DPoP")
	sibling := w.sign(w.claims(claimSet{"cnf": claimOf(t, token, "cnf")}))
	for _, test := range []struct {
		name, method string
		header       http.Header
	}{
		{"an unused proof for another method", "GET", with("DPoP", token, unused)},
		{"an unused proof for another method", "DELETE", with("DPoP", token, unused)},
		{"an unused proof for another token of the key", "POST", with("DPoP", sibling, unused)},
	} {
		if res := w.send(test.method, "/mcp", test.header); res.StatusCode != http.StatusUnauthorized || inner.takeRequests() != nil {
			t.Errorf("%s: status %d", test.name, res.StatusCode)
		}
	}
}

// claimOf returns a claim of a token that is not verified.
func claimOf(t *testing.T, token, name string) any {
	t.Helper()
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil || claims[name] == nil {
		t.Fatalf("the claims are %s: %v", payload, err)
	}
	return claims[name]
}

// A holder's proof for one URL is for no other, however the URL is written.
func TestProofURLs(t *testing.T) {
	m, holder, inner := newSigner(t, "k"), newSigner(t, ""), &recordingHandler{}
	h := protected(t, m, inner, nil)
	token := m.token(t, validClaims(claimSet{"cnf": claimSet{"jkt": holder.thumbprint(t)}}))
	for _, uri := range []string{
		"https://mcp.example.com/mcp/", "https://mcp.example.com/x/../mcp", "https://mcp.example.com/./mcp", "https://mcp.example.com//mcp", "https://mcp.example.com/%6dcp",
		"https://mcp.example.com/mcp;x", "https://mcp.example.com/mcp%2f", "https://mcp.example.com\\mcp", "https://mcp.example.com@evil.example/mcp", "https://mcp.example.com.evil.example/mcp",
		"https://mcp.example.com:0443/mcp", "https://mcp.example.com:/other", "https:mcp.example.com/mcp", "//mcp.example.com/mcp", " https://mcp.example.com/mcp", "https://mcp.example.com./mcp",
		"HTTPS://MCP.EXAMPLE.COM/MCP", "https://[::1]/mcp", "wss://mcp.example.com/mcp", "https://mcp.example.com/mcp\n", "https://xn--mcp.example.com/mcp",
	} {
		res := do(h, "POST", "/mcp", withProof(token, holder.proof(t, validProof(token, claimSet{"htu": uri}))), "")
		if res.StatusCode != http.StatusUnauthorized || inner.takeRequests() != nil {
			t.Errorf("%q: status %d", uri, res.StatusCode)
		}
	}
}

// An attacker who knows or chooses a state cannot make a client accept another login's response.
func TestStateFixation(t *testing.T) {
	w := newFixture(t, nil)
	fixed := rand.Text()
	var earlier url.Values
	w.callback = func(answer url.Values) { earlier = maps.Clone(answer) }
	w.mustSucceed(w.client(nil))
	tokens := w.count("issuer/token")
	hostile := func(change func(url.Values)) error {
		w.callback = change
		_, err := w.request(w.client(func(o *oauth.ClientOptions) { o.Flow = &oauth.CodeFlow{Open: w.browse, Timeout: 50 * time.Millisecond} }))
		return err
	}
	for name, change := range map[string]func(url.Values){
		"a chosen state":               func(a url.Values) { a.Set("state", fixed) },
		"the state of another login":   func(a url.Values) { a.Set("state", earlier.Get("state")) },
		"another login":                func(a url.Values) { clear(a); maps.Copy(a, earlier) },
		"two states":                   func(a url.Values) { a.Add("state", fixed) },
		"two states, chosen first":     func(a url.Values) { a["state"] = []string{fixed, a.Get("state")} },
		"two codes":                    func(a url.Values) { a.Add("code", earlier.Get("code")) },
		"a code and an error":          func(a url.Values) { a.Set("error", "access_denied") },
		"the state in capitals":        func(a url.Values) { a.Set("state", strings.ToLower(a.Get("state"))) },
		"the state with a null":        func(a url.Values) { a.Set("state", a.Get("state")+"\x00") },
		"the state with a space":       func(a url.Values) { a.Set("state", " "+a.Get("state")) },
		"another name of the state":    func(a url.Values) { a["STATE"] = a["state"]; a.Del("state") },
		"the code of an earlier login": func(a url.Values) { a.Set("code", earlier.Get("code")) },
	} {
		err := hostile(change)
		if err == nil {
			t.Errorf("%s: the login succeeded", name)
		}
		if sent := w.count("issuer/token") - tokens; sent > 0 && name != "the code of an earlier login" {
			t.Errorf("%s: %d codes were sent", name, sent)
		}
		tokens = w.count("issuer/token")
	}
	// The authorization endpoint cannot set the state either.
	w.callback = nil
	w.editMetadata = func(m map[string]any) { m["authorization_endpoint"] = w.issuer.URL + "/authorize?state=" + fixed }
	if _, err := w.request(w.client(nil)); !is[*oauth.URLError](err) {
		t.Errorf("a state in the endpoint: %v", err)
	}
}
