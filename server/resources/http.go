package resources

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/internal/filetree"
)

// HTTPOptions configure [HTTP]. The zero value is ready to use.
type HTTPOptions struct {
	// Resource describes the resource. Its default URI is the URL, its default MIMEType
	// the type of the response.
	server.Resource
	// Header is added to requests to the origin of the URL. It is not sent to other
	// origins after a redirect.
	Header http.Header
	// MaxSize is the maximum size of a response, in bytes. Default 10 MiB.
	MaxSize int64
	// Timeout bounds a request including redirects. Default 30 s.
	Timeout time.Duration
	// AllowLoopback permits loopback addresses, and http for them.
	AllowLoopback bool
	// AllowHTTP lists hosts, as in URLs without a port, that may also be reached over http. Everyone on the way can read
	// and change what is sent, including Header. The rules for addresses are the same. The comparison ignores case.
	AllowHTTP []string
	// Allow permits additional networks that are not public.
	Allow []netip.Prefix
	// Proxy returns the proxy for a request, nil for none. By default no proxy is used;
	// the environment is ignored.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS configures TLS. By default the roots of the system are used.
	TLS *tls.Config
}

// HTTP returns a resource for a URL. Each read makes a request. A response with an ETag is
// stored and revalidated (RFC 9110, section 13.1.2).
//
// The URL must be https, and its host must have a public address. The same applies to
// redirects, of which at most three are followed. The options permit more. The status codes 404
// and 410 are mcp.ResourceNotFound; all others except a success are errors.
func HTTP(url string, opts *HTTPOptions) (*server.Entry, error) {
	var options HTTPOptions
	if opts != nil {
		options = *opts
	}
	r := &httpResource{url: url, header: options.Header.Clone(), guard: netguard.New(&netguard.Options{
		AllowLoopback: options.AllowLoopback, AllowHTTP: options.AllowHTTP, Allow: options.Allow, Proxy: options.Proxy, TLS: options.TLS,
		Timeout: cmp.Or(max(options.Timeout, 0), defaultTimeout),
		MaxBody: cmp.Or(max(options.MaxSize, 0), defaultMaxSize),
	})}
	if err := r.guard.Check(url); err != nil {
		return nil, err
	}
	resource := options.Resource
	resource.URI = cmp.Or(resource.URI, url)
	return server.NewResource(resource, func(ctx context.Context, _ *server.Request) (mcp.ResourceContents, error) {
		response, err := r.fetch(ctx)
		if err != nil {
			return nil, fetchError(resource.URI, err)
		}
		return filetree.Contents(resource.URI, cmp.Or(resource.MIMEType, response.mimeType), response.body), nil
	})
}

// An httpResource fetches a URL.
type httpResource struct {
	url    string
	header http.Header
	guard  *netguard.Guard

	mu     sync.Mutex
	stored *response // nil without an ETag
}

// A response is immutable.
type response struct {
	etag     string
	mimeType string
	body     []byte
}

func (r *httpResource) fetch(ctx context.Context) (*response, error) {
	stored := r.load()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, lines := range r.header {
		req.Header[http.CanonicalHeaderKey(name)] = lines
	}
	if stored != nil {
		req.Header.Set("If-None-Match", stored.etag)
	}
	res, err := r.guard.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotModified && stored != nil:
		return stored, nil
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, &netguard.StatusError{Status: res.StatusCode}
	case res.Header.Get("Content-Encoding") != "":
		return nil, errors.New("the response has an unexpected Content-Encoding")
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	now := &response{res.Header.Get("ETag"), responseType(res.Header.Get("Content-Type")), body}
	r.store(now, res)
	return now, nil
}

func (r *httpResource) load() *response {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stored
}

// store stores a response that can be revalidated.
func (r *httpResource) store(response *response, res *http.Response) {
	if tag := response.etag; tag == "" || len(tag) > maxETag || res.StatusCode != http.StatusOK || forbidsStoring(res.Header) {
		response = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = response
}

// forbidsStoring looks for the directive no-store: RFC 9111, section 5.2.2.5.
func forbidsStoring(header http.Header) bool {
	return strings.Contains(strings.ToLower(strings.Join(header.Values("Cache-Control"), ",")), "no-store")
}

// fetchError returns the error for a client. It does not contain the URL, which may contain a
// secret.
func fetchError(uri string, err error) error {
	if status, ok := errors.AsType[*netguard.StatusError](err); ok && (status.Status == http.StatusNotFound || status.Status == http.StatusGone) {
		return mcp.ResourceNotFound(uri)
	}
	if refused, ok := errors.AsType[*netguard.RefusedError](err); ok {
		return fmt.Errorf("the resource cannot be fetched: %s", refused.Reason)
	}
	return fmt.Errorf("the resource cannot be fetched: %w", err)
}

// responseType returns the media type of a Content-Type header, or "". It keeps only the
// parameter charset, and only if that is not UTF-8.
func responseType(contentType string) string {
	media, params, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil || !strings.Contains(media, "/"):
		return ""
	case filetree.IsUTF8(params["charset"]):
		return media
	}
	return mime.FormatMediaType(media, map[string]string{"charset": params["charset"]})
}
