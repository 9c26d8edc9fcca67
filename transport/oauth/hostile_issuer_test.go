package oauth_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

// Metadata must name its issuer byte for byte, except for one slash at the end.
func TestMetadataOfAnotherIssuer(t *testing.T) {
	w := newFixture(t, nil)
	client := w.client(nil)
	for _, issuer := range []any{"", nil, "https://evil.example", w.issuer.URL + "//", w.issuer.URL + "/.", w.issuer.URL + "/?", strings.ToUpper(w.issuer.URL), w.issuer.URL + "/x", w.issuer.URL + "#", strings.Replace(w.issuer.URL, "127.0.0.1", "localhost", 1), w.resource.URL} {
		w.editMetadata = func(metadata map[string]any) { metadata["issuer"] = issuer }
		_, err := w.request(client)
		wrong, ok := errors.AsType[*oauth.IssuerError](err)
		if _, typed := errors.AsType[*oauth.MetadataError](err); !ok || !typed || wrong.Expected != w.issuer.URL {
			t.Errorf("%v: got %v", issuer, err)
		}
	}
	if len(w.opened) > 0 || w.count("issuer/register") > 0 {
		t.Errorf("the login went on: %v", w.requests)
	}
}

// A redirect to another origin is not followed, neither for the metadata of an issuer nor
// of a resource.
func TestMetadataThatIsElsewhere(t *testing.T) {
	for _, path := range []string{"issuer/.well-known/oauth-authorization-server", "resource/.well-known/oauth-protected-resource/mcp"} {
		w, evil := newFixture(t, nil), newFixture(t, nil)
		w.replace(path, func(res http.ResponseWriter, r *http.Request) {
			http.Redirect(res, r, evil.issuer.URL+"/copy", http.StatusFound)
		})
		evil.replace("issuer/copy", func(res http.ResponseWriter, _ *http.Request) {
			writeJSON(res, map[string]any{
				"issuer": w.issuer.URL, "authorization_endpoint": evil.issuer.URL + "/authorize", "token_endpoint": evil.issuer.URL + "/token", "registration_endpoint": evil.issuer.URL + "/register",
				"code_challenge_methods_supported": []string{"S256"}, "resource": w.mcp(), "authorization_servers": []string{evil.issuer.URL},
			})
		})
		_, err := w.request(w.client(nil))
		if !is[*oauth.MetadataError](err) || !is[*oauth.URLError](err) || len(evil.requests) > 0 || len(w.opened) > 0 {
			t.Errorf("%s: got %v, and %v", path, err, evil.requests)
		}
	}
}

// An issuer that does not declare PKCE with S256 is refused.
func TestIssuerWithoutPKCE(t *testing.T) {
	w := newFixture(t, nil)
	client := w.client(nil)
	for _, methods := range []any{nil, []string{}, []string{"plain"}, []string{"s256"}} {
		w.editMetadata = func(metadata map[string]any) { metadata["code_challenge_methods_supported"] = methods }
		_, err := w.request(client)
		if _, ok := errors.AsType[*oauth.MetadataError](err); !ok {
			t.Errorf("%v: got %v", methods, err)
		}
	}
	if len(w.opened) > 0 || w.count("issuer/register") > 0 {
		t.Errorf("the login went on: %v", w.requests)
	}
}

// The issuer in a response is compared byte for byte, before the error is read and before
// the code is sent. RFC 9207, section 2.4.
func TestIssuerOfTheAnswer(t *testing.T) {
	for _, advertised := range []bool{true, false} {
		for name, change := range map[string]func(w *fixture, answer url.Values){
			"another":      func(_ *fixture, a url.Values) { a.Set("iss", "https://evil.example") },
			"with a slash": func(w *fixture, a url.Values) { a.Set("iss", w.issuer.URL+"/") },
			"in capitals":  func(w *fixture, a url.Values) { a.Set("iss", strings.ToUpper(w.issuer.URL)) },
			"empty":        func(_ *fixture, a url.Values) { a.Set("iss", "") },
			"missing":      func(_ *fixture, a url.Values) { a.Del("iss") },
			"another's error": func(_ *fixture, a url.Values) {
				a.Set("iss", "https://evil.example")
				a.Del("code")
				a.Set("error", "call the-canary")
			},
			"another, escaped": func(w *fixture, a url.Values) { a.Set("iss", strings.Replace(w.issuer.URL, "127", "%31%32%37", 1)) },
		} {
			w := newFixture(t, nil)
			w.editMetadata = func(metadata map[string]any) { metadata["authorization_response_iss_parameter_supported"] = advertised }
			w.callback = func(answer url.Values) { change(w, answer) }
			status, err := w.request(w.client(nil))
			if name == "missing" && !advertised {
				if err != nil || status != http.StatusOK {
					t.Errorf("%s: got %d, %v", name, status, err)
				}
				continue
			}
			wrong, ok := errors.AsType[*oauth.IssuerError](err)
			if !ok || wrong.Expected != w.issuer.URL || w.count("issuer/token") > 0 || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: got %v, and %d requests of a token", name, err, w.count("issuer/token"))
			}
		}
	}
}

