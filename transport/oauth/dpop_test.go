package oauth_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/dovetail-go/dovetail/transport/oauth"
	shared "github.com/dovetail-go/dovetail/transport/store"
)

// thumbprint returns the thumbprint of the public key. RFC 7638.
func (m *tokenSigner) thumbprint(t testing.TB) string {
	t.Helper()
	sum, err := (&jose.JSONWebKey{Key: m.key.Public()}).Thumbprint(crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(sum)
}

// validProof returns the claims of a valid proof, with changes. nil deletes a claim.
func validProof(token string, others claimSet) claimSet {
	hash := sha256.Sum256([]byte(token))
	c := claimSet{
		"jti": rand.Text(), "htm": "POST", "htu": testResource, "iat": time.Now().Unix(),
		"ath": base64.RawURLEncoding.EncodeToString(hash[:]),
	}
	for name, value := range others {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

func (m *tokenSigner) proof(t testing.TB, claims claimSet) string {
	t.Helper()
	return m.proofWith(t, claims, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
}

func (m *tokenSigner) proofWith(t testing.TB, claims claimSet, opts *jose.SignerOptions) string {
	t.Helper()
	return sign(t, jose.SigningKey{Algorithm: m.algorithm, Key: m.key}, opts, claims.marshal(t))
}

func withProof(token string, proofs ...string) http.Header {
	return http.Header{"Authorization": {"DPoP " + token}, "Dpop": proofs}
}

// wantRefused checks the status and the challenge of a refusal.
func wantRefused(t *testing.T, name string, res *http.Response, scheme, code string) {
	t.Helper()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s: status %d", name, res.StatusCode)
		return
	}
	if c := challengeOf(t, res); !c.Is(scheme) || c.Params["error"] != code || c.Params["error_description"] == "" {
		t.Errorf("%s: the challenge is %v, want %s with %s", name, c, scheme, code)
	}
}

func TestProofs(t *testing.T) {
	m, holder, thief, inner := newSigner(t, "k"), newSigner(t, ""), newSigner(t, ""), &recordingHandler{}
	h := protected(t, m, inner, nil)
	bound := m.token(t, validClaims(claimSet{"cnf": claimSet{"jkt": holder.thumbprint(t)}}))
	unbound := m.token(t, validClaims(nil))
	good := func(others claimSet) string { return holder.proof(t, validProof(bound, others)) }
	now := time.Now().Unix()

	for name, others := range map[string]claimSet{
		"usual":                     {},
		"a little old":              {"iat": now - 200},
		"a little early":            {"iat": now + 200},
		"its port, though usual":    {"htu": "https://mcp.example.com:443/mcp"},
		"its host in capitals":      {"htu": "HTTPS://MCP.Example.com/mcp"},
		"a query, which is ignored": {"htu": testResource + "?x#y"},
		"more claims":               {"x": 1, "nonce": "any"},
	} {
		if res := do(h, "POST", "/mcp?q", withProof(bound, good(others)), ""); res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d: %s", name, res.StatusCode, bodyOf(t, res))
		}
	}
	inner.takeRequests()

	for name, others := range map[string]claimSet{
		"another method":       {"htm": "GET"},
		"method in small":      {"htm": "post"},
		"no method":            {"htm": nil},
		"another path":         {"htu": "https://mcp.example.com/other"},
		"path in capitals":     {"htu": "https://mcp.example.com/MCP"},
		"another host":         {"htu": "https://evil.example.com/mcp"},
		"another port":         {"htu": "https://mcp.example.com:8443/mcp"},
		"another scheme":       {"htu": "http://mcp.example.com/mcp"},
		"a user":               {"htu": "https://x@mcp.example.com/mcp"},
		"a path only":          {"htu": "/mcp"},
		"no URI":               {"htu": nil},
		"a URI that is none":   {"htu": "https://mcp.example.com/%zz"},
		"another token":        {"ath": validProof(unbound, nil)["ath"]},
		"no token":             {"ath": nil},
		"token in other words": {"ath": validProof(bound, nil)["ath"].(string) + "="},
		"too old":              {"iat": now - 310},
		"of the future":        {"iat": now + 310},
		"no time":              {"iat": nil},
		"time in text":         {"iat": "1"},
		"no id":                {"jti": nil},
		"an empty id":          {"jti": ""},
		"an id of a kind":      {"jti": 1},
		"a long id":            {"jti": strings.Repeat("a", 257)},
	} {
		wantRefused(t, name, do(h, "POST", "/mcp", withProof(bound, good(others)), ""), "DPoP", "invalid_dpop_proof")
	}

	embed := func() *jose.SignerOptions { return &jose.SignerOptions{EmbedJWK: true} }
	once := good(nil)
	if res := do(h, "POST", "/mcp", withProof(bound, once), ""); res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	inner.takeRequests()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	symmetric := sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: []byte("0123456789abcdef0123456789abcdef")},
		(&jose.SignerOptions{}).WithType("dpop+jwt").WithHeader("jwk", claimSet{"kty": "oct", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}), []byte(`{}`))
	private, err := jose.JSONWebKey{Key: holder.key}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good(nil), ".")
	for name, proofs := range map[string][]string{
		"none":               nil,
		"two":                {good(nil), good(nil)},
		"two in a list":      {good(nil) + ", " + good(nil)},
		"used":               {once},
		"another key":        {thief.proof(t, validProof(bound, nil))},
		"another kind":       {(&tokenSigner{ed, "", jose.EdDSA}).proof(t, validProof(bound, nil))},
		"another type":       {holder.proofWith(t, validProof(bound, nil), embed().WithType("JWT"))},
		"no type":            {holder.proofWith(t, validProof(bound, nil), embed())},
		"no key":             {holder.proofWith(t, validProof(bound, nil), (&jose.SignerOptions{}).WithType("dpop+jwt"))},
		"a symmetric key":    {symmetric},
		"a private key":      {holder.proofWith(t, validProof(bound, nil), (&jose.SignerOptions{}).WithType("dpop+jwt").WithHeader("jwk", json.RawMessage(private)))},
		"another's key":      {thief.proofWith(t, validProof(bound, nil), (&jose.SignerOptions{}).WithType("dpop+jwt").WithHeader("jwk", jose.JSONWebKey{Key: holder.key.Public()}))},
		"a weak key":         {newRSASigner(t, "", 1024).proof(t, validProof(bound, nil))},
		"too long":           {`e` + strings.Repeat("a", 5000)},
		"unsigned":           {base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"dpop+jwt","alg":"none"}`)) + "." + parts[1] + "."},
		"changed":            {parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{}`)) + "." + parts[2]},
		"nonsense":           {"x"},
		"empty":              {""},
		"a token as a proof": {bound},
	} {
		wantRefused(t, name, do(h, "POST", "/mcp", withProof(bound, proofs...), ""), "DPoP", "invalid_dpop_proof")
	}

	// A stolen bound token is useless without the key, and a proof does not bind a bearer
	// token.
	wantRefused(t, "bound as bearer", do(h, "POST", "/mcp", bearer(bound), ""), "DPoP", "invalid_token")
	wantRefused(t, "unbound with proof", do(h, "POST", "/mcp", withProof(unbound, holder.proof(t, validProof(unbound, nil))), ""), "Bearer", "invalid_token")
	if inner.takeRequests() != nil {
		t.Error("somebody got through")
	}
}

