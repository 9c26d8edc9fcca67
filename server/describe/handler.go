package describe

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Handler returns a handler for the AI catalog with these servers, at /.well-known/ai-catalog.json, and for their
// server cards, at the path of [Remote.URL] followed by "/server-card". All other paths are 404.
// Mount it beside the endpoint:
//
//	mux.Handle("/mcp", streamable.Handler(s, nil))
//	mux.Handle("/", cards)
//
// The documents are public: web pages of any origin may read them, and they may be cached for one
// hour. They are encoded when Handler is called. The error is an error of [Catalog], or says that two
// cards have the same path.
//
// A production server must be reached by https. The handler does not limit the rate of requests.
func Handler(servers ...Server) (http.Handler, error) {
	text, err := Catalog(servers...)
	if err != nil {
		return nil, err
	}
	h := handler{catalogPath: newDocument(catalogType, text)}
	for i := range servers {
		at := servers[i].cardURL()
		if at == "" {
			continue
		}
		u, err := url.Parse(at)
		if err != nil {
			return nil, fmt.Errorf("describe: %w", err)
		}
		if h[u.Path] != nil {
			return nil, fmt.Errorf("describe: two documents have the path %q", u.Path)
		}
		text, err := servers[i].Card()
		if err != nil {
			return nil, err
		}
		h[u.Path] = newDocument(cardType, text)
	}
	return h, nil
}

// A handler serves documents by their path.
type handler map[string]*document

// A document is immutable.
type document struct {
	mediaType, etag string
	text            []byte
}

func newDocument(mediaType string, text []byte) *document {
	sum := sha256.Sum256(text)
	return &document{mediaType, `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`, text}
}

// ServeHTTP answers one request.
func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := h[r.URL.Path]
	if d == nil {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Access-Control-Allow-Methods", "GET")
	header.Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match")
	header.Set("Access-Control-Expose-Headers", "ETag")
	header.Set("X-Content-Type-Options", "nosniff")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		header.Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
		return
	}
	header.Set("Content-Type", d.mediaType)
	header.Set("Cache-Control", "public, max-age=3600")
	header.Set("ETag", d.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(d.text))
}