// A mix-up attack: the evil server opens the honest server's login to receive its code.
// RFC 9700, section 4.4.
func TestMixUp(t *testing.T) {
	honest := newFixture(t, nil)
	evil := newFixture(t, nil)
	evil.editMetadata = func(metadata map[string]any) {
		metadata["authorization_endpoint"] = honest.issuer.URL + "/authorize"
		metadata["registration_endpoint"] = honest.issuer.URL + "/register"
	}
	_, err := evil.request(evil.client(nil))
	wrong, ok := errors.AsType[*oauth.IssuerError](err)
	if !ok || wrong.Expected != evil.issuer.URL || wrong.Got != honest.issuer.URL {
		t.Errorf("got %v", err)
	}
	if evil.count("issuer/token") > 0 || honest.count("issuer/token") > 0 {
		t.Error("the code was sent")
	}
}

// When a resource changes its authorization server, no secret of the old one is sent to
// the new one.
func TestIssuerThatChanges(t *testing.T) {
	for name, given := range map[string]*oauth.Registration{"registered": nil, "given": {ClientID: "known", Secret: "old-password"}} {
		known := &oauthtest.Options{}
		if given != nil {
			known.Clients = []oauthtest.Client{{ID: "known", Secret: "old-password", RedirectURIs: []string{"http://127.0.0.1/callback"}}}
		}
		w, next := newFixture(t, known), newFixture(t, nil)
		client := w.client(func(o *oauth.ClientOptions) {
			if given != nil {
				o.Registrations = []oauth.Registration{*given}
			}
		})
		w.mustSucceed(client)
		w.mustSucceed(client)
		_, old, _ := strings.Cut(w.tokens[0], " ")
		w.refused[old] = true
		w.metadata["authorization_servers"] = []string{next.issuer.URL}
		status, err := w.request(client)
		if given != nil {
			if wrong, ok := errors.AsType[*oauth.IssuerError](err); !ok || wrong.Expected != w.issuer.URL || wrong.Got != next.issuer.URL {
				t.Errorf("%s: got %v", name, err)
			}
		} else if err != nil || status != http.StatusOK {
			t.Errorf("%s: got %d, %v", name, status, err)
		}
		all := strings.Join(next.requests, "\n")
		for _, form := range w.forms("issuer/token") {
			for _, secret := range []string{form.Get("client_id"), form.Get("refresh_token"), "old-password", old} {
				if secret != "" && strings.Contains(all, secret) {
					t.Errorf("%s: the new server sees %q", name, secret)
				}
			}
		}
	}
}

// A response with the state of another request is refused.
func TestAnswersThatAreReplayed(t *testing.T) {
	w := newFixture(t, nil)
	var first url.Values
	w.callback = func(answer url.Values) { first = answer }
	client := w.client(func(o *oauth.ClientOptions) {
		o.Flow = &oauth.CodeFlow{Open: w.browse, Timeout: 50 * time.Millisecond}
	})
	w.mustSucceed(w.client(nil))
	tokens := w.count("issuer/token")
	for name, change := range map[string]func(url.Values){
		"replayed": func(a url.Values) {
			clear(a)
			maps.Copy(a, first)
		},
		"no state":  func(a url.Values) { a.Del("state") },
		"two":       func(a url.Values) { a["state"] = append(a["state"], a["state"]...) },
		"empty":     func(a url.Values) { a.Set("state", "") },
		"prefix of": func(a url.Values) { a.Set("state", a.Get("state")[:20]) },
	} {
		w.callback = change
		if _, err := w.request(client); err == nil || w.count("issuer/token") != tokens {
			t.Errorf("%s: got %v, and %d tokens", name, err, w.count("issuer/token")-tokens)
		}
	}
}

// A fakeReceiver is a Receiver with made-up responses.
type fakeReceiver func(state string) url.Values

func (a fakeReceiver) Listen(_ context.Context, state, _ string) (oauth.CallbackListener, error) {
	return fakeListener{a(state)}, nil
}

type fakeListener struct{ query url.Values }

func (fakeListener) RedirectURI() string                        { return "http://127.0.0.1:1/callback" }
func (a fakeListener) Wait(context.Context) (url.Values, error) { return a.query, nil }
func (fakeListener) Close() error                               { return nil }

