package oauth_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
)

const canary = "tweet-7f3a9c"

// printed formats a value in all ways in which it could become visible.
func printed(t *testing.T, value any, verbs ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, verb := range append(verbs, "%v", "%+v", "%#v", "%T", "%10.3v") {
		fmt.Fprintf(&b, verb+"\n", value)
	}
	text, err := json.Marshal(value)
	fmt.Fprintf(&b, "%s %v\n", text, err)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&b, nil), slog.NewJSONHandler(&b, nil)} {
		slog.New(handler).Info("x", "value", value)
	}
	return b.String()
}

// encodings returns the forms in which a secret could become visible.
func encodings(secret string) []string {
	return []string{
		secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), strings.Trim(fmt.Sprintf("%d", []byte(secret)), "[]"), base64.StdEncoding.EncodeToString([]byte("x:" + secret)),
		base64.StdEncoding.EncodeToString([]byte(secret)), strings.Trim(fmt.Sprintf("%#v", []byte(secret)), "[]byte{}"), strings.Trim(fmt.Sprintf("%#x", []byte(secret)), "[]"),
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	memory := oauth.NewMemoryStore()
	if err := memory.Save(t.Context(), "k", canary); err != nil {
		t.Fatal(err)
	}
	file, err := oauth.NewFileStore(t.TempDir()+"/f", []byte(strings.Repeat(canary, 3)))
	if err != nil {
		t.Fatal(err)
	}
	registration := oauth.Registration{ClientID: "x", Secret: canary, Key: ed25519.NewKeyFromSeed([]byte(strings.Repeat(canary, 3)[:ed25519.SeedSize]))}
	proofs := oauth.DPoPOptions{NonceKey: oauth.Secret(strings.Repeat(canary, 3))}
	protect := oauth.ProtectOptions{DPoP: &proofs}
	options := oauth.ClientOptions{Registrations: []oauth.Registration{registration}, Store: memory, Flow: &oauth.EnterpriseManaged{
		Issuer: "https://x.example", Client: registration, Subject: func(context.Context) (oauth.Secret, error) { return canary, nil },
	}}
	client, err := oauth.NewClient(&options)
	if err != nil {
		t.Fatal(err)
	}
	secret := oauth.Secret(canary)
	receiver, err := new(oauth.LoopbackReceiver).Listen(t.Context(), canary, "")
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	clean := func(value any, verbs ...string) {
		output := printed(t, value, verbs...)
		for _, form := range encodings(canary) {
			if strings.Contains(output, form) {
				t.Errorf("%T is printed as\n%s", value, output)
				break
			}
		}
	}
	for _, value := range []any{
		secret, []oauth.Secret{secret}, map[string]oauth.Secret{"k": secret}, struct{ S oauth.Secret }{secret}, [1]any{secret},
		client, memory, file, receiver, struct{ c *oauth.Client }{client},
	} {
		clean(value, "%s", "%q", "%x", "%X", "%d")
	}
	for _, value := range []any{registration, &registration, []oauth.Registration{registration}, proofs, &proofs} {
		clean(value, "%s", "%q", "%x", "%X", "%d")
	}
	for _, value := range []any{
		&secret, options, &options, options.Flow, protect, &protect, oauth.IntrospectionOptions{Client: registration}, struct{ m oauth.TokenStore }{memory},
	} {
		clean(value)
	}
	for _, value := range []any{secret, registration, &registration} {
		if resolved := slog.AnyValue(value).Resolve().Any(); reflect.TypeOf(resolved) == reflect.TypeOf(value) {
			t.Errorf("handlers of logs get a %T", resolved)
		}
	}
	if text := fmt.Sprintf("%+v", registration); !strings.Contains(text, "ClientID:x") || !strings.Contains(text, "Key:[secret]") {
		t.Errorf("a registration is printed as %s", text)
	}
}

