package oauth

import (
	"net/url"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/internal/webclient"
)

// What is taken of a resource's document is of the server's origin, and bounded.
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
		d := &document{url: "https://mcp.example/x"}
		if d.read(text) != nil {
			return
		}
		r, err := parseResource(d, server)
		if err != nil {
			return
		}
		u, err := url.Parse(r.resource)
		if err != nil || !webclient.SameOrigin(u, server) || u.User != nil || strings.Contains(r.resource, "#") {
			t.Fatalf("took the resource %q", r.resource)
		}
		if len(r.issuers) == 0 || len(r.issuers) > maxIssuers || len(r.scopes) > maxScopes || len(strings.Join(r.scopes, " ")) > maxScope {
			t.Fatalf("took %d issuers and %d scopes", len(r.issuers), len(r.scopes))
		}
		for _, scope := range r.scopes {
			if !isScope(scope) {
				t.Fatalf("took the scope %q", scope)
			}
		}
	})
}

// What is taken of an issuer's document is the issuer's own, and leads nowhere inside.
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
		d := &document{url: "https://as.example/x"}
		if d.read(text) != nil {
			return
		}
		m, err := client.parseServer(d, "https://as.example")
		if err != nil {
			return
		}
		if m.issuer != "https://as.example" || guard.Check(m.tokenEndpoint) != nil || m.registrationEndpoint != "" && guard.Check(m.registrationEndpoint) != nil {
			t.Fatalf("took %+v", m)
		}
	})
}

// A code is taken only of an answer with the one state and the one issuer.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"state=s&code=c&iss=https://as.example", "state=s&code=c", "state=s&error=access_denied&iss=https%3A%2F%2Fas.example", "state=s&state=s&code=c", "state=x&code=c", "code=c&iss=", "%zz", "",
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, query string, advertised bool) {
		answer, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		m := &serverMetadata{issuer: "https://as.example", namesItself: advertised}
		code, err := m.readAnswer(answer, "s")
		if err != nil {
			if code != "" {
				t.Fatalf("a code with the error %v", err)
			}
			return
		}
		issuer, named := answer["iss"]
		if len(answer["state"]) != 1 || answer.Get("state") != "s" || answer.Get("code") != code || code == "" || answer.Has("error") && answer.Get("error") != "" ||
			named && (len(issuer) != 1 || issuer[0] != m.issuer) || advertised && !named {
			t.Fatalf("took %q", query)
		}
	})
}

// Every URL that a browser is sent to is https, or of this machine, and one word.
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
		if !strings.HasPrefix(out, "https://") && (!strings.HasPrefix(out, "http://") || !isLoopback(u.Hostname())) || strings.ContainsAny(out, " \t\r\n\"'`<>|;$()#\\") || u.User != nil {
			t.Fatalf("%q is opened as %q", text, out)
		}
	})
}

// What a store gives back is used or refused, and what is used was saved like that.
func FuzzLogin(f *testing.F) {
	f.Add(`{"issuer":"https://as.example","resource":"x","access_token":"t"}`)
	f.Add(`{"issuer":"https://as.example","access_token":"t","key":{"kty":"EC"}}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLogin(Secret(text))
		if err != nil {
			return
		}
		saved, err := l.save()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseLogin(saved)
		if err != nil || again.issuer != l.issuer || again.access != l.access || again.refresh != l.refresh || !again.expires.Equal(l.expires) {
			t.Fatalf("%q is not saved as it was: %v", text, err)
		}
	})
}
