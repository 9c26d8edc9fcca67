package oauth_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

var updateLogins = flag.Bool("update-logins", false, "write what the clients of DOVETAIL_TEST_LOGINS do into testdata/logins.md")

const loginsTable = "testdata/logins.md"

// login lets our client log in at a site and send a request.
func (s *loginSite) login(t *testing.T, change func(*oauth.ClientOptions)) error {
	w := &fixture{t: t}
	client := w.client(change)
	status, err := w.requestAt(client, s.resource.URL+"/mcp")
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("status %d", status)
	}
	return err
}

// A login succeeds in each variant, or is refused for the reason that the table names.
func TestLoginVariants(t *testing.T) {
	rows := readLogins(t)
	variants := loginVariants()
	if len(rows) != len(variants) {
		t.Errorf("the table has %d rows for %d variants", len(rows), len(variants))
	}
	names := make(map[string]bool)
	for _, v := range variants {
		if names[v.name] {
			t.Errorf("two variants are named %q", v.name)
		}
		names[v.name] = true
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := newLoginSite(t, &v)
			err := s.login(t, nil)
			if s.outcome() != (v.refused == "") || (err == nil) != (v.refused == "") {
				t.Errorf("the login gives %v, want it refused: %q; the authorization server says %q", err, v.refused, s.problem)
			}
			row, ok := rows[v.name]
			if !ok || row.reason != v.refused {
				t.Errorf("the table has another reason than %q: %q; run .ci/interop-logins -update", v.refused, row.reason)
			}
			if row.rivals >= 2 && v.refused != "" && !strings.HasPrefix(v.refused, "security") {
				t.Errorf("%d other clients accept it, and no security rule forbids it: %s", row.rivals, v.refused)
			}
		})
	}
}

// Options accept the variants that the documentation names for Microsoft Entra ID.
func TestLoginOptions(t *testing.T) {
	for name, c := range map[string]struct {
		variant loginVariant
		change  func(*oauth.ClientOptions)
		works   bool
	}{
		"NoResource": {loginVariant{noResource: true}, func(o *oauth.ClientOptions) { o.NoResource = true }, true},
		"AssumePKCE": {loginVariant{answers: answering(issuerOAuth, issuerDoc("ISSUER", "ISSUER", "code_challenge_methods_supported", ""))}, func(o *oauth.ClientOptions) { o.AssumePKCE = true }, true},
		"AssumePKCE with plain": {
			loginVariant{answers: answering(issuerOAuth, issuerDoc("ISSUER", "ISSUER", "code_challenge_methods_supported", `["plain"]`))},
			func(o *oauth.ClientOptions) { o.AssumePKCE = true }, false,
		},
		"a public client where none is not listed": {
			loginVariant{answers: answering(issuerOAuth, issuerDoc("ISSUER", "ISSUER", "registration_endpoint", "", "token_endpoint_auth_methods_supported", `["client_secret_post","private_key_jwt"]`))},
			func(o *oauth.ClientOptions) { o.Registrations = []oauth.Registration{{ClientID: "app"}} }, true,
		},
		"a secret where no method is listed": {
			loginVariant{secret: "s", answers: answering(issuerOAuth, issuerDoc("ISSUER", "ISSUER", "registration_endpoint", "", "token_endpoint_auth_methods_supported", `["private_key_jwt"]`))},
			func(o *oauth.ClientOptions) { o.Registrations = []oauth.Registration{{ClientID: "app", Secret: "s"}} }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLoginSite(t, &c.variant)
			if err := s.login(t, c.change); (err == nil) != c.works {
				t.Errorf("the login gives %v; the authorization server says %q", err, s.problem)
			}
		})
	}
}

// A registration for an issuer is used whether or not its spelling has the slash of the metadata.
func TestRegistrationForIssuerWithSlash(t *testing.T) {
	for _, option := range []string{"ISSUER", "ISSUER/", "ISSUER//", "ISSUER/x"} {
		for _, own := range []string{"ISSUER", "ISSUER/"} {
			s := newLoginSite(t, &loginVariant{secret: "s", answers: answering(issuerOAuth, issuerDoc(own, "ISSUER", "registration_endpoint", ""))})
			err := s.login(t, func(o *oauth.ClientOptions) {
				o.Registrations = []oauth.Registration{{Issuer: s.expand(option), ClientID: "app", Secret: "s"}}
			})
			if works := option == "ISSUER" || option == "ISSUER/"; (err == nil) != works {
				t.Errorf("%s, metadata %s: %v", option, own, err)
			}
		}
	}
}

// A login whose token has no usable expiry does not refresh the token with each request.
func TestTokensWithoutUsableExpiry(t *testing.T) {
	for _, life := range []string{"-1", "0", "0.0", "null", `"never"`, "-3600.5", "3600.5"} {
		s := newLoginSite(t, &loginVariant{answers: answering("token", `{"access_token":"TOKEN","token_type":"Bearer","refresh_token":"r","expires_in":`+life+`}`)})
		w := &fixture{t: t}
		client := w.client(nil)
		for range 3 {
			if status, err := w.requestAt(client, s.resource.URL+"/mcp"); err != nil || status/100 != 2 {
				t.Errorf("%s: %d, %v", life, status, err)
			}
		}
		if len(w.opened) != 1 {
			t.Errorf("%s: %d logins", life, len(w.opened))
		}
	}
}

