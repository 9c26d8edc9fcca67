package oauth_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// wantInvalid checks that a token is refused as invalid, with an error that does not
// repeat it.
func wantInvalid(t *testing.T, name string, v oauth.Verifier, token string) {
	t.Helper()
	grant, err := v.Verify(t.Context(), oauth.Secret(token), testResource)
	if _, ok := errors.AsType[*oauth.InvalidTokenError](err); !ok || grant != nil {
		t.Errorf("%s: the grant is %+v, the error %v", name, grant, err)
	}
	if err != nil && len(token) > 20 && strings.Contains(err.Error(), token[:20]) {
		t.Errorf("%s: the error repeats the token: %v", name, err)
	}
}

func wantValid(t *testing.T, name string, v oauth.Verifier, token string) *oauth.Grant {
	t.Helper()
	grant, err := v.Verify(t.Context(), oauth.Secret(token), testResource)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return grant
}

func TestClaims(t *testing.T) {
	m := newSigner(t, "k")
	v := verifier(t, m)
	now := time.Now().Unix()
	for name, change := range map[string]claimSet{
		"usual":                 {},
		"several audiences":     {"aud": []string{"https://other.example", testResource}},
		"expired just now":      {"exp": now - 5},
		"valid in a moment":     {"nbf": now + 5, "iat": now + 5},
		"no times but the end":  {"nbf": nil, "iat": nil},
		"no client":             {"client_id": nil},
		"no scope":              {"scope": nil},
		"bound":                 {"cnf": claimSet{"jkt": "abc"}},
		"fractions":             {"exp": float64(now) + 100.5},
		"claims without number": {"groups": []string{"a"}},
	} {
		wantValid(t, name, v, m.token(t, validClaims(change)))
	}
	for name, change := range map[string]claimSet{
		"another issuer":         {"iss": "https://login.example.com"},
		"issuer with a slash":    {"iss": testIssuer + "/"},
		"issuer in capitals":     {"iss": "https://LOGIN.example.com/tenant"},
		"no issuer":              {"iss": nil},
		"two issuers":            {"iss": []string{testIssuer}},
		"another audience":       {"aud": "https://mcp.example.com/other"},
		"a part of it":           {"aud": "https://mcp.example.com"},
		"audience with a slash":  {"aud": testResource + "/"},
		"other audiences":        {"aud": []string{"a", "b"}},
		"no audience":            {"aud": nil},
		"an empty audience":      {"aud": ""},
		"no audiences":           {"aud": []string{}},
		"audience of a kind":     {"aud": []any{1, testResource}},
		"audience as object":     {"aud": claimSet{testResource: true}},
		"too many audiences":     {"aud": strings.Split(strings.Repeat("a ", 257)+testResource, " ")},
		"audience for the app":   {"aud": "app"},
		"expired":                {"exp": now - 31},
		"expired long ago":       {"exp": 1},
		"never expires":          {"exp": nil},
		"expires in text":        {"exp": "9999999999"},
		"expires before 1970":    {"exp": -1},
		"expires at nought":      {"exp": 0},
		"expires beyond years":   {"exp": 1e300},
		"not valid yet":          {"nbf": now + 3600},
		"not valid in text":      {"nbf": "x"},
		"issued in the future":   {"iat": now + 3600},
		"no subject":             {"sub": nil},
		"an empty subject":       {"sub": ""},
		"a subject of a kind":    {"sub": 1},
		"a long subject":         {"sub": strings.Repeat("a", 1025)},
		"scopes of a kind":       {"scope": 1},
		"too many scopes":        {"scope": strings.Repeat("a ", 257)},
		"bound to a certificate": {"cnf": claimSet{"x5t#S256": "abc"}},
		"bound twice":            {"cnf": claimSet{"jkt": "abc", "x5t#S256": "abc"}},
		"bound to nothing":       {"cnf": claimSet{}},
		"bound in text":          {"cnf": "abc"},
		"bound to null":          {"cnf": claimSet{"jkt": nil}},
	} {
		wantInvalid(t, name, v, m.token(t, validClaims(change)))
	}
}

