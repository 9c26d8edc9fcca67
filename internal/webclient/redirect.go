package webclient

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A RedirectError is an answer that sends the client elsewhere, where it will not
// go. The request was not executed.
type RedirectError struct {
	// To is the URL without user and query.
	To string
	// Reason says why it is not followed.
	Reason string
}

// Error names the URL and the reason.
func (e *RedirectError) Error() string {
	return fmt.Sprintf("the redirect to %s is not followed: %s", jsonscan.Quote(e.To), e.Reason)
}

// checkRedirect lets a request go on to where it is sent only if it stays the same
// request to the same origin: a header may hold a token, and a POST that became a GET
// would bring no message.
func checkRedirect(req *http.Request, via []*http.Request) error {
	refused := &RedirectError{To: withoutSecrets(req.URL)}
	switch {
	case len(via) > maxRedirects:
		refused.Reason = fmt.Sprintf("there were %d before it", maxRedirects)
	case !SameOrigin(req.URL, via[0].URL):
		refused.Reason = "it leads to another origin"
	case req.Method != via[0].Method:
		refused.Reason = "it turns a " + via[0].Method + " into a " + req.Method
	default:
		return nil
	}
	return refused
}

// withoutSecrets is a URL as an error may show it: without user and query.
func withoutSecrets(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// resumed is a RoundTripper for an http.Client that comes in when a request has been
// made and is redirected.
type resumed struct {
	first *http.Response // nil once it has been given
	next  http.RoundTripper
}

// RoundTrip answers the first request with what it was answered with.
func (r *resumed) RoundTrip(req *http.Request) (*http.Response, error) {
	if first := r.first; first != nil {
		r.first = nil
		return first, nil
	}
	return r.next.RoundTrip(req)
}
