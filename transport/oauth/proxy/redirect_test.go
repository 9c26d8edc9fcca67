package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth/proxy"
)

// reflected is in every parameter that an attacker chooses. No page may contain it.
const reflected = `"><script>evil()</script>`

// checkErrorPage checks that a response is an error page of the proxy, which sends the browser nowhere.
func checkErrorPage(t *testing.T, res *http.Response, page string) {
	t.Helper()
	header := res.Header
	if res.StatusCode != http.StatusBadRequest || header.Get("Location") != "" || header.Get("Refresh") != "" {
		t.Errorf("got status %d and the location %q, want an error page", res.StatusCode, header.Get("Location"))
	}
	policy := header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("the page may run scripts or be framed: %v", header)
	}
	if !strings.Contains(page, "The login cannot continue") || strings.Contains(page, "evil") || strings.Contains(page, clientRedirect) {
		t.Errorf("the page is\n%s", page)
	}
}

// Everyone may register any redirect URI, so the proxy sends no browser to a redirect URI before the
// person has agreed: it would be an open redirector. RFC 9700, section 4.11.2.
func TestErrorsBeforeConsent(t *testing.T) {
	p := newProxied(t, nil)
	id := p.registered()
	for name, change := range map[string]map[string]string{
		"an unknown client":           {"client_id": reflected},
		"no client":                   {"client_id": ""},
		"an unregistered redirect":    {"redirect_uri": "https://evil.example/" + reflected},
		"no redirect":                 {"redirect_uri": ""},
		"a long state":                {"state": strings.Repeat(reflected, 100)},
		"no response type":            {"response_type": ""},
		"another response type":       {"response_type": "token " + reflected},
		"no challenge":                {"code_challenge": ""},
		"a short challenge":           {"code_challenge": reflected},
		"no challenge method":         {"code_challenge_method": ""},
		"the challenge method plain":  {"code_challenge_method": "plain"},
		"another challenge method":    {"code_challenge_method": reflected},
		"another resource":            {"resource": "https://evil.example/" + reflected},
		"a resource that is no URL":   {"resource": reflected},
		"several errors at one time":  {"resource": reflected, "response_type": reflected, "code_challenge_method": ""},
		"an error and a refused user": {"prompt": "none", "response_type": reflected},
	} {
		t.Run(name, func(t *testing.T) {
			res, page := newBrowser(t, "http").open(p.authorizeURL(id, change))
			checkErrorPage(t, res, page)
		})
	}
	for name, more := range map[string]string{
		"a malformed query":      "&x=%zz",
		"a semicolon":            "&x=1;y=2",
		"two states":             "&state=" + url.QueryEscape(reflected),
		"two redirects":          "&redirect_uri=https://evil.example",
		"two response types":     "&response_type=token",
		"two clients":            "&client_id=evil",
		"two challenges":         "&code_challenge=evil",
		"two scopes":             "&scope=evil",
		"two resources":          "&resource=evil",
		"two challenge methods":  "&code_challenge_method=plain",
		"two redirects that are": "&redirect_uri=" + url.QueryEscape(clientRedirect),
	} {
		t.Run(name, func(t *testing.T) {
			res, page := newBrowser(t, "http").open(p.authorizeURL(id, nil) + more)
			checkErrorPage(t, res, page)
		})
	}
	at := p.issuer + "/authorize"
	for name, post := range map[string]func(b *browser, page string) (*http.Response, string){
		"another site": func(b *browser, page string) (*http.Response, string) {
			return b.submit(at, page, "allow", http.Header{"Sec-Fetch-Site": {"cross-site"}})
		},
		"another origin": func(b *browser, page string) (*http.Response, string) {
			return b.submit(at, page, "deny", http.Header{"Origin": {"https://evil.example"}})
		},
		"another browser": func(_ *browser, page string) (*http.Response, string) {
			return newBrowser(t, "http").submit(at, page, "allow", nil)
		},
		"another browser that cancels": func(_ *browser, page string) (*http.Response, string) {
			return newBrowser(t, "http").submit(at, page, "deny", nil)
		},
		"a changed request": func(b *browser, page string) (*http.Response, string) {
			return b.submit(at, strings.Replace(page, `value="dt1.`, `value="dt1.A`, 1), "allow", nil)
		},
		"a client ID as the request": func(b *browser, _ string) (*http.Response, string) {
			return b.submit(at, `name="request" value="`+id+`"`, "deny", nil)
		},
		"a callback with a state": func(b *browser, _ string) (*http.Response, string) {
			return b.open(p.issuer + "/callback?error=access_denied&state=" + strings.Repeat("A", 26))
		},
		"a callback with a chosen state": func(b *browser, _ string) (*http.Response, string) {
			return b.open(p.issuer + "/callback?error=" + url.QueryEscape(reflected) + "&state=" + url.QueryEscape(reflected))
		},
		"a callback without a state": func(b *browser, _ string) (*http.Response, string) {
			return b.open(p.issuer + "/callback?code=x&redirect_uri=https://evil.example")
		},
		"a malformed callback": func(b *browser, _ string) (*http.Response, string) { return b.open(p.issuer + "/callback?%zz") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBrowser(t, "http")
			_, page := b.open(p.authorizeURL(id, nil))
			res, text := post(b, page)
			checkErrorPage(t, res, text)
		})
	}
	if got := p.count("/authorize"); got != 0 {
		t.Errorf("%d logins have begun", got)
	}
}

