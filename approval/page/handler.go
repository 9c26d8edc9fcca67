package page

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/edge"
)

// Handler returns a handler of the page and its files, for GET and HEAD. It may be mounted
// anywhere, with or without [http.StripPrefix], as long as the page's path ends with a
// slash: only the last element of a path counts. What [http.StripPrefix] leaves empty is
// redirected to where the slash is. opts may be nil; a channel or a host in it that cannot
// be one panics.
//
// It refuses a Host that is not allowed (403). It may be used concurrently.
func Handler(opts *Options) http.Handler {
	o := opts.withDefaults()
	guard, err := edge.NewGuard(o.Hosts, nil)
	if err != nil {
		panic("page.Handler: Options." + err.Error())
	}
	if err := checkChannel(o.Channel); err != nil {
		panic("page.Handler: " + err.Error())
	}
	return &handler{guard, load(o)}
}

type handler struct {
	guard *edge.Guard
	files map[string]file // by their names; the page itself is ""
}

// A browser loads nothing but these files, connects to nothing but their host, and lets no
// script make markup of text.
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
	header.Set("Cache-Control", "no-cache") // it may be kept, and is asked for each time
	header.Set("Content-Type", f.kind)
	header.Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(f.content))
}

// addSlash redirects from the folder to what is in it. The location is relative, since only
// the client knows the whole path; "./" keeps it from being read as a host or a scheme.
func addSlash(w http.ResponseWriter, r *http.Request) {
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	w.Header().Set("Location", "./"+url.PathEscape(lastElement(asked))+"/")
	w.WriteHeader(http.StatusPermanentRedirect)
}

func lastElement(escaped string) string {
	name := path.Base(escaped)
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}