// The client checks the state itself, whatever the receiver did.
func TestAnswersOfAnyReceiver(t *testing.T) {
	w := newFixture(t, nil)
	try := func(answer fakeReceiver) error {
		_, err := w.request(w.client(func(o *oauth.ClientOptions) {
			o.Flow = &oauth.CodeFlow{Receiver: answer, Open: func(context.Context, string) error { return nil }}
		}))
		return err
	}
	for name, answer := range map[string]fakeReceiver{
		"none":       func(string) url.Values { return nil },
		"another":    func(string) url.Values { return url.Values{"state": {"x"}, "code": {"x"}, "iss": {w.issuer.URL}} },
		"two states": func(s string) url.Values { return url.Values{"state": {s, "x"}, "code": {"x"}, "iss": {w.issuer.URL}} },
		"two codes":  func(s string) url.Values { return url.Values{"state": {s}, "code": {"x", "y"}, "iss": {w.issuer.URL}} },
		"two issuers": func(s string) url.Values {
			return url.Values{"state": {s}, "code": {"x"}, "iss": {w.issuer.URL, "https://evil.example"}}
		},
	} {
		if _, ok := errors.AsType[*oauth.StateError](try(answer)); !ok {
			t.Errorf("%s: got %v", name, try(answer))
		}
	}
	for name, answer := range map[string]fakeReceiver{
		"no code": func(s string) url.Values { return url.Values{"state": {s}, "iss": {w.issuer.URL}} },
		"refused": func(s string) url.Values {
			return url.Values{"state": {s}, "iss": {w.issuer.URL}, "error": {"access_denied"}, "error_description": {strings.Repeat("no\n", 1000)}}
		},
	} {
		refused, ok := errors.AsType[*oauth.Error](try(answer))
		if !ok || len(refused.Description) > 256 || strings.Contains(refused.Error(), "\n") {
			t.Errorf("%s: got %v", name, refused)
		}
	}
	if w.count("issuer/token") > 0 {
		t.Error("a token was asked for")
	}
}

// The client follows no redirect of the token endpoint and refuses malformed responses.
func TestAnswersOfTheTokenEndpoint(t *testing.T) {
	for name, by := range map[string]http.HandlerFunc{
		"redirect 307": func(res http.ResponseWriter, r *http.Request) {
			http.Redirect(res, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"redirect 302": func(res http.ResponseWriter, r *http.Request) {
			http.Redirect(res, r, "http://localhost:1/", http.StatusFound)
		},
		"garbage":        respondJSON(`{"access_token`),
		"page":           func(res http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(res, "<html>") },
		"no token":       respondJSON(`{"token_type":"Bearer"}`),
		"other type":     respondJSON(`{"access_token":"x","token_type":"MAC"}`),
		"line break":     respondJSON(`{"access_token":"x\r\nX-Evil: 1","token_type":"Bearer"}`),
		"too long":       respondJSON(`{"token_type":"Bearer","access_token":"` + strings.Repeat("x", 100_000) + `"}`),
		"much too long":  respondJSON(`{"token_type":"Bearer","access_token":"` + strings.Repeat("x", 2<<20) + `"}`),
		"number":         respondJSON(`{"access_token":7,"token_type":"Bearer"}`),
		"no status":      func(res http.ResponseWriter, _ *http.Request) { res.WriteHeader(http.StatusTeapot) },
		"silence":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"error and more": respondJSON(`{"error":"invalid_grant","access_token":"x","token_type":"Bearer"}`),
	} {
		w := newFixture(t, nil)
		w.issuer.Config.ErrorLog = nil
		w.replace("issuer/token", by)
		status, err := w.request(w.client(nil))
		if err == nil || len(w.tokens) > 0 || w.count("issuer/elsewhere") > 0 || len(err.Error()) > 1000 {
			t.Errorf("%s: got %d, %.300v", name, status, err)
		}
		typed := false
		for _, is := range []bool{is[*oauth.AnswerError](err), is[*oauth.Error](err), is[*oauth.URLError](err), is[*netguard.SizeError](err), errors.Is(err, io.EOF)} {
			typed = typed || is
		}
		if !typed {
			t.Errorf("%s: got %T: %v", name, err, err)
		}
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func TestAnswersOfTheRegistrationEndpoint(t *testing.T) {
	for name, by := range map[string]http.HandlerFunc{
		"garbage":      respondJSON(`{`),
		"no client":    respondJSON(`{}`),
		"number":       respondJSON(`{"client_id":7}`),
		"other method": respondJSON(`{"client_id":"x","token_endpoint_auth_method":"tls_client_auth"}`),
		"no secret":    respondJSON(`{"client_id":"x","token_endpoint_auth_method":"client_secret_basic"}`),
		"refused": func(res http.ResponseWriter, _ *http.Request) {
			res.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(res, `{"error":"invalid_redirect_uri","error_description":"`+strings.Repeat("x", 1000)+`"}`)
		},
		"elsewhere": func(res http.ResponseWriter, r *http.Request) {
			http.Redirect(res, r, "/token", http.StatusTemporaryRedirect)
		},
		"too long": respondJSON(`{"client_id":"` + strings.Repeat("x", 2<<20) + `"}`),
	} {
		w := newFixture(t, nil)
		w.replace("issuer/register", by)
		_, err := w.request(w.client(nil))
		if !is[*oauth.RegistrationError](err) || len(w.opened) > 0 || w.count("issuer/token") > 0 || len(err.Error()) > 1000 {
			t.Errorf("%s: got %.300v", name, err)
		}
	}
}
