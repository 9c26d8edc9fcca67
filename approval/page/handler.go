package page

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
)

// Options configure [Handler]. The zero value is valid.
type Options struct {
	// Channel is the URL of the channel: a path on the page's host, or relative to the page.
	// Default "/approval".
	Channel string
	// Title is the heading of the page. Default "Approvals".
	Title string
	// Hosts lists the host names under which the page may be reached, such as "example.com"
	// or "example.com:8443". On a loopback address the loopback names are always allowed, and
	// by default no others. On any other address every name is allowed if Hosts is empty, and
	// otherwise the listed ones, loopback names and the address itself.
	Hosts []string
}

// Handler returns a handler that serves the page and its files, for GET and HEAD. It may be
// mounted anywhere, with or without [http.StripPrefix], as long as the path of the page ends
// with a slash: only the last element of a path is used. An empty path is redirected to the
// path with the slash. A request with a Host that is not allowed gets the status 403.
//
// opts may be nil. Handler panics if Channel or Hosts are invalid. The handler may be used
// concurrently.
func Handler(opts *Options) http.Handler {
	o := *cmp.Or(opts, new(Options))
	o.Channel = cmp.Or(o.Channel, "/approval")
	o.Title = cmp.Or(o.Title, "Approvals")
	guard, err := httpguard.NewGuard(o.Hosts, nil)
	if err != nil {
		panic("page.Handler: Options." + err.Error())
	}
	if err := checkChannel(o.Channel); err != nil {
		panic("page.Handler: " + err.Error())
	}
	return &handler{guard, load(o)}
}

// checkChannel refuses channels on other hosts, because the Content-Security-Policy does.
func checkChannel(channel string) error {
	u, err := url.Parse(channel)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || u.Fragment != "" {
		return fmt.Errorf("Options.Channel: expected a path such as /approval, not %q", channel)
	}
	return nil
}

type handler struct {
	guard *httpguard.Guard
	files map[string]file // by name; "" is the page itself
}

// The page may load only its own files, connect only to its own host, and not create markup from
// text.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	if !h.guard.Admit(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	if r.URL.Path == "" {
		addSlash(w, r)
		return
	}
	_, name := path.Split(r.URL.Path)
	f, ok := h.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	header.Set("Cache-Control", "no-cache") // cached, but revalidated
	header.Set("Content-Type", f.mediaType)
	header.Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(f.content))
}

// addSlash redirects to the same path with a slash. The location is relative, because only the
// client knows the whole path; without "./" it could be read as a host or a scheme.
func addSlash(w http.ResponseWriter, r *http.Request) {
	escaped, _, _ := strings.Cut(r.RequestURI, "?")
	name := path.Base(escaped)
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	w.Header().Set("Location", "./"+url.PathEscape(name)+"/")
	w.WriteHeader(http.StatusPermanentRedirect)
}

//go:embed web
var web embed.FS

// A file is a served file.
type file struct {
	content   string
	mediaType string
	tag       string // the entity tag, RFC 9110, section 8.8.3
}

// mediaTypeOf returns the media type of a file. It does not use package mime, which depends on
// the configuration of the system.
func mediaTypeOf(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/javascript; charset=utf-8"
}

// load returns the files by name, and the page also as "".
func load(o Options) map[string]file {
	const folder, index = "web", "index.html"
	fill := strings.NewReplacer("{{title}}", html.EscapeString(o.Title), "{{channel}}", html.EscapeString(o.Channel))
	entries, err := web.ReadDir(folder)
	if err != nil {
		panic(err) // impossible: the files are embedded
	}
	files := make(map[string]file, len(entries)+1)
	for _, entry := range entries {
		content, err := web.ReadFile(path.Join(folder, entry.Name()))
		if err != nil {
			panic(err) // as above
		}
		f := file{content: string(content), mediaType: mediaTypeOf(entry.Name())}
		if entry.Name() == index {
			f.content = fill.Replace(f.content)
		}
		sum := sha256.Sum256([]byte(f.content))
		f.tag = `"` + hex.EncodeToString(sum[:12]) + `"`
		files[entry.Name()] = f
	}
	files[""] = files[index]
	return files
}
