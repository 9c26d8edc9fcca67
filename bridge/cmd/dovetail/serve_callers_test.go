package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// An issuer signs tokens for the audience shop.
type issuer struct{ *oauthtest.Server }

func newIssuer(t *testing.T) issuer {
	t.Helper()
	s, err := oauthtest.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return issuer{s}
}

// token returns a token with claims that replace the usual ones. A claim with the value nil is left out.
func (s issuer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	now := time.Now().Unix()
	all := map[string]any{"iss": s.URL, "aud": "shop", "sub": "ada", "client_id": "claude", "iat": now, "exp": now + 600, "jti": "1"}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	token, err := s.Sign(all)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// newKey returns the key and the entry that dovetail key prints.
func newKey(t *testing.T, line ...string) (key, entry string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), append([]string{"key"}, line...), strings.NewReader(""), &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(stdout.String()), stderr.String()
}

func keysOf(entries ...string) string { return `{"keys": [` + strings.Join(entries, ",") + `]}` }

// opsPolicy allows to put, and denies the rest.
const opsPolicy = `{"rules": [{"effect": "allow", "names": ["put"]}]}`

// TestCallersHaveRoles: each caller, by a token or a key and by every way to call, gets the policy of the first of its roles that has
// one, and the log has the caller's name and roles.
func TestCallersHaveRoles(t *testing.T) {
	login := newIssuer(t)
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ci, ciEntry := newKey(t, "-role", "ops", "ci")
	guest, guestEntry := newKey(t, "guest")
	p := start(t, "-issuer", login.URL, "-audience", "shop", "-keys", write("keys.json", keysOf(ciEntry, guestEntry)),
		"-role-policy", "auditors="+write("auditors.json", `{"rules": [{"effect": "deny", "reason": "auditors call nothing"}]}`),
		"-role-policy", "ops="+write("ops.json", opsPolicy), "-approve", "none")
	for name, caller := range map[string]struct {
		token, principal string
		allowed          string
	}{
		"a person with a role":              {login.token(t, map[string]any{"roles": []string{"ops"}}), "ada roles=ops ", "put"},
		"a person with a role as text":      {login.token(t, map[string]any{"sub": "eve", "roles": "ops"}), "eve roles=ops ", "put"},
		"a person with two policies":        {login.token(t, map[string]any{"sub": "kim", "roles": []string{"ops", "auditors"}}), "kim roles=auditors,ops ", ""},
		"a person with another role":        {login.token(t, map[string]any{"sub": "bob", "roles": []string{"reader"}}), "bob roles=reader ", "look"},
		"a person without a role":           {login.token(t, map[string]any{"sub": "joe"}), `joe roles="" `, "look"},
		"a key with a role":                 {ci, "key:ci roles=ops ", "put"},
		"a key without a role":              {guest, `key:guest roles="" `, "look"},
		"a person with the name of a key":   {login.token(t, map[string]any{"sub": "ci"}), `ci roles="" `, "look"},
		"a person with roles that are null": {login.token(t, map[string]any{"sub": "max", "roles": json.RawMessage("null")}), `max roles="" `, "look"},
	} {
		p.token = caller.token
		for _, face := range p.frontends(t) {
			for _, tool := range []string{"look", "put", "drop"} {
				file := p.path(fmt.Sprintf("%x %s %s", caller.principal, strings.ReplaceAll(face.name, ",", ""), tool))
				answer, err := face.call(t.Context(), tool, encoded(t, line{Path: file, Text: "x"}))
				_, missing := os.Stat(file)
				if called := missing == nil; called != (tool == caller.allowed) || (err == nil) != called {
					t.Errorf("%s, %s: %s was called %t: %s %v", name, face.name, tool, called, answer, err)
				}
			}
		}
		if !strings.Contains(p.said.String(), "principal="+caller.principal) {
			t.Errorf("%s: the log has no principal %s", name, caller.principal)
		}
	}
	if strings.Contains(p.said.String(), ci) {
		t.Error("the output has a key")
	}
}