// No error and no log record contains a secret, even if a server repeats all that it
// received.
func TestSecretsAreInNoErrorAndNoLog(t *testing.T) {
	var logged bytes.Buffer
	var problems []error
	for _, path := range []string{
		"resource/.well-known/oauth-protected-resource/mcp", "issuer/.well-known/oauth-authorization-server", "issuer/register", "issuer/token", "",
	} {
		for _, status := range []int{200, 302, 400, 401, 500} {
			for _, flow := range []oauth.Flow{nil, &oauth.ClientCredentials{}, &oauth.JWTBearer{Trust: func(string) bool { return true }, Assertion: func(context.Context, string) (oauth.Secret, error) { return canary + ".assertion", nil }}} {
				w := newFixture(t, &oauthtest.Options{Clients: []oauthtest.Client{{ID: "x", Secret: canary, RedirectURIs: []string{"http://127.0.0.1/callback"}}}})
				w.replace(path, echoRequest(status))
				client := w.client(func(o *oauth.ClientOptions) {
					o.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
					if flow != nil {
						o.Flow = flow
					}
					if path != "issuer/register" || flow != nil {
						o.Registrations = []oauth.Registration{{ClientID: "x", Secret: canary}}
					}
				})
				_, err := w.request(client)
				problems = append(problems, err)
				for _, form := range w.forms("issuer/token") {
					for _, name := range []string{"code", "code_verifier", "client_secret", "assertion", "refresh_token"} {
						if secret := form.Get(name); secret != "" && err != nil && strings.Contains(printed(t, err), secret) {
							t.Errorf("%s with %d: the %s is in %v", path, status, name, err)
						}
					}
				}
			}
		}
	}
	text := logged.String() + printed(t, errors.Join(problems...))
	for _, err := range problems {
		for ; err != nil; err = errors.Unwrap(err) {
			text += printed(t, err)
		}
	}
	for _, form := range encodings(canary) {
		if strings.Contains(text, form) {
			at := strings.Index(text, form)
			t.Errorf("…%s…", text[max(0, at-300):min(len(text), at+100)])
		}
	}
}

// echoRequest returns a handler that repeats the request in all parts of its response.
func echoRequest(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, secret, _ := r.BasicAuth()
		told := id + secret + string(body) + r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/"+told)
		w.WriteHeader(status)
		text, _ := json.Marshal(told)
		fmt.Fprintf(w, `{"error":%s,"error_description":%s,"error_uri":%s,"issuer":"x","client_id":7}`, text, text, text)
	}
}

// No value, log record, response or error of the server side contains a secret.
func TestServerTellsNoSecrets(t *testing.T) {
	m, holder, logs := newSigner(t, "k"), newSigner(t, ""), &logBuffer{}
	const password = "canary-password"
	var asked oauth.Verifier
	a := &introspectionServer{}
	asked = introspection(t, a, func(o *oauth.IntrospectionOptions) { o.Client.Secret = password })
	down := introspection(t, http.NotFoundHandler(), func(o *oauth.IntrospectionOptions) { o.Client.Secret = password })
	bound := m.token(t, validClaims(claimSet{"cnf": claimSet{"jkt": holder.thumbprint(t)}}))
	secrets := []string{password, "canary-opaque", bound}
	var told strings.Builder
	show := func(values ...any) {
		for _, v := range values {
			fmt.Fprintf(&told, "%v %+v %#v %s %q\n", v, v, v, v, v)
			text, _ := json.Marshal(v)
			told.Write(text)
			logs.logger().Info("shown", "value", v)
		}
	}
	a.say(activeClaims(claimSet{"cnf": claimSet{"jkt": "x"}}))
	for _, v := range []oauth.Verifier{asked, down, verifier(t, m), failingVerifier{errors.New("it has failed")}} {
		opts := &oauth.ProtectOptions{Resource: testResource, AuthorizationServers: []string{testIssuer}, Verifier: v, Scopes: []string{"other"}, Logger: logs.logger()}
		h, err := oauth.Protect(&recordingHandler{}, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{"canary-opaque", bound, bound + "x"} {
			proof := holder.proof(t, validProof(token, nil))
			secrets = append(secrets, proof)
			for _, header := range []http.Header{bearer(token), withProof(token, proof), withProof(token, proof, proof), withProof(token, "x"+proof)} {
				res := do(h, "POST", "/mcp?access_token="+token, header, "{}")
				told.WriteString(bodyOf(t, res))
				fmt.Fprintln(&told, res.Header)
			}
			grant, err := v.Verify(t.Context(), oauth.Secret(token), testResource)
			show(grant, err)
		}
		show(v, h, *opts)
	}
	show(oauth.IntrospectionOptions{Client: oauth.Registration{ClientID: "x", Secret: password}}, oauth.Secret(password))
	for _, secret := range secrets {
		for name, text := range map[string]string{"what is told": told.String(), "the log": logs.String()} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s has %.20s…: %s", name, secret, text[max(0, at-100):at])
			}
		}
	}
	if !strings.Contains(told.String(), "[secret]") || logs.String() == "" {
		t.Error("nothing was told at all")
	}
}
