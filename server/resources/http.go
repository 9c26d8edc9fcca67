package resources

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// HTTPOptions configure [HTTP]. The zero value is good.
type HTTPOptions struct {
	// Resource describes the resource. Its default URI is the URL, its default
	// MIMEType what the answer says.
	server.Resource
	// Header is sent along, to the origin of the URL and to no other that it may
	// redirect to.
	Header http.Header
	// MaxSize is how long an answer may be, in bytes. Default [DefaultMaxSize].
	MaxSize int64
	// Timeout bounds a fetch, redirects included. Default [DefaultTimeout].
	Timeout time.Duration
	// AllowLoopback also admits this machine, and http there.
	AllowLoopback bool
	// Allow lists networks that may be reached although they are not public.
	Allow []netip.Prefix
	// Proxy says which proxy a request goes through, nil for none. Default none,
	// whatever the environment says.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS configures TLS. Default the roots of the system.
	TLS *tls.Config
}

// HTTP makes a resource of what is at a URL. It is fetched whenever it is read; an
// answer with an ETag is kept, and sent for again only if it has changed (RFC 9110,
// section 13.1.2).
//
// The URL is https. Its host must have a public address: neither it nor a redirect, of
// which three are followed, leads into the networks of this machine, unless the options
// allow it. The answers 404 and 410 are mcp.ResourceNotFound; no other that is not a
// success is read.
func HTTP(url string, opts *HTTPOptions) (*server.Entry, error) {
	var options HTTPOptions
	if opts != nil {
		options = *opts
	}
	r := &remote{url: url, header: options.Header.Clone(), guard: netguard.New(&netguard.Options{
		AllowLoopback: options.AllowLoopback, Allow: options.Allow, Proxy: options.Proxy, TLS: options.TLS,
		Timeout: cmp.Or(max(options.Timeout, 0), DefaultTimeout),
		MaxBody: cmp.Or(max(options.MaxSize, 0), DefaultMaxSize),
	})}
	if err := r.guard.Check(url); err != nil {
		return nil, err
	}
	resource := options.Resource
	resource.URI = cmp.Or(resource.URI, url)
	return server.NewResource(resource, func(ctx context.Context, _ *server.Request) (mcp.ResourceContents, error) {
		answer, err := r.fetch(ctx)
		if err != nil {
			return nil, fetchError(resource.URI, err)
		}
		return contentsOf(resource.URI, cmp.Or(resource.MIMEType, answer.mimeType), answer.body), nil
	})
}

// A remote is what is at a URL.
type remote struct {
	url    string
	header http.Header
	guard  *netguard.Guard

	mu   sync.Mutex
	kept *answer // nil if there is none to be compared
}

// An answer is what was at the URL. It does not change.
type answer struct {
	etag     string
	mimeType string
	body     []byte
}

func (r *remote) fetch(ctx context.Context) (*answer, error) {
	kept := r.last()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, lines := range r.header {
		req.Header[http.CanonicalHeaderKey(name)] = lines
	}
	if kept != nil {
		req.Header.Set("If-None-Match", kept.etag)
	}
	res, err := r.guard.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && kept != nil:
		return kept, nil
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, &netguard.StatusError{Status: res.StatusCode}
	case res.Header.Get("Content-Encoding") != "":
		return nil, errors.New("the answer is encoded, though nobody asked for that")
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	now := &answer{res.Header.Get("ETag"), typeOfAnswer(res.Header.Get("Content-Type")), body}
	r.keep(now, res)
	return now, nil
}

func (r *remote) last() *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept
}

// keep keeps an answer that can be asked for again by its tag.
func (r *remote) keep(a *answer, res *http.Response) {
	if a.etag == "" || len(a.etag) > maxETag || res.StatusCode != http.StatusOK || forbidsStoring(res.Header) {
		a = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = a
}

// forbidsStoring: RFC 9111, section 5.2.2.5.
func forbidsStoring(header http.Header) bool {
	return strings.Contains(strings.ToLower(strings.Join(header.Values("Cache-Control"), ",")), "no-store")
}

// fetchError is what the reader of a resource is told. The URL may hold a secret, and
// stays out of it.
func fetchError(uri string, err error) error {
	if status, ok := errors.AsType[*netguard.StatusError](err); ok && (status.Status == http.StatusNotFound || status.Status == http.StatusGone) {
		return mcp.ResourceNotFound(uri)
	}
	if refused, ok := errors.AsType[*netguard.RefusedError](err); ok {
		return fmt.Errorf("the resource is not fetched: %s", refused.Reason)
	}
	return fmt.Errorf("the resource cannot be fetched: %w", err)
}