// A person who cancels decides on the proxy's page whether to go back to the application.
func TestCancel(t *testing.T) {
	p := newProxied(t, nil)
	for redirect, shown := range map[string]string{
		clientRedirect:           clientRedirect + "?error=access_denied&amp;iss=",
		"com.example.app:/back":  "com.example.app:/back?error=access_denied&amp;iss=",
		"http://127.0.0.1:1/x?y": "http://127.0.0.1:1/x?y&amp;error=access_denied&amp;iss=",
	} {
		b := newBrowser(t, "http")
		id := p.register(`{"redirect_uris":["` + redirect + `"]}`)
		_, page := b.open(p.authorizeURL(id, map[string]string{"redirect_uri": redirect, "state": reflected}))
		res, text := b.submit(p.issuer+"/authorize", page, "deny", nil)
		if res.StatusCode != http.StatusBadRequest || res.Header.Get("Location") != "" || res.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: got %d, %v", redirect, res.StatusCode, res.Header)
		}
		if !strings.Contains(text, `href="`+shown) || !strings.Contains(text, "state=%22%3E%3Cscript") || strings.Contains(text, "<script") {
			t.Errorf("%s: the page is\n%s", redirect, text)
		}
	}
}

// After the person has agreed, errors go to the redirect URI. RFC 6749, section 4.1.2.1.
func TestErrorsAfterConsent(t *testing.T) {
	fail := func(status int, code string) func(p *proxied) {
		return func(p *proxied) { p.replace("/token", refuseWith(status, code)) }
	}
	redirectWith := func(query string) func(p *proxied) {
		return func(p *proxied) {
			p.replace("/authorize", func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, p.issuer+"/callback?state="+r.URL.Query().Get("state")+"&iss="+p.identityProvider.url+query, http.StatusFound)
			})
		}
	}
	for _, test := range []struct {
		name   string
		change func(*proxy.Options)
		fail   func(p *proxied)
		state  string
		want   string
	}{
		{name: "no metadata", want: "temporarily_unavailable", fail: func(p *proxied) {
			p.replace("/.well-known/oauth-authorization-server", http.NotFound)
			p.replace("/.well-known/openid-configuration", http.NotFound)
		}},
		{name: "an authorization endpoint of another form", want: "temporarily_unavailable", fail: func(p *proxied) {
			p.editMetadata = func(metadata map[string]any) { metadata["authorization_endpoint"] = "http://login.example/" }
		}},
		{name: "the provider refuses", want: "access_denied", fail: redirectWith("&error=access_denied")},
		{name: "the provider fails", want: "server_error", fail: redirectWith("&error=server_error")},
		{name: "the provider sends text", want: "server_error", fail: redirectWith("&error=" + url.QueryEscape(reflected) + "&error_description=" + url.QueryEscape(reflected))},
		{name: "no code", want: "server_error", fail: redirectWith("")},
		{name: "two codes", want: "server_error", fail: redirectWith("&code=a&code=b")},
		{name: "two issuers", want: "server_error", fail: redirectWith("&code=a&iss=https://evil.example")},
		{name: "the code is refused", want: "server_error", fail: fail(http.StatusBadRequest, "invalid_grant")},
		{name: "access is refused", want: "access_denied", fail: fail(http.StatusBadRequest, "access_denied")},
		{name: "the token endpoint fails", want: "server_error", fail: fail(http.StatusInternalServerError, "")},
		{name: "not admitted", want: "access_denied", change: func(o *proxy.Options) {
			o.Admit = func(context.Context, *proxy.Login) error { return errors.New(reflected) }
		}},
		{name: "no subject", want: "server_error", change: func(o *proxy.Options) {
			o.Admit = func(_ context.Context, login *proxy.Login) error { login.Subject = ""; return nil }
		}},
		{name: "a cookie that is too long", want: "invalid_request", state: strings.Repeat("<", 1024), change: func(o *proxy.Options) {
			for range 100 {
				o.Scopes = append(o.Scopes, "a-scope-with-a-long-name")
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newProxied(t, test.change)
			if test.fail != nil {
				test.fail(p)
			}
			b := newBrowser(t, clientRedirect)
			changes := map[string]string{"scope": ""}
			if test.state != "" {
				changes["state"] = test.state
			}
			_, page := b.open(p.authorizeURL(p.registered(), changes))
			res := b.decide(p.issuer+"/authorize", page, "allow", nil)
			got, want := location(t, res), test.state
			if want == "" {
				want = "client-state"
			}
			if !strings.HasPrefix(res.Header.Get("Location"), clientRedirect+"?") || got.Get("error") != test.want || got.Get("state") != want || got.Get("iss") != p.issuer || got.Has("code") {
				t.Errorf("got %s", res.Header.Get("Location"))
			}
			if strings.Contains(got.Get("error_description"), "evil") {
				t.Errorf("the description repeats text of the provider: %q", got.Get("error_description"))
			}
		})
	}
}
