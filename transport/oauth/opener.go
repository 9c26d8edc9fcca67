package oauth

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// OpenBrowser opens an https URL, or an http one at this machine, with the system's
// browser. No shell is involved: the system's opener is started with the URL, written
// anew from its parts, as its only argument that comes from outside. The error is a
// [*URLError], or says that the opener could not be started or has failed at once.
func OpenBrowser(ctx context.Context, url string) error {
	return openBrowser(ctx, runtime.GOOS, url, start)
}

func openBrowser(ctx context.Context, system, text string, start func(context.Context, []string) error) error {
	u, err := browserURL(text, true)
	if err != nil {
		return err
	}
	return start(ctx, append(opener(system), u.String()))
}

// opener is the command that opens URLs. Windows has one that takes the URL as it is;
// "start" would read it as a command line.
func opener(system string) []string {
	switch system {
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case "darwin":
		return []string{"open"}
	}
	return []string{"xdg-open"}
}

// openerPatience is how long an opener may take to fail. One that has become the browser
// goes on.
const openerPatience = 2 * time.Second

// start starts a command, and waits a moment for how it ends.
func start(ctx context.Context, command []string) error {
	opening := exec.Command(command[0], command[1:]...) //nolint:noctx // opener and browserURL made it; it outlives the login
	if err := opening.Start(); err != nil {
		return fmt.Errorf("oauth: opening a browser: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- opening.Wait() }()
	timer := time.NewTimer(openerPatience)
	defer timer.Stop()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("oauth: opening a browser: %s: %w", command[0], err)
		}
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// checkBrowserURL refuses what no browser is sent to.
func checkBrowserURL(text string, loopback bool) error {
	_, err := browserURL(text, loopback)
	return err
}

// browserURL reads a URL that a browser may be sent to.
func browserURL(text string, loopback bool) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, &URLError{Reason: "it is none (RFC 3986)"}
	}
	refused := func(reason string) (*url.URL, error) { return nil, &URLError{URL: shown(u), Reason: reason} }
	switch local := isLoopback(u.Hostname()); {
	case u.Scheme != "https" && (u.Scheme != "http" || !local || !loopback):
		return refused("a browser is sent to https only")
	case u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-"):
		return refused("expected a host")
	case u.User != nil:
		return refused("it holds user information, which is there to mislead")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return refused("expected an authorization endpoint without a fragment (RFC 6749, section 3.1)")
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f || strings.IndexByte("\"'`<>\\^{|}$();", text[i]) >= 0 {
			return refused("it has characters that belong in no URL, or that a shell would read")
		}
	}
	return u, nil
}

// isLoopback tells whether a host is this machine. RFC 6761, section 6.3.
func isLoopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback() && addr.Zone() == ""
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
