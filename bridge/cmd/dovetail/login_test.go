package main

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/oauth/oauthtest"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A quickPerson opens the URL that dovetail prints to standard error.
type quickPerson struct {
	bytes.Buffer
	logins atomic.Int32
}

var loginURL = regexp.MustCompile(`open (http://\S+)`)

func (p *quickPerson) Write(text []byte) (int, error) {
	if match := loginURL.FindSubmatch(text); match != nil {
		p.logins.Add(1)
		res, err := http.Get(string(match[1]))
		if err != nil {
			return 0, err
		}
		res.Body.Close()
	}
	return p.Buffer.Write(text)
}

// The token of a login is stored for later runs, and no other user can read
// it.
func TestLogIn(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PATH"} {
		t.Setenv(name, filepath.Join(home, name)) // there is no browser on that path
		if err := os.Mkdir(filepath.Join(home, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	issuer, err := oauthtest.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer issuer.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	verifier, err := oauth.NewJWTVerifier(&oauth.JWTOptions{Issuer: issuer.URL, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	endpoint := streamable.Handler(newServer(), nil)
	defer endpoint.Close()
	web := httptest.NewUnstartedServer(nil)
	resource := "http://" + web.Listener.Addr().String() + "/mcp"
	web.Config.Handler, err = oauth.Protect(endpoint, &oauth.ProtectOptions{
		Resource: resource, AuthorizationServers: []string{issuer.URL}, Verifier: verifier, Scopes: []string{"mcp"},
	})
	if err != nil {
		t.Fatal(err)
	}
	web.Start()
	defer web.Close()

	try := func(p *quickPerson, line ...string) (string, error) {
		var out bytes.Buffer
		err := run(context.Background(), line, strings.NewReader(""), &out, p)
		return out.String(), err
	}
	if _, err := try(&quickPerson{}, "tools", resource); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("without -login: %v", err)
	}
	for want := int32(1); want >= 0; want-- {
		p := &quickPerson{}
		if out, err := try(p, "-login", "tools", resource); err != nil || !strings.Contains(out, `"greet"`) || p.logins.Load() != want {
			t.Errorf("%d logins, want %d: %v\n%s\n%s", p.logins.Load(), want, err, out, p)
		}
	}
	err = filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		about, err := entry.Info()
		if err != nil || about.Mode().Perm()&0o077 != 0 && strings.Contains(path, "dovetail") {
			t.Errorf("%s is %v, %v", path, about.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, line := range [][]string{{"-login", "tools", "--", "x"}, {"-login", "-config", "x", "tools"}, {"-login", "tools", "ws://127.0.0.1/"}} {
		if _, err := try(&quickPerson{}, line...); err == nil || !strings.Contains(err.Error(), "-login is for") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
