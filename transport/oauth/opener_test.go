package oauth_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// notOpened are URLs that run something, read something, or mislead, in some browser,
// opener or shell.
var notOpened = []string{
	"", " ", "-", "--", "--version", "-e", "-a Calculator", "--new-window https://x.example", "/etc/passwd", "./x", "../x", "x", "//x.example/",
	"javascript:alert(1)", "JavaScript:alert(1)", "java\tscript:alert(1)", "javascript://x.example/%0aalert(1)", " javascript:alert(1)", "data:text/html,<script>", "vbscript:x",
	"file:///etc/passwd", "file://x.example/share", "FILE:///c:/windows/system32/calc.exe", "smb://x.example/share", `\\x.example\share`, "ftp://x.example/", "ssh://x.example/",
	"ms-msdt:/id", "search-ms:query=x", "shell:startup", "vscode://x", "steam://run/1", "tel:1", "mailto:x@x.example", "about:blank", "view-source:https://x.example/", "blob:https://x.example/1",
	"http://x.example/", "http://10.0.0.1/", "http://127.0.0.1.x.example/", "http://localhost.x.example/", "http://127.1/", "http://0.0.0.0/", "http://2130706433/", "http://[::]/", "http://0x7f.1/",
	"ws://127.0.0.1/", "https:x.example", "https:/x.example", "https://", "https:///x", "https://:443/", "https://-x.example/", "https://user@x.example/", "https://x.example@evil.example/", "https://user:pw@x.example/",
	"https://x.example/#f", "https://x.example/#", "https://x.example/\n--x", "https://x.example/\r\n", "https://x.example/\x00", "https://x.example/a b", " https://x.example/", "https://x.example/ ",
	"https://x.example/$(calc.exe)", "https://x.example/`calc`", "https://x.example/;calc", "https://x.example/|calc", `https://x.example/"&calc&"`, "https://x.example/'x'", "https://x.example/<x>", "https://x.example/^&calc",
	`https://x.example\@evil.example/`, "https://x.example/{x}", "https://x.example/%zz", "https://x.example:99999999/\x7f", "https://exämple.example/", "https://x.example/ü", "https://x%00.example/", "https://[::1/", "https://[x]/", "%68ttps://x.example/",
}

func TestNotOpened(t *testing.T) {
	for _, url := range notOpened {
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

// A URL is one argument, the last, and begins with its scheme; nothing starts a shell.
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
