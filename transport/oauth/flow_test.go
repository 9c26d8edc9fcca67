package oauth_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

func TestClientCredentials(t *testing.T) {
	signer, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "a:b c%+ü"
	w := newFixture(t, &oauthtest.Options{Clients: []oauthtest.Client{
		{ID: "robot: 1", Secret: secret},
		{ID: "signs", Key: edwards.Public()},
	}})
	for name, test := range map[string]struct {
		registration oauth.Registration
		fails        bool
	}{
		"basic":               {oauth.Registration{ClientID: "robot: 1", Secret: secret}, false},
		"post":                {oauth.Registration{ClientID: "robot: 1", Secret: secret, Method: "client_secret_post"}, false},
		"wrong":               {oauth.Registration{ClientID: "robot: 1", Secret: "no"}, true},
		"key":                 {oauth.Registration{ClientID: "signs", Key: edwards}, false},
		"unsupported key":     {oauth.Registration{ClientID: "signs", Key: signer}, true},
		"of the issuer":       {oauth.Registration{Issuer: w.issuer.URL, ClientID: "robot: 1", Secret: secret}, false},
		"of another":          {oauth.Registration{Issuer: "https://other.example", ClientID: "robot: 1", Secret: secret}, true},
		"of one but for case": {oauth.Registration{Issuer: strings.ToUpper(w.issuer.URL), ClientID: "robot: 1", Secret: secret}, true},
	} {
		client := w.client(func(o *oauth.ClientOptions) {
			o.Flow, o.Registrations = &oauth.ClientCredentials{}, []oauth.Registration{test.registration}
		})
		status, err := w.request(client)
		if test.fails != (err != nil) || err == nil && status != http.StatusOK {
			t.Errorf("%s: got %d, %v", name, status, err)
		}
	}
}

// A refusal of an assertion is final.
func TestJWTBearer(t *testing.T) {
	w := newFixture(t, nil)
	assertions := 0
	w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
		res.Header().Set("Content-Type", "application/json")
		if r.FormValue("assertion") != "good" || r.Form.Has("client_id") || r.FormValue("resource") != w.mcp() {
			res.WriteHeader(http.StatusBadRequest)
			_, _ = res.Write([]byte(`{"error":"invalid_grant","error_description":"bad bad-assertion"}`))
			return
		}
		writeJSON(res, map[string]any{"access_token": "x", "token_type": "bearer"})
	})
	client := func(assertion oauth.Secret) *oauth.Client {
		return w.client(func(o *oauth.ClientOptions) {
			o.Flow = &oauth.JWTBearer{Trust: func(issuer string) bool { return issuer == w.issuer.URL }, Assertion: func(_ context.Context, issuer string) (oauth.Secret, error) {
				if assertions++; issuer != w.issuer.URL {
					t.Errorf("asked for an assertion for %q", issuer)
				}
				return assertion, nil
			}}
		})
	}
	w.mustSucceed(client("good"))
	_, err := w.request(client("bad-assertion"))
	refused, ok := errors.AsType[*oauth.Error](err)
	if !ok || refused.Code != "invalid_grant" || refused.Status != http.StatusBadRequest || strings.Contains(err.Error(), "bad-assertion") || assertions != 2 {
		t.Errorf("got %v after %d assertions", err, assertions)
	}
}

// An assertion is sent only to authorization servers that the program names, not to any
// that an MCP server names.
func TestJWTBearerTrust(t *testing.T) {
	for name, test := range map[string]struct {
		registered []oauth.Registration
		trust      func(string) bool
		asked      bool
	}{
		"nobody":             {nil, nil, false},
		"anybody's client":   {[]oauth.Registration{{ClientID: "x"}}, nil, false},
		"another's client":   {[]oauth.Registration{{Issuer: "https://other.example", ClientID: "x"}}, nil, false},
		"the issuer's":       {[]oauth.Registration{{Issuer: "ISSUER", ClientID: "x"}}, nil, true},
		"with a slash":       {[]oauth.Registration{{Issuer: "ISSUER/", ClientID: "x"}}, nil, true},
		"with two slashes":   {[]oauth.Registration{{Issuer: "ISSUER//", ClientID: "x"}}, nil, false},
		"another is trusted": {nil, func(issuer string) bool { return issuer == "https://other.example" }, false},
		"all are trusted":    {nil, func(string) bool { return true }, true},
	} {
		w := newFixture(t, nil)
		w.replace("issuer/token", func(res http.ResponseWriter, _ *http.Request) {
			writeJSON(res, map[string]any{"access_token": "x", "token_type": "bearer"})
		})
		asked := false
		_, err := w.request(w.client(func(o *oauth.ClientOptions) {
			for _, registration := range test.registered {
				registration.Issuer = strings.Replace(registration.Issuer, "ISSUER", w.issuer.URL, 1)
				o.Registrations = append(o.Registrations, registration)
			}
			o.Flow = &oauth.JWTBearer{Trust: test.trust, Assertion: func(context.Context, string) (oauth.Secret, error) {
				asked = true
				return "assertion", nil
			}}
		}))
		if refused, ok := errors.AsType[*oauth.RegistrationError](err); asked != test.asked || ok == test.asked || ok && refused.Issuer != w.issuer.URL || w.count("issuer/token") > 0 != test.asked {
			t.Errorf("%s: asked %t, %v", name, asked, err)
		}
	}
}