func TestScopesOfToken(t *testing.T) {
	m := newSigner(t, "k")
	v := verifier(t, m)
	for name, test := range map[string]struct {
		claims claimSet
		want   []string
	}{
		"text":                    {claimSet{"scope": "a b  c"}, []string{"a", "b", "c"}},
		"list":                    {claimSet{"scope": []string{"a", "b"}}, []string{"a", "b"}},
		"scp":                     {claimSet{"scope": nil, "scp": []string{"a", "b"}}, []string{"a", "b"}},
		"scp as text":             {claimSet{"scope": nil, "scp": "a b"}, []string{"a", "b"}},
		"scope rather than scp":   {claimSet{"scope": "a", "scp": "admin"}, []string{"a"}},
		"capitals are not scopes": {claimSet{"scope": nil, "Scope": "admin", "SCOPE": "admin"}, nil},
	} {
		if grant := wantValid(t, name, v, m.token(t, validClaims(test.claims))); grant != nil {
			if diff := cmp.Diff(test.want, grant.Scopes); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

// A token with a duplicate member is refused.
func TestClaimsTwice(t *testing.T) {
	m := newSigner(t, "k")
	v := verifier(t, m)
	signed := func(payload []byte) string {
		return sign(t, jose.SigningKey{Algorithm: m.algorithm, Key: jose.JSONWebKey{Key: m.key, KeyID: m.id}}, (&jose.SignerOptions{}).WithType("at+jwt"), payload)
	}
	good := validClaims(nil).marshal(t)
	for _, payload := range []string{
		strings.Replace(string(good), `{`, `{"sub":"eve",`, 1), strings.Replace(string(good), `{`, `{"\u0073ub":"eve",`, 1),
		`[` + string(good) + `]`, string(good) + `{}`, `"text"`, `null`, ``, strings.Repeat("[", 2000), string(good[:len(good)-1]),
	} {
		wantInvalid(t, payload, v, signed([]byte(payload)))
	}
	wantValid(t, "good", v, signed(good))
}

// Known attacks on JWT verifiers. RFC 8725.
func TestForgedTokens(t *testing.T) {
	ec, rsaKey := newSigner(t, "ec"), newRSASigner(t, "rsa", 2048)
	stranger := newSigner(t, "ec")
	v := verifier(t, ec, rsaKey)
	good := rsaKey.token(t, validClaims(nil))
	wantValid(t, "good", v, good)
	wantValid(t, "good too", v, ec.token(t, validClaims(nil)))
	parts := strings.Split(good, ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	header := func(more string) string { return encode(`{"typ":"at+jwt","kid":"rsa",` + more + `}`) }

	wantInvalid(t, "a stranger's", v, stranger.token(t, validClaims(nil)))
	for name, token := range map[string]string{
		"alg none":                    header(`"alg":"none"`) + "." + parts[1] + ".",
		"alg None":                    header(`"alg":"None"`) + "." + parts[1] + "." + parts[2],
		"alg nOnE without dot":        header(`"alg":"nOnE"`) + "." + parts[1],
		"no alg":                      encode(`{"typ":"at+jwt","kid":"rsa"}`) + "." + parts[1] + "." + parts[2],
		"alg of a kind":               header(`"alg":["RS256"]`) + "." + parts[1] + "." + parts[2],
		"alg twice":                   header(`"alg":"none","alg":"RS256"`) + "." + parts[1] + "." + parts[2],
		"alg in capitals":             header(`"ALG":"RS256"`) + "." + parts[1] + "." + parts[2],
		"RS512 with the same key":     header(`"alg":"RS512"`) + "." + parts[1] + "." + parts[2],
		"ES256 with an RSA key":       header(`"alg":"ES256"`) + "." + parts[1] + "." + parts[2],
		"other claims":                parts[0] + "." + encode(`{"sub":"eve"}`) + "." + parts[2],
		"no signature":                parts[0] + "." + parts[1] + ".",
		"zero signature":              header(`"alg":"ES256"`) + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 64)),
		"JSON serialization":          `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"an extra part":               good + ".x",
		"encrypted":                   strings.Repeat(parts[0]+".", 4) + parts[0],
		"spaces":                      " " + good,
		"a newline":                   good[:50] + "\n" + good[50:],
		"another last bit":            good[:len(good)-1] + "=",
		"critical and unknown":        header(`"alg":"RS256","crit":["x"],"x":1`) + "." + parts[1] + "." + parts[2],
		"empty":                       "",
		"dots":                        "..",
		"too long":                    good + strings.Repeat("a", 8<<10),
		"deep header":                 encode(`{"alg":"RS256","x":`+strings.Repeat("[", 5000)) + "." + parts[1] + "." + parts[2],
		"kid as path":                 encode(`{"typ":"at+jwt","alg":"RS256","kid":"../../dev/null"}`) + "." + parts[1] + "." + parts[2],
		"kid as a query of SQL":       encode(`{"typ":"at+jwt","alg":"RS256","kid":"x' UNION SELECT 'key"}`) + "." + parts[1] + "." + parts[2],
		"kid of a kind":               encode(`{"typ":"at+jwt","alg":"RS256","kid":1}`) + "." + parts[1] + "." + parts[2],
		"kid of the other key":        encode(`{"typ":"at+jwt","alg":"RS256","kid":"ec"}`) + "." + parts[1] + "." + parts[2],
		"kid in capitals":             encode(`{"typ":"at+jwt","alg":"RS256","kid":"RSA"}`) + "." + parts[1] + "." + parts[2],
		"no kid, but two keys to try": encode(`{"typ":"at+jwt","alg":"HS256"}`) + "." + parts[1] + "." + parts[2],
	} {
		wantInvalid(t, name, v, token)
	}

	// The RSA public key as the secret of HMAC, in the formats that libraries use.
	der, err := x509.MarshalPKIXPublicKey(rsaKey.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string][]byte{
		"DER": der, "PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "JWK Set": keySet(t, rsaKey),
	} {
		for _, alg := range []jose.SignatureAlgorithm{jose.HS256, jose.HS384, jose.HS512} {
			token := sign(t, jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: secret, KeyID: "rsa"}}, (&jose.SignerOptions{}).WithType("at+jwt"), validClaims(nil).marshal(t))
			wantInvalid(t, "HMAC with "+name, v, token)
		}
	}

	// The key in the token itself, or at a URL in the token.
	for name, opts := range map[string]*jose.SignerOptions{
		"jwk":  {EmbedJWK: true},
		"jku":  (&jose.SignerOptions{}).WithHeader("jku", "https://evil.example/keys"),
		"x5u":  (&jose.SignerOptions{}).WithHeader("x5u", "https://evil.example/chain"),
		"none": {},
	} {
		key := jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: stranger.key, KeyID: "ec"}}
		wantInvalid(t, "header "+name, v, sign(t, key, opts.WithType("at+jwt"), validClaims(nil).marshal(t)))
	}
}

// The type distinguishes access tokens from other JWTs of the issuer. RFC 9068, section
// 4.
func TestTypeOfToken(t *testing.T) {
	m := newSigner(t, "k")
	strict := verifier(t, m)
	lax, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: testIssuer, Keys: keySet(t, m), AnyType: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		typ         any
		strict, lax bool
	}{
		{"at+jwt", true, true}, {"AT+JWT", true, true}, {"application/at+jwt", true, true}, {"JWT", false, true}, {nil, false, true},
		{"application/jwt", false, true}, {"dpop+jwt", false, false}, {"logout+jwt", false, false}, {"secevent+jwt", false, false},
		{"oauth-id-jag+jwt", false, false}, {"", false, false}, {1, false, false}, {"at+jwt ", false, false},
	} {
		header := map[jose.HeaderKey]any{}
		if test.typ != nil {
			header[jose.HeaderType] = test.typ
		}
		token := m.tokenWith(t, validClaims(nil), header)
		for v, want := range map[*oauth.JWTVerifier]bool{strict: test.strict, lax: test.lax} {
			if _, err := v.Verify(t.Context(), oauth.Secret(token), testResource); (err == nil) != want {
				t.Errorf("%v: %v", test.typ, err)
			}
		}
	}
}

// Only public keys for verifying signatures are used of a JWK Set.
func TestKeysThatAreLeftOut(t *testing.T) {
	good := newSigner(t, "good")
	weak := newRSASigner(t, "weak", 1024)
	secret := newSigner(t, "secret")
	edPublic, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	item := func(key jose.JSONWebKey) json.RawMessage {
		text, err := key.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	set := func(keys ...json.RawMessage) json.RawMessage {
		text, err := json.Marshal(map[string]any{"keys": keys})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	useless := map[string]json.RawMessage{
		"a weak key":       item(jose.JSONWebKey{Key: weak.key.Public(), KeyID: "weak"}),
		"a private key":    item(jose.JSONWebKey{Key: secret.key, KeyID: "secret"}),
		"a password":       item(jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "password"}),
		"for encryption":   item(jose.JSONWebKey{Key: secret.key.Public(), KeyID: "secret", Use: "enc"}),
		"to sign with":     json.RawMessage(strings.Replace(string(item(jose.JSONWebKey{Key: secret.key.Public(), KeyID: "secret"})), "{", `{"key_ops":["sign"],`, 1)),
		"an unknown kind":  json.RawMessage(`{"kty":"XYZ","kid":"x"}`),
		"no object":        json.RawMessage(`1`),
		"off the curve":    json.RawMessage(`{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"}`),
		"without its kind": json.RawMessage(`{"kid":"x"}`),
	}
	for name, key := range useless {
		if _, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: testIssuer, Keys: set(key)}); err == nil {
			t.Errorf("%s alone is taken", name)
		}
		v, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: testIssuer, Keys: set(key, item(jose.JSONWebKey{Key: good.key.Public(), KeyID: "good"}), item(jose.JSONWebKey{Key: edPublic, KeyID: "ed"}))})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantValid(t, name, v, good.token(t, validClaims(nil)))
		wantInvalid(t, name, v, secret.token(t, validClaims(nil)))
		wantInvalid(t, name, v, weak.token(t, validClaims(nil)))
	}
}

// A key is used only with its own algorithm.
func TestAlgorithmOfKey(t *testing.T) {
	m := newRSASigner(t, "k", 2048)
	v := verifier(t, m) // the key is for RS256
	pss := *m
	pss.algorithm = jose.PS256
	wantValid(t, "RS256", v, m.token(t, validClaims(nil)))
	wantInvalid(t, "PS256", v, pss.token(t, validClaims(nil)))
	only, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: testIssuer, Keys: keySet(t, m), Algorithms: []string{"ES256"}})
	if err != nil {
		t.Fatal(err)
	}
	wantInvalid(t, "an algorithm that is not listed", only, m.token(t, validClaims(nil)))
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	big := &tokenSigner{p384, "big", jose.ES384}
	wantValid(t, "ES384", verifier(t, big), big.token(t, validClaims(nil)))
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edwards := &tokenSigner{ed, "ed", jose.EdDSA}
	wantValid(t, "EdDSA", verifier(t, edwards), edwards.token(t, validClaims(nil)))
}