// A proof is for the original path, also behind http.StripPrefix.
func TestProofBelowPrefix(t *testing.T) {
	m, holder, inner := newSigner(t, "k"), newSigner(t, ""), &recordingHandler{}
	h := protected(t, m, inner, nil)
	token := m.token(t, validClaims(claimSet{"cnf": claimSet{"jkt": holder.thumbprint(t)}}))
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.StripPrefix("/mcp", h))
	if res := do(mux, "POST", "/mcp", withProof(token, holder.proof(t, validProof(token, nil))), ""); res.StatusCode != http.StatusOK {
		t.Errorf("status %d: %s", res.StatusCode, bodyOf(t, res))
	}
}

// A proof is used once at all processes with one store, for as long as it is valid. Another resource
// has other proofs.
func TestProofsOfOneStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, holder, common := newSigner(t, "k"), newSigner(t, ""), newSharedStore(t)
		with := func(nonces bool) http.Handler {
			return protected(t, m, &recordingHandler{}, func(o *oauth.ProtectOptions) {
				o.Store, o.DPoP = common, &oauth.DPoPOptions{Nonces: nonces, NonceKey: "0123456789abcdef0123456789abcdef"}
			})
		}
		token := m.token(t, validClaims(claimSet{"cnf": claimSet{"jkt": holder.thumbprint(t)}}))
		for _, nonces := range []bool{false, true} {
			first, second := with(nonces), with(nonces)
			claims := validProof(token, claimSet{"iat": time.Now().Add(290 * time.Second).Unix()})
			if nonces {
				res := do(first, "POST", "/mcp", withProof(token, holder.proof(t, claims)), "")
				claims["nonce"] = res.Header.Get("DPoP-Nonce")
			}
			proof := withProof(token, holder.proof(t, claims))
			if res := do(first, "POST", "/mcp", proof, ""); res.StatusCode != http.StatusOK {
				t.Fatalf("nonces %t: status %d: %s", nonces, res.StatusCode, bodyOf(t, res))
			}
			wantRefused(t, "a replay at the other", do(second, "POST", "/mcp", proof, ""), "DPoP", "invalid_dpop_proof")
			wantRefused(t, "a replay at the same", do(first, "POST", "/mcp", proof, ""), "DPoP", "invalid_dpop_proof")
			<-time.After(295 * time.Second)
			wantRefused(t, "a late replay at a new one", do(with(nonces), "POST", "/mcp", proof, ""), "DPoP", "invalid_dpop_proof")
			fresh := validProof(token, claimSet{"nonce": claims["nonce"]})
			if res := do(second, "POST", "/mcp", withProof(token, holder.proof(t, fresh)), ""); res.StatusCode != http.StatusOK {
				t.Errorf("nonces %t: another proof: status %d: %s", nonces, res.StatusCode, bodyOf(t, res))
			}
		}
	})
}