// TestCallersWithoutIdentity: a token that is not valid, or does not say who calls, is refused at every path, and challenges name the
// issuer.
func TestCallersWithoutIdentity(t *testing.T) {
	login, other := newIssuer(t), newIssuer(t)
	p := start(t, "-issuer", login.URL+"/", "-audience", "shop", "-roles-claim", "/realm/roles", "-name-claim", "email", "-approve", "none",
		"-scopes", "openid offline_access")
	named := func(claims map[string]any) map[string]any {
		all := map[string]any{"email": "ada@example.com", "realm": map[string]any{"roles": []string{"ops"}}}
		maps.Copy(all, claims)
		return all
	}
	key, _ := newKey(t, "ci")
	var many []string
	for i := range maxCallerRoles + 1 {
		many = append(many, fmt.Sprint("role", i))
	}
	for name, test := range map[string]struct {
		token string
		want  int
	}{
		"a valid token":                  {login.token(t, named(nil)), http.StatusOK},
		"no token":                       {"", http.StatusUnauthorized},
		"a key without a file of keys":   {key, http.StatusUnauthorized},
		"another audience":               {login.token(t, named(map[string]any{"aud": "bank"})), http.StatusUnauthorized},
		"another issuer":                 {other.token(t, named(nil)), http.StatusUnauthorized},
		"an expired token":               {login.token(t, named(map[string]any{"exp": time.Now().Unix() - 600})), http.StatusUnauthorized},
		"no name":                        {login.token(t, named(map[string]any{"email": nil})), http.StatusForbidden},
		"an empty name":                  {login.token(t, named(map[string]any{"email": ""})), http.StatusForbidden},
		"two names":                      {login.token(t, named(map[string]any{"email": []string{"a", "b"}})), http.StatusForbidden},
		"a number as name":               {login.token(t, named(map[string]any{"email": 7})), http.StatusForbidden},
		"a name in two lines":            {login.token(t, named(map[string]any{"email": "ada\nprincipal=root"})), http.StatusForbidden},
		"the name of an operator":        {login.token(t, named(map[string]any{"email": "console:operator"})), http.StatusForbidden},
		"the name of a key":              {login.token(t, named(map[string]any{"email": "key:ci"})), http.StatusForbidden},
		"a long name":                    {login.token(t, named(map[string]any{"email": strings.Repeat("a", maxCallerName+1)})), http.StatusForbidden},
		"roles of another type":          {login.token(t, named(map[string]any{"realm": map[string]any{"roles": []any{"ops", 7}}})), http.StatusForbidden},
		"roles that are an object":       {login.token(t, named(map[string]any{"realm": map[string]any{"roles": map[string]any{}}})), http.StatusForbidden},
		"too many roles":                 {login.token(t, named(map[string]any{"realm": map[string]any{"roles": many}})), http.StatusForbidden},
		"no roles":                       {login.token(t, named(map[string]any{"realm": nil})), http.StatusOK},
		"a token that is no JWT at all.": {"abcdefghijklmnopqrstuvwxyz", http.StatusUnauthorized},
	} {
		for _, path := range []string{"/metrics", "/states", "/api/v1/rest/tools", "/api/v1/mcp/proxy/servers"} {
			if status, answer, err := p.do(t.Context(), test.token, http.MethodGet, path, ""); err != nil || status != test.want {
				t.Errorf("%s: %s: the status is %d, want %d: %s %v", name, path, status, test.want, answer, err)
			}
		}
		for _, path := range []string{"/mcp", "/run", "/api/v1/rest/tools/call"} {
			status, answer, err := p.do(t.Context(), test.token, http.MethodPost, path, `{}`)
			if refused := status == http.StatusUnauthorized || status == http.StatusForbidden; err != nil || refused != (test.want != http.StatusOK) {
				t.Errorf("%s: %s: the status is %d: %s %v", name, path, status, answer, err)
			}
		}
	}
	status, metadata, err := p.do(t.Context(), "", http.MethodGet, "/.well-known/oauth-protected-resource", "")
	if err != nil || status != http.StatusOK || !strings.Contains(string(metadata), login.URL) || !strings.Contains(string(metadata), `"scopes_supported":["openid","offline_access"]`) {
		t.Errorf("the metadata of the resource: %d %s %v", status, metadata, err)
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if status, _, err := p.do(t.Context(), "", http.MethodGet, path, ""); err != nil || status == http.StatusUnauthorized {
			t.Errorf("%s: %d %v", path, status, err)
		}
	}
}

