package webclient_test

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/webclient"
)

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"http://host":                      "http://host",
		"https://user:pw@host:1/path?q#f":  "https://user:pw@host:1/path?q",
		"HTTP://[::1]/":                    "http://[::1]/",
		"":                                 "",
		"localhost:80":                     "",
		"ftp://localhost":                  "",
		"ws://localhost/":                  "",
		"http://":                          "",
		"http:///path":                     "",
		"//localhost":                      "",
		"http://[::1":                      "",
		"http://user:secret@local host/":   "",
		"http://user:secret@host/\x7f":     "",
		"http://user:secret@host:password": "",
	} {
		u, err := webclient.ParseURL(text)
		switch {
		case want != "" && (err != nil || u.String() != want):
			t.Errorf("%q: got %v, %v, want %s", text, u, err, want)
		case want == "" && err == nil:
			t.Errorf("%q was taken for %v", text, u)
		case want == "" && (!strings.HasPrefix(err.Error(), "the server's URL") || strings.Contains(err.Error(), "secret")):
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSameOrigin(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"http://host/a", "http://host/b?c#d", true},
		{"http://host", "http://user:pw@HOST:80", true},
		{"https://host", "https://host:443", true},
		{"https://host:8443", "https://host:8443/x", true},
		{"http://[::1]:80/", "http://[::1]/", true},
		{"http://host", "http://host:/", true},
		{"http://host", "https://host", false},
		{"http://host:443", "https://host:443", false},
		{"http://host:443", "http://host", false},
		{"https://host:80", "https://host", false},
		{"http://host", "http://host:8080", false},
		{"http://host", "http://a.host", false},
		{"http://host", "http://host.", false},
		{"http://host", "http://host@evil", false},
		{"http://host", "http:path", false},
		{"http://host", "/path", false},
	} {
		a, b := parsed(t, test.a), parsed(t, test.b)
		if webclient.SameOrigin(a, b) != test.same || webclient.SameOrigin(b, a) != test.same {
			t.Errorf("%s and %s: not %t", test.a, test.b, test.same)
		}
	}
}
