package netguard

import (
	"net/http"
	"net/url"
	"strings"
)

// checkRedirect decides whether a client goes where it is sent, and with which header.
// The URL is checked as any other when it is requested.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if reason := whyNotRedirect(req, via); reason != "" {
		return &RefusedError{URL: withoutSecrets(req.URL), Reason: reason}
	}
	req.Header.Del("Referer") // its query may hold a secret
	if leavesOrigin(req, via) {
		req.Header = harmless(req.Header) //nolint:gosec // nothing of it is sensitive
	}
	return nil
}

func whyNotRedirect(req *http.Request, via []*http.Request) string {
	first, from := via[0], via[len(via)-1]
	switch {
	case len(via) > maxRedirects:
		return "there were too many redirects before it"
	case from.URL.Scheme == "https" && req.URL.Scheme != "https":
		return "a redirect must not leave https"
	case isLoopbackHost(req.URL.Hostname()) && !isLoopbackHost(from.URL.Hostname()):
		return "a redirect must not lead to this machine"
	case first.Method != http.MethodGet && first.Method != http.MethodHead:
		return "a redirect is followed with GET and HEAD only" // a body may hold a secret, and is meant for one
	}
	return ""
}

// leavesOrigin tells whether any of the requests went, or is to go, to another origin
// than the first. What came back may have been sent back by a stranger.
func leavesOrigin(req *http.Request, via []*http.Request) bool {
	first := origin(via[0].URL)
	for _, earlier := range via[1:] {
		if origin(earlier.URL) != first {
			return true
		}
	}
	return origin(req.URL) != first
}

// origin is scheme, host and port in one spelling. RFC 6454, section 4.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return u.Scheme + "|" + strings.ToLower(u.Hostname()) + "|" + port
}

// harmless are the members of a header that may go anywhere. Nobody knows the names of
// all that hold credentials.
func harmless(header http.Header) http.Header {
	kept := make(http.Header)
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"} {
		if lines := header[name]; lines != nil {
			kept[name] = lines
		}
	}
	return kept
}