// A loginRow is a row of the table.
type loginRow struct {
	rivals int // how many others accept it
	reason string
}

func readLogins(t *testing.T) map[string]loginRow {
	t.Helper()
	text, err := os.ReadFile(loginsTable)
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]loginRow)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 6 || cells[0] == "variant" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		rows[cells[0]] = loginRow{strings.Count(strings.Join(cells[2:5], " "), "yes"), cells[5]}
	}
	return rows
}

// TestLoginsOfOthers lets other clients log in, and compares what they do with the table. The clients are in
// DOVETAIL_TEST_LOGINS, one command per line, in the order of the columns of the table. A command reads lines
// with a URL each, and logs in at each with dynamic registration. It runs in .ci/interop-logins.
func TestLoginsOfOthers(t *testing.T) {
	commands := strings.Split(strings.TrimSpace(os.Getenv("DOVETAIL_TEST_LOGINS")), "\n")
	if commands[0] == "" {
		t.Skip("DOVETAIL_TEST_LOGINS has no commands")
	}
	variants := loginVariants()
	outcomes := make([][]bool, len(commands))
	for i, command := range commands {
		sites := make([]*loginSite, len(variants))
		var urls strings.Builder
		for j := range variants {
			sites[j] = newLoginSite(t, &variants[j])
			fmt.Fprintln(&urls, sites[j].resource.URL+"/mcp")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		words := strings.Fields(command)
		program := exec.CommandContext(ctx, words[0], words[1:]...)
		program.Stdin = strings.NewReader(urls.String())
		program.Stderr = os.Stderr
		program.Stdout = io.Discard
		err := program.Run()
		cancel()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		for _, s := range sites {
			outcomes[i] = append(outcomes[i], s.outcome())
			s.resource.Close()
			s.issuer.Close()
		}
	}
	var table bytes.Buffer
	fmt.Fprintf(&table, `# Logins

Variants of servers and authorization servers (see logins_variants_test.go), and whether a client can log in there and send a request with
the token. TestLoginVariants tests the column Dovetail. The script .ci/interop-logins runs the other clients and compares them with this
table; with -update it writes the table. "refused" says why Dovetail refuses a variant.

| variant | Dovetail | TypeScript 1.x | TypeScript 2.x | go-sdk | refused |
|---|---|---|---|---|---|
`)
	word := map[bool]string{true: "yes", false: "no"}
	for j, v := range variants {
		cells := []string{v.name, word[v.refused == ""]}
		for i := range commands {
			cells = append(cells, word[outcomes[i][j]])
		}
		fmt.Fprintf(&table, "| %s | %s |\n", strings.Join(cells, " | "), v.refused)
	}
	if *updateLogins {
		if err := os.WriteFile(loginsTable, table.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(loginsTable)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, table.Bytes()) {
		t.Errorf("the clients do something else than the table says; .ci/interop-logins -update writes it. They do:\n%s", &table)
	}
}

// SavedTokens uses and refreshes tokens that another client has saved, also later, and asks nobody else.
func TestSavedTokens(t *testing.T) {
	w, later, timed := newHourlyFixture(t)
	kept := newStore()
	service := w.client(func(o *oauth.ClientOptions) {
		timed(o)
		o.Store, o.Flow = kept, &oauth.SavedTokens{}
	})
	for range 2 {
		if _, err := w.request(service); !errors.Is(err, oauth.ErrLoginRequired) {
			t.Errorf("without a token: %v", err)
		}
	}
	if requests := strings.Join(w.requests, "\n"); strings.Contains(requests, "well-known") || strings.Contains(requests, "issuer") {
		t.Errorf("without a token, the requests are %s", requests)
	}
	w.mustSucceed(w.client(func(o *oauth.ClientOptions) {
		timed(o)
		o.Store = kept
	}))
	w.mustSucceed(service)
	later()
	w.mustSucceed(service)
	for key := range kept.values { // as after a login with a registration that this program does not have
		if strings.HasPrefix(key, "client of ") {
			delete(kept.values, key)
		}
	}
	later()
	w.mustSucceed(service)
	if len(w.opened) != 1 || w.count("issuer/token") != 3 || w.count("issuer/register") != 1 {
		t.Errorf("%d logins, %d tokens, %d registrations", len(w.opened), w.count("issuer/token"), w.count("issuer/register"))
	}
	w.as.Revoke()
	later()
	if _, err := w.request(service); !errors.Is(err, oauth.ErrLoginRequired) || len(w.opened) != 1 {
		t.Errorf("after the refresh token was revoked: %v, %d logins", err, len(w.opened))
	}
}

// A receiver with a port listens there or nowhere.
func TestLoopbackReceiverWithPort(t *testing.T) {
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	receiver := &oauth.LoopbackReceiver{Port: uint16(port)}
	if _, err := receiver.Listen(t.Context(), "state", "http://127.0.0.1:1/callback"); err == nil {
		t.Error("listens at a port that is not free")
	}
	free.Close()
	listener, err := receiver.Listen(t.Context(), "state", "http://127.0.0.1:1/callback")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if want := fmt.Sprintf("http://127.0.0.1:%d/callback", port); listener.RedirectURI() != want {
		t.Errorf("the redirect URI is %s, want %s", listener.RedirectURI(), want)
	}
}