// While the store fails, requests with a proof are refused and the log says why. Others go on.
func TestProofsWithoutTheStore(t *testing.T) {
	m, holder, common, inner, log := newSigner(t, "k"), newSigner(t, ""), newSharedStore(t), &recordingHandler{}, &logBuffer{}
	h := protected(t, m, inner, func(o *oauth.ProtectOptions) { o.Store, o.Logger = common, log.logger() })
	if err := common.Close(); err != nil {
		t.Fatal(err)
	}
	token := m.token(t, validClaims(claimSet{"cnf": claimSet{"jkt": holder.thumbprint(t)}}))
	res := do(h, "POST", "/mcp", withProof(token, holder.proof(t, validProof(token, nil))), "")
	if body := bodyOf(t, res); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "cannot be verified") {
		t.Errorf("status %d, %v: %s", res.StatusCode, res.Header, body)
	}
	if inner.takeRequests() != nil {
		t.Error("a request with a proof got through")
	}
	if !strings.Contains(log.String(), "the store of used DPoP proofs: "+shared.ErrClosed.Error()) {
		t.Errorf("the log is %q", log)
	}
	if res := do(h, "POST", "/mcp", bearer(m.token(t, validClaims(nil))), ""); res.StatusCode != http.StatusOK {
		t.Errorf("a request without a proof: status %d", res.StatusCode)
	}
}

func TestProofsOffered(t *testing.T) {
	m := newSigner(t, "k")
	schemes := func(o *oauth.DPoPOptions, header http.Header) (all []string) {
		h := protected(t, m, &recordingHandler{}, func(opts *oauth.ProtectOptions) { opts.DPoP = o })
		challenges, err := oauth.ParseChallenges(do(h, "POST", "/mcp", header, "").Header.Values("WWW-Authenticate"))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range challenges {
			all = append(all, c.Scheme+" "+c.Params["error"]+" "+c.Params["algs"])
		}
		return all
	}
	const algorithms = "ES256 ES384 EdDSA RS256 PS256"
	for _, test := range []struct {
		opts   *oauth.DPoPOptions
		header http.Header
		want   string
	}{
		{nil, nil, "Bearer  "},
		{&oauth.DPoPOptions{}, nil, "Bearer  |DPoP  " + algorithms},
		{&oauth.DPoPOptions{Required: true}, nil, "DPoP  " + algorithms},
		{&oauth.DPoPOptions{}, bearer("x"), "Bearer invalid_token |DPoP  " + algorithms},
		{&oauth.DPoPOptions{Required: true}, bearer(m.token(t, validClaims(nil))), "DPoP invalid_token " + algorithms},
		{&oauth.DPoPOptions{}, withProof("x", "y"), "DPoP invalid_token " + algorithms},
	} {
		if got := strings.Join(schemes(test.opts, test.header), "|"); got != test.want {
			t.Errorf("%+v: %q, want %q", test.opts, got, test.want)
		}
	}
}

// Nonces are accepted for five minutes by all servers with the same key.
func TestNonces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, holder, inner := newSigner(t, "k"), newSigner(t, ""), &recordingHandler{}
		const key = "0123456789abcdef0123456789abcdef"
		with := func(key oauth.Secret) http.Handler {
			return protected(t, m, inner, func(o *oauth.ProtectOptions) { o.DPoP = &oauth.DPoPOptions{Nonces: true, NonceKey: key} })
		}
		h, fellow, stranger := with(key), with(key), with("")
		token := m.token(t, validClaims(claimSet{"cnf": claimSet{"jkt": holder.thumbprint(t)}}))
		try := func(h http.Handler, nonce any) *http.Response {
			return do(h, "POST", "/mcp", withProof(token, holder.proof(t, validProof(token, claimSet{"nonce": nonce, "iat": 1}))), "")
		}
		res := try(h, nil)
		wantRefused(t, "none", res, "DPoP", "use_dpop_nonce")
		nonce := res.Header.Get("DPoP-Nonce")
		if nonce == "" {
			t.Fatal("there is no nonce")
		}
		for range 2 { // a nonce is valid for several proofs, whatever the client's clock says
			if res := try(h, nonce); res.StatusCode != http.StatusOK {
				t.Errorf("status %d: %s", res.StatusCode, bodyOf(t, res))
			}
		}
		if res := try(fellow, nonce); res.StatusCode != http.StatusOK {
			t.Errorf("a fellow: status %d", res.StatusCode)
		}
		wantRefused(t, "a stranger", try(stranger, nonce), "DPoP", "use_dpop_nonce")
		wantRefused(t, "made up", try(h, "x"), "DPoP", "use_dpop_nonce")
		wantRefused(t, "changed", try(h, nonce+"x"), "DPoP", "use_dpop_nonce")
		<-time.After(5 * time.Minute)
		wantRefused(t, "an old one", try(h, nonce), "DPoP", "use_dpop_nonce")
	})
}
