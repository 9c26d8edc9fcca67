package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpclient"
	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/transport/oauth/internal/syntax"
)

// Accepted resource metadata has the server's origin, and is bounded.
func FuzzResourceMetadata(f *testing.F) {
	for _, seed := range []string{
		`{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example"],"scopes_supported":["a","b c"]}`,
		`{"resource":"https://MCP.example:443/","authorization_servers":["x"],"dpop_bound_access_tokens_required":true}`,
		`{"resource":null,"authorization_servers":[]}`, `{"resource":"https://mcp.example/mc%70"}`, `[]`, `{`,
	} {
		f.Add([]byte(seed))
	}
	server, _ := url.Parse("https://mcp.example/mcp")
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseDocument("https://mcp.example/x", text)
		if err != nil {
			return
		}
		r, err := parseResourceMetadata(d, server)
		if err != nil {
			return
		}
		u, err := url.Parse(r.resource)
		if err != nil || !httpclient.SameOrigin(u, server) || u.User != nil || strings.Contains(r.resource, "#") {
			t.Fatalf("accepted the resource %q", r.resource)
		}
		if len(r.issuers) > maxIssuers || len(r.scopes) > 128 || len(strings.Join(r.scopes, " ")) > 8<<10 {
			t.Fatalf("accepted %d issuers and %d scopes", len(r.issuers), len(r.scopes))
		}
		if err := syntax.CheckScopes(r.scopes); err != nil {
			t.Fatal(err)
		}
	})
}

// Accepted server metadata names the issuer, and no endpoint in a private network.
func FuzzServerMetadata(f *testing.F) {
	for _, seed := range []string{
		`{"issuer":"https://as.example","token_endpoint":"https://as.example/token","code_challenge_methods_supported":["S256"]}`,
		`{"issuer":"https://as.example","token_endpoint":"https://127.1/token","registration_endpoint":"https://10.0.0.1"}`,
		`{"issuer":"https://as.example/","token_endpoint":7}`, `{"Issuer":"https://as.example","token_endpoint":"https://x.example"}`, `null`,
	} {
		f.Add([]byte(seed))
	}
	client, err := NewClient(nil)
	if err != nil {
		f.Fatal(err)
	}
	guard := netguard.New(nil)
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseDocument("https://as.example/x", text)
		if err != nil {
			return
		}
		issuer, err := d.issuer("https://as.example")
		if err != nil {
			return
		}
		m, err := client.parseServerMetadata(d, issuer)
		if err != nil {
			return
		}
		if strings.TrimSuffix(m.issuer, "/") != "https://as.example" || guard.Check(m.tokenEndpoint) != nil || m.registrationEndpoint != "" && guard.Check(m.registrationEndpoint) != nil {
			t.Fatalf("accepted %+v", m)
		}
	})
}

// A code is accepted only from a response with the right state and issuer.
func FuzzAuthorizationResponse(f *testing.F) {
	for _, seed := range []string{
		"state=s&code=c&iss=https://as.example", "state=s&code=c", "state=s&error=access_denied&iss=https%3A%2F%2Fas.example", "state=s&state=s&code=c", "state=x&code=c", "code=c&iss=", "%zz", "",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, query string, advertised bool) {
		response, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		m := &serverMetadata{issuer: "https://as.example", sendsIssuer: advertised}
		code, err := m.readAuthorization(response, "s")
		if err != nil {
			if code != "" {
				t.Fatalf("a code with the error %v", err)
			}
			return
		}
		issuer, named := response["iss"]
		if len(response["state"]) != 1 || response.Get("state") != "s" || response.Get("code") != code || code == "" || response.Has("error") && response.Get("error") != "" ||
			named && (len(issuer) != 1 || issuer[0] != m.issuer) || advertised && !named {
			t.Fatalf("accepted %q", query)
		}
	})
}

// Every URL that a browser opens is https, or of this machine, and one word.
func FuzzBrowserURL(f *testing.F) {
	for _, seed := range []string{"https://x.example/?a=b", "http://127.0.0.1:1/", "javascript:alert(1)", "https://-x/", "HTTPS://x@y/", "//x", "https://x/#"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := browserURL(text, true)
		if err != nil {
			return
		}
		out := u.String()
		if !strings.HasPrefix(out, "https://") && (!strings.HasPrefix(out, "http://") || !netguard.IsLoopback(u.Hostname())) || strings.ContainsAny(out, " \t\r\n\"'`<>|;$()#\\") || u.User != nil {
			t.Fatalf("%q is opened as %q", text, out)
		}
	})
}

// Saved credentials are refused, or parsed and marshalled without a change.
func FuzzCredentials(f *testing.F) {
	f.Add(`{"issuer":"https://as.example","resource":"x","access_token":"t"}`)
	f.Add(`{"issuer":"https://as.example","access_token":"t","key":{"kty":"EC"}}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		saved, err := parseCredentials(Secret(text))
		if err != nil {
			return
		}
		marshalled, err := saved.marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseCredentials(marshalled)
		if err != nil || again.Issuer != saved.Issuer || again.AccessToken != saved.AccessToken || again.RefreshToken != saved.RefreshToken || !again.Expires.Equal(saved.Expires) {
			t.Fatalf("%q changes when it is saved: %v", text, err)
		}
	})
}

// seedKeys is a JWK Set of a key whose private half is in RFC 7515, appendix A.3.
const seedKeys = `{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`

const seedToken = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ." +
	"DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"

// An Authorization header is refused, or has one token of valid characters.
func FuzzReadToken(f *testing.F) {
	f.Add("Bearer " + seedToken)
	f.Add("dpop  a==")
	f.Add("Basic YTpi")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := readToken(http.Header{"Authorization": {line}})
		if err != nil {
			if why, ok := errors.AsType[*refusal](err); !ok || why.status != http.StatusUnauthorized && why.status != http.StatusBadRequest || c.token != "" {
				t.Fatalf("%v, %+v", err, c)
			}
			return
		}
		if !strings.HasSuffix(line, string(c.token)) || strings.ContainsAny(string(c.token), " ,\"\r\n\x00") || c.token == "" || len(c.token) > maxBearerToken {
			t.Fatalf("the token of %q is %q", line, string(c.token))
		}
	})
}

// No text that the issuer did not sign is a valid token. The reason is printable ASCII.
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
				t.Fatalf("reason %q", invalid.Reason)
			}
		}
	})
}

// Claims are refused, or parsed within bounds.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(`{"iss":"https://a","sub":"b","aud":["c"],"exp":1e9,"scope":"d e","cnf":{"jkt":"f"}}`))
	f.Add([]byte(`{"iss":"https://a","client_id":"b","scp":["c"],"nbf":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseClaims(text)
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
		_, _ = c.checkTimes(time.Now(), time.Minute)
	})
}

// No text that the key did not sign is a proof.
func FuzzParseProof(f *testing.F) {
	f.Add(seedToken)
	f.Add("eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7fX0.e30.AA")
	f.Fuzz(func(t *testing.T, text string) {
		claims, thumbprint, err := parseProof(text)
		if err == nil && (claims == nil || len(thumbprint) != 43 || claims.ID == "") {
			t.Fatalf("%+v, %q", claims, thumbprint)
		}
	})
}