// The token of a person is exchanged at the authorization server of a registration, and sent to no other one.
func TestTokenExchange(t *testing.T) {
	const access = "urn:ietf:params:oauth:token-type:access_token"
	for name, test := range map[string]struct {
		registered, issued string
		asked, ok          bool
	}{
		"the issuer's":             {"ISSUER", access, true, true},
		"with a slash":             {"ISSUER/", access, true, true},
		"another issuer's":         {"https://other.example", access, false, false},
		"another type":             {"ISSUER", "urn:ietf:params:oauth:token-type:id_token", true, false},
		"an answer without a type": {"ISSUER", "", true, false},
	} {
		w := newFixture(t, nil)
		w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
			if id, secret, _ := r.BasicAuth(); id != "app" || secret != "password" || r.FormValue("subject_token") != "the-caller" || r.FormValue("subject_token_type") != access ||
				r.FormValue("requested_token_type") != access || r.FormValue("resource") != w.mcp() {
				t.Errorf("%s: the authorization server is asked for %v", name, r.Form)
			}
			writeJSON(res, map[string]any{"access_token": "x", "issued_token_type": test.issued, "token_type": "Bearer"})
		})
		asked := false
		status, err := w.request(w.client(func(o *oauth.ClientOptions) {
			o.Registrations = []oauth.Registration{{Issuer: strings.Replace(test.registered, "ISSUER", w.issuer.URL, 1), ClientID: "app", Secret: "password"}}
			o.Flow = &oauth.TokenExchange{Subject: func(context.Context) (oauth.Secret, error) {
				asked = true
				return "the-caller", nil
			}}
		}))
		if asked != test.asked || w.count("issuer/token") > 0 != test.asked || (err == nil && status == http.StatusOK) != test.ok {
			t.Errorf("%s: asked %t, got %d, %v", name, asked, status, err)
		}
	}
}

// The identity provider issues a grant for one authorization server and one resource.
// Both know the client by different IDs.
func TestEnterpriseManaged(t *testing.T) {
	const jag = "urn:ietf:params:oauth:token-type:id-jag"
	for name, test := range map[string]struct {
		issued string
		fails  bool
		slash  string // of the issuers in the options
	}{"grant": {jag, false, ""}, "issuers with a slash": {jag, false, "/"}, "something else": {"urn:ietf:params:oauth:token-type:access_token", true, ""}} {
		w, provider := newFixture(t, nil), newFixture(t, nil)
		provider.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
			if r.FormValue("subject_token") != "id-token" || r.FormValue("audience") != w.issuer.URL || r.FormValue("resource") != w.mcp() ||
				r.FormValue("client_id") != "app-at-idp" || r.FormValue("requested_token_type") != jag || r.FormValue("client_secret") != "" {
				t.Errorf("%s: the identity provider is asked for %v", name, r.Form)
			}
			writeJSON(res, map[string]any{"access_token": "the-grant", "issued_token_type": test.issued, "token_type": "N_A"})
		})
		w.replace("issuer/token", func(res http.ResponseWriter, r *http.Request) {
			if id, secret, _ := r.BasicAuth(); id != "app" || secret != "password" || r.FormValue("assertion") != "the-grant" || r.FormValue("resource") != w.mcp() {
				t.Errorf("%s: the authorization server is asked for %v", name, r.Form)
			}
			writeJSON(res, map[string]any{"access_token": "x", "token_type": "Bearer"})
		})
		status, err := w.request(w.client(func(o *oauth.ClientOptions) {
			o.Registrations = []oauth.Registration{{Issuer: w.issuer.URL + test.slash, ClientID: "app", Secret: "password"}}
			o.Flow = &oauth.EnterpriseManaged{
				Issuer: provider.issuer.URL + test.slash, Client: oauth.Registration{ClientID: "app-at-idp"},
				Subject: func(context.Context) (oauth.Secret, error) { return "id-token", nil },
			}
		}))
		if _, typed := errors.AsType[*oauth.AnswerError](err); test.fails != typed || !test.fails && status != http.StatusOK || test.fails && w.count("issuer/token") > 0 {
			t.Errorf("%s: got %d, %v", name, status, err)
		}
	}
}
