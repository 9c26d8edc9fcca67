package describe

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

// defaultMaxServers is the default of [DiscoverOptions].MaxServers.
const defaultMaxServers = 100

// DiscoverOptions configures [Discover]. The zero value is valid.
type DiscoverOptions struct {
	// MaxServers is the maximum number of cards that are read. Default 100.
	MaxServers int
	// Timeout bounds each request, including redirects. Default 10 s.
	Timeout time.Duration
	// AllowLoopback permits loopback addresses, and http for them.
	AllowLoopback bool
	// Allow permits additional networks that are not public.
	Allow []netip.Prefix
	// Proxy returns the proxy for a request, nil for none. By default no proxy is used; the
	// environment is ignored.
	Proxy func(*http.Request) (*url.URL, error)
	// TLS configures TLS. By default the roots of the system are used.
	TLS *tls.Config
}

// Discover finds the servers of a domain. origin is a URL such as "https://example.com". opts may be
// nil. Discover reads the AI catalog at /.well-known/ai-catalog.json, and then one card for each step of the
// iteration. A card that cannot be read gives its error, and the iteration goes on. An error of the
// catalog is the only element.
//
// All URLs must be https and lead to public addresses; the options permit more. The same holds for the
// URLs of the endpoints that a card names, if they have no variables: their addresses are not looked up.
// Cards may be on other domains. Discover caches nothing: do not call it for each connection.
func Discover(ctx context.Context, origin string, opts *DiscoverOptions) iter.Seq2[Server, error] {
	var options DiscoverOptions
	if opts != nil {
		options = *opts
	}
	if options.MaxServers <= 0 {
		options.MaxServers = defaultMaxServers
	}
	guard := netguard.New(&netguard.Options{
		AllowLoopback: options.AllowLoopback, Allow: options.Allow, Proxy: options.Proxy, TLS: options.TLS,
		Timeout: max(options.Timeout, 0), MaxBody: maxCatalog,
	})
	return func(yield func(Server, error) bool) {
		entries, err := fetchCatalog(ctx, guard, origin)
		if err != nil {
			yield(Server{}, err)
			return
		}
		for i, entry := range entries {
			if i == options.MaxServers {
				yield(Server{}, fmt.Errorf("describe: the catalog has %d servers; %d were read", len(entries), i))
				return
			}
			server, err := fetchCard(ctx, guard, &entry)
			if !yield(server, err) || ctx.Err() != nil {
				return
			}
		}
	}
}

func fetchCatalog(ctx context.Context, guard *netguard.Guard, origin string) ([]catalogEntry, error) {
	text, err := fetch(ctx, guard, strings.TrimSuffix(origin, "/")+catalogPath, catalogType, maxCatalog)
	if err != nil {
		return nil, fmt.Errorf("describe: an AI catalog: %w", err)
	}
	return parseCatalog(text)
}

// fetchCard returns the server of an entry.
func fetchCard(ctx context.Context, guard *netguard.Guard, entry *catalogEntry) (Server, error) {
	text := []byte(entry.Data)
	if (entry.URL == "") == (entry.Data == nil) {
		return Server{}, fmt.Errorf("describe: an entry of an AI catalog has either url or data")
	}
	if entry.URL != "" {
		var err error
		if text, err = fetch(ctx, guard, entry.URL, cardType, maxCard); err != nil {
			return Server{}, fmt.Errorf("describe: a server card: %w", err)
		}
	}
	s, err := ParseCard(text)
	if err != nil {
		return Server{}, err
	}
	for i := range s.Remotes {
		if at := s.Remotes[i].URL; !strings.ContainsAny(at, "{}") {
			if err := guard.Check(at); err != nil {
				return Server{}, fmt.Errorf("describe: an endpoint of a server card: %w", err)
			}
		}
	}
	return s, nil
}

// fetch returns the body of a response, of which it reads one byte more than the limit. Parsing refuses
// that.
func fetch(ctx context.Context, guard *netguard.Guard, at, mediaType string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, &netguard.RefusedError{Reason: "it is not a URL"}
	}
	req.Header.Set("Accept", mediaType)
	res, err := guard.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, &netguard.StatusError{Status: res.StatusCode}
	}
	return io.ReadAll(io.LimitReader(res.Body, limit+1))
}
