package httpclient

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

const (
	// maxRedirects is how many redirects in a row are followed.
	maxRedirects = 3
	// maxExcerpt is how many bytes of a refusal's body are kept.
	maxExcerpt = 256
	// maxSearched is how many bytes of a refusal's body are searched for secrets before the
	// excerpt is taken, so that it does not end within a secret.
	maxSearched = 16 << 10
	// maxDrained is how many bytes of an unused body are read, and drainTimeout bounds how
	// long that takes.
	maxDrained   = 64 << 10
	drainTimeout = time.Second
)

// IsAccess reports whether a status is 401, 403 or 429: it is about the caller, not about the
// message.
func IsAccess(status int) bool {
	return isChallenge(status) || status == http.StatusTooManyRequests
}

// SecretsOf returns the credentials of a request: a server may repeat them in its response, as
// debugging pages do. They are the long words of the request's header, except for headers of the
// protocol, and the values of its URL. req may be nil.
func SecretsOf(req *http.Request) *peertext.Redactor {
	if req == nil {
		return nil
	}
	var words []string
	for name, lines := range req.Header {
		if isProtocolHeader(name) {
			continue
		}
		for _, line := range lines {
			words = append(words, line)
			words = slices.AppendSeq(words, strings.FieldsFuncSeq(line, isSeparator))
		}
	}
	var secrets []string
	if u := req.URL; u != nil {
		secrets = append(secrets, u.RawQuery)
		for _, values := range u.Query() {
			words = append(words, values...)
		}
		if password, ok := u.User.Password(); ok {
			words = append(words, password)
			secrets = append(secrets, u.User.String(), base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
		}
	}
	for _, word := range words {
		secrets = append(secrets, word, url.QueryEscape(word), url.PathEscape(word))
	}
	return peertext.NewRedactor(secrets...)
}

func isSeparator(r rune) bool { return strings.ContainsRune(" \t;,=\"", r) }

// isProtocolHeader reports whether a request header has no credentials. name is in canonical
// form.
func isProtocolHeader(name string) bool {
	switch name {
	case "Accept", "Cache-Control", "Connection", "Content-Type", "Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Origin", "Upgrade", "User-Agent":
		return true
	}
	return strings.HasPrefix(name, "Mcp-Param-") || strings.HasPrefix(name, "Sec-Websocket-")
}

// NewStatusError returns the error of a response whose body has been read. The error does not
// contain the credentials of the request.
func NewStatusError(res *http.Response, body []byte) *httptransport.StatusError {
	secrets := SecretsOf(res.Request)
	text := secrets.Redact(string(body[:min(len(body), maxSearched)]))
	e := &httptransport.StatusError{
		Method: res.Request.Method, Status: res.StatusCode, Header: make(http.Header),
		Body: strings.ToValidUTF8(text[:min(len(text), maxExcerpt)], ""),
	}
	for _, name := range []string{"Www-Authenticate", "Retry-After"} {
		for _, line := range res.Header[name] {
			e.Header.Add(name, secrets.Redact(line))
		}
	}
	return e
}

// minNamedID is the length in bytes from which the id of a session in a text is no coincidence.
const minNamedID = 8

// NamesSession reports whether the body of a refusal is about the session with the id, or about the lack of a session. id may
// be "".
func NamesSession(body []byte, id string) bool {
	body = body[:min(len(body), maxSearched)]
	lower := bytes.ToLower(body)
	return bytes.Contains(lower, []byte("session")) || bytes.Contains(lower, []byte("initializ")) || len(id) >= minNamedID && bytes.Contains(body, []byte(id))
}

// ReadStatusError returns the error of a response and reads the beginning of its body. The
// caller closes the body.
func ReadStatusError(res *http.Response) *httptransport.StatusError {
	excerpt, _ := io.ReadAll(io.LimitReader(res.Body, maxSearched)) // the error is about the status
	return NewStatusError(res, excerpt)
}

// DeliveryOf returns how far a message got that was answered with a status. A gateway may
// answer 5xx although the server executed the message, unless it says when to try again.
func DeliveryOf(refused *httptransport.StatusError) jsonrpc.Delivery {
	if refused.Status < http.StatusInternalServerError || refused.Status == http.StatusServiceUnavailable && refused.Header.Get("Retry-After") != "" {
		return jsonrpc.Rejected
	}
	return jsonrpc.MaybeExecuted
}

// Drain reads the rest of a body, so that its connection can be reused: at most 64 KiB, for
// at most a second. Then it cancels the request.
func Drain(body io.Reader, cancel context.CancelFunc) {
	if body == http.NoBody {
		return
	}
	timer := time.AfterFunc(drainTimeout, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, maxDrained) // a failed read only costs the connection
}

// NotReached returns err as an error that is [transport.ErrNotReached] under errors.Is.
func NotReached(err error) error {
	if errors.Is(err, transport.ErrNotReached) {
		return err
	}
	return &networkError{err}
}

type networkError struct{ err error }

func (e *networkError) Error() string        { return e.err.Error() }
func (e *networkError) Unwrap() error        { return e.err }
func (e *networkError) Is(target error) bool { return target == transport.ErrNotReached }

// checkRedirect allows redirects that keep the origin and the method. The header may hold a
// token, and a POST that becomes a GET would lose its message.
func checkRedirect(req *http.Request, via []*http.Request) error {
	refused := &httptransport.RedirectError{To: SecretsOf(via[0]).Redact(withoutSecrets(req.URL))}
	switch {
	case len(via) > maxRedirects:
		refused.Reason = fmt.Sprintf("%d redirects came before it", maxRedirects)
	case !SameOrigin(req.URL, via[0].URL):
		refused.Reason = "it leads to another origin"
	case req.Method != via[0].Method:
		refused.Reason = "it turns a " + via[0].Method + " into a " + req.Method
	default:
		return nil
	}
	return refused
}

// withoutSecrets returns a URL without user and query.
func withoutSecrets(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// A redirected is a RoundTripper that returns a response that it was given to the first
// request, and sends later requests.
type redirected struct {
	first *http.Response // nil once it has been returned
	next  http.RoundTripper
}

// RoundTrip returns the first response or sends a request.
func (r *redirected) RoundTrip(req *http.Request) (*http.Response, error) {
	if first := r.first; first != nil {
		r.first = nil
		return first, nil
	}
	return r.next.RoundTrip(req)
}
