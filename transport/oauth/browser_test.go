package oauth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// askReceiver sends a request to a receiver, and returns the status and the page.
func askReceiver(t *testing.T, method, to, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	page, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(page)
}

// Only a request with the state is accepted as the response. Other requests have no
// effect.
func TestLoopbackReceiver(t *testing.T) {
	listener, err := new(oauth.LoopbackReceiver).Listen(t.Context(), "the-state", "")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	uri := listener.RedirectURI()
	at, _ := url.Parse(uri)
	if at.Scheme != "http" || at.Hostname() != "127.0.0.1" || at.Path != "/callback" {
		t.Errorf("it listens at %s", uri)
	}
	for _, test := range []struct {
		method, to, host string
		want             int
	}{
		{"GET", uri, "", 400}, {"GET", uri + "?code=x", "", 400}, {"GET", uri + "?code=x&state=other", "", 400}, {"GET", uri + "?code=x&state=the-state&state=the-state", "", 400},
		{"GET", uri + "?code=%zz&state=the-state", "", 400}, {"POST", uri + "?code=x&state=the-state", "", 404}, {"GET", strings.Replace(uri, "callback", "other", 1) + "?state=the-state", "", 404},
		{"GET", uri + "?code=x&state=the-state", "rebound.example", 421}, {"GET", uri + "?code=x&state=the-state", "localhost:" + at.Port(), 421},
		{"GET", uri + "?code=good&state=the-state", "", 200}, {"GET", uri + "?code=late&state=the-state", "", 400},
	} {
		status, page := askReceiver(t, test.method, test.to, test.host)
		if status != test.want || strings.Contains(page, "the-state") {
			t.Errorf("%s %s: got %d %q, want %d", test.method, test.to, status, page, test.want)
		}
	}
	answer, err := listener.Wait(t.Context())
	if err != nil || answer.Get("code") != "good" {
		t.Errorf("got %v, %v", answer, err)
	}
}

// Wrong and long requests do not prevent the right response. Close ends Wait.
func TestLoopbackReceiverIsBounded(t *testing.T) {
	listener, err := (&oauth.LoopbackReceiver{Page: "done"}).Listen(t.Context(), "s", "")
	if err != nil {
		t.Fatal(err)
	}
	uri := listener.RedirectURI()
	for range 100 {
		askReceiver(t, "GET", uri+"?state=x", "")
	}
	if status, _ := askReceiver(t, "GET", uri+"?state=s&code="+strings.Repeat("x", 100_000), ""); status != http.StatusRequestHeaderFieldsTooLarge && status != 0 {
		t.Errorf("a long one: got %d", status)
	}
	if status, page := askReceiver(t, "GET", uri+"?state=s&code=x", ""); status != http.StatusOK || page != "done" {
		t.Errorf("got %d %q", status, page)
	}
	if answer, err := listener.Wait(t.Context()); err != nil || answer.Get("code") != "x" {
		t.Errorf("got %v, %v", answer, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("reason")
	cancel(reason)
	if _, err := listener.Wait(ctx); !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(listener.Close(), listener.Close()); err != nil {
		t.Error(err)
	}
	if _, err := listener.Wait(t.Context()); err == nil {
		t.Error("it waits when it is closed")
	}
	again, err := new(oauth.LoopbackReceiver).Listen(t.Context(), "s", uri)
	if err != nil || again.RedirectURI() != uri {
		t.Fatalf("the port of the last time: %v", err)
	}
	defer again.Close()
	other, err := new(oauth.LoopbackReceiver).Listen(t.Context(), "s", uri)
	if err != nil || other.RedirectURI() == uri {
		t.Fatalf("a port that is taken: %v", err)
	}
	other.Close()
}

// refusedURLs are URLs that run a program, read a file or mislead a person, in some
// browser, opener or shell.
var refusedURLs = []string{
	"", " ", "-", "--", "--version", "-e", "-a Calculator", "--new-window https://x.example", "/etc/passwd", "./x", "../x", "x", "//x.example/",
	"javascript:alert(1)", "JavaScript:alert(1)", "java\tscript:alert(1)", "javascript://x.example/%0aalert(1)", " javascript:alert(1)", "data:text/html,<script>", "vbscript:x",
	"file:///etc/passwd", "file://x.example/share", "FILE:///c:/windows/system32/calc.exe", "smb://x.example/share", `\\x.example\share`, "ftp://x.example/", "ssh://x.example/",
	"ms-msdt:/id", "search-ms:query=x", "shell:startup", "vscode://x", "steam://run/1", "tel:1", "mailto:x@x.example", "about:blank", "view-source:https://x.example/", "blob:https://x.example/1",
	"http://x.example/", "http://10.0.0.1/", "http://127.0.0.1.x.example/", "http://localhost.x.example/", "http://127.1/", "http://0.0.0.0/", "http://2130706433/", "http://[::]/", "http://0x7f.1/",
	"ws://127.0.0.1/", "https:x.example", "https:/x.example", "https://", "https:///x", "https://:443/", "https://-x.example/", "https://user@x.example/", "https://x.example@evil.example/", "https://user:pw@x.example/",
	"https://x.example/#f", "https://x.example/#", "https://x.example/\n--x", "https://x.example/\r\n", "https://x.example/\x00", "https://x.example/a b", " https://x.example/", "https://x.example/ ",
	"https://x.example/$(calc.exe)", "https://x.example/`calc`", "https://x.example/;calc", "https://x.example/|calc", `https://x.example/"&calc&"`, "https://x.example/'x'", "https://x.example/<x>", "https://x.example/^&calc",
	`https://x.example\@evil.example/`, "https://x.example/{x}", "https://x.example/%zz", "https://x.example:99999999/\x7f", "https://exämple.example/", "https://x.example/ü", "https://x%00.example/", "https://[::1/", "https://[x]/", "%68ttps://x.example/", "https://x.example/?" + strings.Repeat("x", 32_000),
}

func TestNotOpened(t *testing.T) {
	for _, url := range refusedURLs {
		for _, system := range []string{"linux", "darwin", "windows"} {
			err := oauth.OpenBrowserBy(t.Context(), system, url, func(_ context.Context, command []string) error {
				t.Errorf("%q starts %q", url, command)
				return nil
			})
			if _, ok := errors.AsType[*oauth.URLError](err); !ok {
				t.Errorf("%q: got %v", url, err)
			}
		}
	}
}

// A URL is the last argument, and begins with its scheme. No shell is started.
func TestOpened(t *testing.T) {
	for _, url := range []string{
		"https://x.example/authorize?a=b&c=d%20e", "https://x.example:8443/", "HTTPS://x.example/?x=%22%27%3B", "https://[2606:4700::1]/x", "http://127.0.0.1:8080/authorize?x=1", "http://localhost:1/", "http://[::1]:9/", "https://x.example/a%2Fb?q=%26calc",
	} {
		for _, system := range []string{"linux", "darwin", "windows", "plan9"} {
			var got []string
			err := oauth.OpenBrowserBy(t.Context(), system, url, func(_ context.Context, command []string) error {
				got = command
				return nil
			})
			if err != nil || len(got) < 2 || !strings.HasPrefix(got[len(got)-1], "http") || slices.ContainsFunc(got[:len(got)-1], func(word string) bool {
				return strings.Contains(word, "://") || word == "cmd" || word == "sh" || word == "start" || strings.Contains(word, "powershell")
			}) {
				t.Errorf("%q on %s starts %q, %v", url, system, got, err)
			}
		}
	}
}

func TestOpenerThatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := oauth.OpenBrowser(t.Context(), "https://x.example/"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
