package oauth_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// Nothing that a server keeps, logs, answers or fails with tells a secret.
func TestServerTellsNoSecrets(t *testing.T) {
	m, holder, logs := newMint(t, "k"), newMint(t, ""), &logbook{}
	const password = "canary-password"
	var asked oauth.Verifier
	a := &answers{}
	asked = introspection(t, a, func(o *oauth.IntrospectionOptions) { o.Client.Secret = password })
	down := introspection(t, http.NotFoundHandler(), func(o *oauth.IntrospectionOptions) { o.Client.Secret = password })
	bound := m.token(t, usual(said{"cnf": said{"jkt": holder.thumbprint(t)}}))
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
	a.say(active(said{"cnf": said{"jkt": "x"}}))
	for _, v := range []oauth.Verifier{asked, down, verifier(t, m), failing{errors.New("it has failed")}} {
		opts := &oauth.ProtectOptions{Resource: testResource, AuthorizationServers: []string{testIssuer}, Verifier: v, Scopes: []string{"other"}, Logger: logs.logger()}
		h, err := oauth.Protect(&visits{}, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{"canary-opaque", bound, bound + "x"} {
			proof := holder.proof(t, proves(token, nil))
			secrets = append(secrets, proof)
			for _, header := range []http.Header{bearer(token), withProof(token, proof), withProof(token, proof, proof), withProof(token, "x"+proof)} {
				res := ask(h, "POST", "/mcp?access_token="+token, header, "{}")
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
