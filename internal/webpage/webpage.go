// Package webpage serves the web pages of this module: files that are embedded, with headers that let a page load nothing else,
// and modules that the pages share.
//
//   - json.js and arguments.js lay JSON texts out without changing a byte of their tokens.
//   - visible.js shows texts of peers so that every character is visible.
//   - connection.js is a WebSocket to the server, with reconnection.
//   - token.js, settings.js, keys.js and clock.js have what a page keeps in a browser, and what it asks the server for.
//   - theme.css has colors and controls.
//   - approvals.js is a list of requests that a person accepts or rejects. approvals.html has its templates, and approvals.css its
//     design.
package webpage

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/httpguard"
)

//go:embed web
var shared embed.FS

const folder, index, fragment = "web", "index.html", "approvals.html"

// A Page serves a page and its files, for GET and HEAD. It may be mounted anywhere, with or without [http.StripPrefix], as long
// as the path of the page ends with a slash: only the last element of a path is used. An empty path is redirected to the path
// with the slash. It may be used concurrently.
type Page struct {
	guard *httpguard.Guard
	files map[string]file // by name; "" is the page itself
}

// New returns a page whose files are in the folder web of own, beside the shared ones. In index.html, values replace {{NAME}}, and
// the templates of approvals {{approvals.html}}.
func New(own embed.FS, values map[string]string, guard *httpguard.Guard) *Page {
	p := &Page{guard: guard, files: make(map[string]file)}
	p.load(shared, strings.NewReplacer())
	replacements := []string{"{{" + fragment + "}}", p.files[fragment].content}
	delete(p.files, fragment)
	for name, value := range values {
		replacements = append(replacements, "{{"+name+"}}", html.EscapeString(value))
	}
	p.load(own, strings.NewReplacer(replacements...))
	p.files[""] = p.files[index]
	return p
}

// load adds the files of a folder.
func (p *Page) load(from embed.FS, fill *strings.Replacer) {
	entries, err := from.ReadDir(folder)
	if err != nil {
		panic(err) // impossible: the files are embedded
	}
	for _, entry := range entries {
		content, err := fs.ReadFile(from, path.Join(folder, entry.Name()))
		if err != nil {
			panic(err) // as above
		}
		f := file{content: string(content), mediaType: mediaTypeOf(entry.Name())}
		if entry.Name() == index {
			f.content = fill.Replace(f.content)
		}
		sum := sha256.Sum256([]byte(f.content))
		f.tag = `"` + hex.EncodeToString(sum[:12]) + `"`
		p.files[entry.Name()] = f
	}
}

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

// The page may load only its own files, connect only to its own host, and not create markup from
// text.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP serves a file. A request with a Host that is not allowed gets the status 403.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	if !p.guard.Admit(w, r, http.MethodGet, http.MethodHead) {
		return
	}
	if r.URL.Path == "" {
		addSlash(w, r)
		return
	}
	_, name := path.Split(r.URL.Path)
	f, ok := p.files[name]
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
