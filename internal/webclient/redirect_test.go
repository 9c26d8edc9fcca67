package webclient_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

const (
	loops     = "there were 3 before it"
	elsewhere = "it leads to another origin"
	becomes   = "it turns a POST into a GET"
)

// A redirect is followed if the request stays what it is, and where it was going. No
// request is made that is not needed.
func TestRedirects(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		to     string
		times  int    // that the server redirects
		reason string // "" if it is followed
	}{
		"temporary":         {307, "/there", 1, ""},
		"permanent":         {308, "/there", 1, ""},
		"absolute":          {308, "http://script.test/there", 1, ""},
		"port spelled out":  {307, "http://script.test:80/there", 1, ""},
		"three":             {307, "/there", 3, ""},
		"four":              {307, "/there", 4, loops},
		"loop":              {308, "/there", 1 << 30, loops},
		"moved":             {301, "/there", 1, becomes},
		"found":             {302, "/there", 1, becomes},
		"see other":         {303, "/there", 1, becomes},
		"other host":        {307, "http://evil.test/mcp?key=secret", 1, elsewhere},
		"subdomain":         {307, "http://a.script.test/mcp", 1, elsewhere},
		"other port":        {307, "http://script.test:8080/mcp", 1, elsewhere},
		"other scheme":      {307, "https://script.test/mcp", 1, elsewhere},
		"scheme, same port": {307, "https://script.test:80/mcp", 1, elsewhere},
		"user and host":     {307, "http://script.test:secret@evil.test/mcp", 1, elsewhere},
		"no scheme":         {307, "//evil.test/mcp", 1, elsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var requests []string
			server := script(t, func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				mu.Lock()
				defer mu.Unlock()
				requests = append(requests, fmt.Sprintf("%s %s %s %s", r.Method, text, r.Header["Authorization"], r.Header["Content-Type"]))
				if len(requests) <= test.times {
					w.Header().Set("Location", test.to+strings.Repeat("/there", len(requests)-1))
					w.WriteHeader(test.status)
					return
				}
				w.WriteHeader(http.StatusAccepted)
			})
			for way, client := range ways(t, server) {
				status, delivery, err := post(t, webclient.New(client, bearer), where, "hello")
				mu.Lock()
				asked := len(requests)
				for _, r := range requests {
					if r != "POST hello [Bearer secret] [application/json]" {
						t.Errorf("%s: the request was %s", way, r)
					}
				}
				requests = nil
				mu.Unlock()
				if test.reason == "" {
					if err != nil || status != http.StatusAccepted || asked != test.times+1 {
						t.Errorf("%s: got %d, %v, after %d requests", way, status, err, asked)
					}
					continue
				}
				refused, ok := err.(*webclient.RedirectError)
				if !ok || refused.Reason != test.reason || delivery != jsonrpc.Rejected || isNotReached(err) {
					t.Errorf("%s: got %v (%v)", way, err, delivery)
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: %v tells a secret", way, err)
				}
				if asked != min(test.times, 4) {
					t.Errorf("%s: there were %d requests", way, asked)
				}
			}
		})
	}
}

// A GET may be sent elsewhere by any status.
func TestRedirectsOfGET(t *testing.T) {
	server := script(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	})
	for way, client := range ways(t, server) {
		res, err := webclient.New(client, nil).Do(t.Context(), http.MethodGet, parsed(t, where), http.Header{})
		if err != nil {
			t.Errorf("%s: %v", way, err)
			continue
		}
		res.Body.Close()
		if got := res.Request.URL.Path; got != "/there" {
			t.Errorf("%s: it went to %s", way, got)
		}
	}
}

// What says that it redirects and not whereto is an answer like any other.
func TestRedirectToNowhere(t *testing.T) {
	server := script(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	for way, client := range ways(t, server) {
		if status, _, err := post(t, webclient.New(client, nil), where, ""); status != http.StatusNotModified {
			t.Errorf("%s: got %d, %v", way, status, err)
		}
	}
}

// The program's own rule is not asked.
func TestRedirectRuleIsReplaced(t *testing.T) {
	server := script(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://evil.test/", http.StatusTemporaryRedirect)
	})
	asked := false
	given := &http.Client{Transport: toward(t, server), CheckRedirect: func(*http.Request, []*http.Request) error {
		asked = true
		return nil
	}}
	_, _, err := post(t, webclient.New(given, nil), where, "")
	if _, ok := errors.AsType[*webclient.RedirectError](err); !ok || asked {
		t.Errorf("got %v", err)
	}
	if _ = given.CheckRedirect(nil, nil); !asked {
		t.Error("the program's client was changed")
	}
}