// TestCallersLogIn: a client that knows only the address finds the issuer, logs in and calls.
func TestCallersLogIn(t *testing.T) {
	login := newIssuer(t)
	p := start(t, "-issuer", login.URL, "-approve", "none")
	authorizer, err := oauth.NewClient(&oauth.ClientOptions{AllowLoopback: true, Flow: &oauth.CodeFlow{Open: oauthtest.Browse}})
	if err != nil {
		t.Fatal(err)
	}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session, err := client.Connect(t.Context(), streamable.Dial("http://"+p.address+"/mcp", &streamable.DialOptions{Authorizer: authorizer}), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		result, err := session.CallTool(t.Context(), "shelf__look", line{Path: p.path("seen"), Text: "x"}, nil)
		if err != nil || result.IsError {
			t.Errorf("the result is %+v %v", result, err)
		}
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestKeysAreReadAgain: a key that is removed from the file is no longer valid, one that is added is, and a file that is not valid
// changes nothing.
func TestKeysAreReadAgain(t *testing.T) {
	first, firstEntry := newKey(t, "-expires", "1h", "first")
	second, secondEntry := newKey(t, "second")
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(keysOf(firstEntry))
	p := start(t, "-keys", path)
	check := func(want map[string]int) {
		t.Helper()
		for key, want := range want {
			if status, _, err := p.do(t.Context(), key, http.MethodGet, "/states", ""); err != nil || status != want {
				t.Errorf("the status is %d, want %d: %v", status, want, err)
			}
		}
	}
	check(map[string]int{first: http.StatusOK, second: http.StatusUnauthorized})
	write(keysOf(firstEntry, `{"name": "third"}`))
	p.said.await(t, "the new API keys are not valid")
	check(map[string]int{first: http.StatusOK, second: http.StatusUnauthorized})
	write(keysOf(secondEntry))
	p.said.await(t, "the new API keys are valid")
	check(map[string]int{first: http.StatusUnauthorized, second: http.StatusOK})
}

// TestFilesOfKeys: mistakes are found when the file is read.
func TestFilesOfKeys(t *testing.T) {
	_, entry := newKey(t, "-role", "a", "-role", "b", "-role", "a", "ci")
	_, other := newKey(t, "-role", "b", "-role", "a", "ci")
	_, roles, err := parseKeys([]byte(keysOf(entry, other)))
	if err != nil || !slices.Equal(roles["ci"], []string{"a", "b"}) {
		t.Errorf("the roles are %q, %v", roles, err)
	}
	_, without := newKey(t, "ci")
	_, third := newKey(t, "build")
	for text, want := range map[string]string{
		``: `expected {"keys"`, `[]`: `expected {"keys"`, keysOf() + "{}": `expected {"keys"`, `{"key": []}`: "unknown", keysOf(entry, without): `entry 2: another key of "ci" has other roles`,
		`{"keys": [{"name": "ci", "hash": "x", "role": "a"}]}`: "unknown",
		keysOf(entry, third, third):                            `entry 3, of "build", has the same hash as entry 2`,
	} {
		if _, _, err := parseKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %s", text, err, want)
		}
	}
}

// TestRolesOfLaterRuns: operators have no roles, a call that continues after its request has the roles of the caller's last token, and is refused if the program
// does not know the caller.
func TestRolesOfLaterRuns(t *testing.T) {
	c, err := newCallers(&callerOptions{issuer: "https://login.example.com", name: "sub", roles: "roles"}, &loginOptions{}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newCallers(&callerOptions{issuer: "https://login.example.com", name: "sub", roles: "/a~b"}, &loginOptions{}, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "-roles-claim: ") {
		t.Errorf("a malformed pointer: %v", err)
	}
	c.remember(t.Context(), identity{"ada", []string{"ops"}})
	for principal, want := range map[string]string{"ada": "[ops]", "bob": "unknown", "console:operator": "[]"} {
		got := "unknown"
		if s, err := c.subject(context.Background(), &mcp.Caller{Principal: principal}); err == nil {
			got = fmt.Sprint(s.Roles)
		}
		if got != want {
			t.Errorf("the roles of %s are %s, want %s", principal, got, want)
		}
	}
}

// TestFlagsOfCallers: flags that do not fit together are refused, with what to write.
func TestFlagsOfCallers(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"-http 127.0.0.1:0 -keys k.json -token 0123456789abcdef", "leave out -token"},
		{"-http 127.0.0.1:0 -issuer https://a.example -open", "leave out -token and -open"},
		{"-http 127.0.0.1:0 -audience a", "are for -issuer"},
		{"-http 127.0.0.1:0 -keys k.json -scopes openid", "are for -issuer"},
		{"-http 127.0.0.1:0 -keys k.json -name-claim email", "are for -issuer"},
		{"-http 127.0.0.1:0 -url https://a.example", "-url is for"},
		{"-http 0.0.0.0:0 -keys k.json", "-url: expected"},
		{"-http 127.0.0.1:0 -keys k.json -url a.example", "-url: expected"},
		{"-http 127.0.0.1:0 -role-policy a=b", "-role-policy is for"},
		{"-http 127.0.0.1:0 -issuer https://a.example -role-policy a", "ROLE=FILE"},
		{"-keys k.json", "are for -http"},
		{"-issuer https://a.example", "are for -http"},
		{"-http 127.0.0.1:0 -keys none.json -config none.json", "none.json"},
	} {
		err := run(t.Context(), append([]string{"serve"}, strings.Fields(test.line)...), strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, context.Canceled) {
			t.Errorf("%s: the error is %v, want %s", test.line, err, test.want)
		}
	}
}
