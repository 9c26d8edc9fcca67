package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

// seedKeys is a JWK Set of a key whose private half is in RFC 7515, appendix A.3.
const seedKeys = `{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`

const seedToken = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ." +
	"DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"

// Whatever stands in a header, there is at most one token in it, of the characters of
// tokens.
func FuzzCredentials(f *testing.F) {
	f.Add("Bearer " + seedToken)
	f.Add("dpop  a==")
	f.Add("Basic YTpi")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := credentialsOf(http.Header{"Authorization": {line}})
		if err != nil {
			if why, ok := errors.AsType[*refusal](err); !ok || why.status != http.StatusUnauthorized && why.status != http.StatusBadRequest || c.token != "" {
				t.Fatalf("%v, %+v", err, c)
			}
			return
		}
		if !strings.HasSuffix(line, string(c.token)) || strings.ContainsAny(string(c.token), " ,\"\r\n\x00") || c.token == "" || len(c.token) > MaxBearerToken {
			t.Fatalf("the token of %q is %q", line, string(c.token))
		}
	})
}

// No text is a valid token that its issuer has not signed; and what is wrong with it is
// said in characters that a header takes.
func FuzzVerifyJWT(f *testing.F) {
	v, err := NewJWTVerifier(&JWTOptions{Issuer: "https://login.example.com", Keys: json.RawMessage(seedKeys), AnyType: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seedToken)
	f.Add("..")
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Fuzz(func(t *testing.T, token string) {
		grant, err := v.Verify(context.Background(), Secret(token), "https://mcp.example.com/mcp")
		invalid, ok := errors.AsType[*InvalidTokenError](err)
		if !ok || grant != nil {
			t.Fatalf("%+v, %v", grant, err)
		}
		for _, b := range []byte(invalid.Reason) {
			if b < ' ' || b > '~' {
				t.Fatalf("the reason is %q", invalid.Reason)
			}
		}
	})
}

// What a token says is read in one way or refused, within bounds.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(`{"iss":"https://a","sub":"b","aud":["c"],"exp":1e9,"scope":"d e","cnf":{"jkt":"f"}}`))
	f.Add([]byte(`{"iss":"https://a","client_id":"b","scp":["c"],"nbf":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := readClaims(text)
		if err != nil {
			return
		}
		g, err := c.grant()
		if err != nil {
			if _, ok := errors.AsType[*InvalidTokenError](err); !ok {
				t.Fatal(err)
			}
			return
		}
		if len(g.Scopes) > maxGranted || len(g.Subject) > maxClaim || len(g.Issuer) > maxClaim {
			t.Errorf("%+v", g)
		}
		if all, err := c.texts("aud"); err == nil && len(all) > maxGranted {
			t.Errorf("%d audiences", len(all))
		}
		_, _ = c.times(time.Now(), time.Minute)
	})
}

// No text is a proof that its key has not signed.
func FuzzReadProof(f *testing.F) {
	f.Add(seedToken)
	f.Add("eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7fX0.e30.AA")
	f.Fuzz(func(t *testing.T, text string) {
		said, thumbprint, err := readProof(text)
		if err == nil && (said == nil || len(thumbprint) != 43 || said.ID == "") {
			t.Fatalf("%+v, %q", said, thumbprint)
		}
	})
}