// A token without a key ID is verified only if one key fits.
func TestTokenWithoutKeyID(t *testing.T) {
	m, other := newSigner(t, ""), newSigner(t, "other")
	token := m.token(t, validClaims(nil))
	wantValid(t, "one key", verifier(t, m), token)
	wantInvalid(t, "two keys", verifier(t, m, other), token)
	wantValid(t, "one key of its kind", verifier(t, m, newRSASigner(t, "rsa", 2048)), token)
}

func TestJWTOptions(t *testing.T) {
	keys := keySet(t, newSigner(t, "k"))
	for name, opts := range map[string]*oauth.JWTOptions{
		"nil":                    nil,
		"no issuer":              {Keys: keys},
		"issuer with http":       {Issuer: "http://login.example.com", Keys: keys},
		"issuer with fragment":   {Issuer: testIssuer + "#x", Keys: keys},
		"HMAC":                   {Issuer: testIssuer, Keys: keys, Algorithms: []string{"HS256"}},
		"none":                   {Issuer: testIssuer, Keys: keys, Algorithms: []string{"none"}},
		"an empty algorithm":     {Issuer: testIssuer, Keys: keys, Algorithms: []string{""}},
		"a long skew":            {Issuer: testIssuer, Keys: keys, Skew: time.Hour},
		"a negative skew":        {Issuer: testIssuer, Keys: keys, Skew: -1},
		"keys and their URL":     {Issuer: testIssuer, Keys: keys, KeysURL: "https://login.example.com/keys"},
		"no keys":                {Issuer: testIssuer, Keys: json.RawMessage(`{"keys":[]}`)},
		"no JWK Set":             {Issuer: testIssuer, Keys: json.RawMessage(`[]`)},
		"too many keys":          {Issuer: testIssuer, Keys: json.RawMessage(`{"keys":[` + strings.Repeat(`{},`, 64) + `{}]}`)},
		"keys by http":           {Issuer: testIssuer, KeysURL: "http://login.example.com/keys"},
		"keys at a private host": {Issuer: testIssuer, KeysURL: "https://10.0.0.1/keys"},
		"keys on this machine":   {Issuer: testIssuer, KeysURL: "http://127.0.0.1/keys"},
		"a private issuer":       {Issuer: "https://192.168.0.1"},
	} {
		if _, err := oauth.NewJWTVerifier(opts); err == nil || !strings.HasPrefix(err.Error(), "oauth.NewJWTVerifier: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
