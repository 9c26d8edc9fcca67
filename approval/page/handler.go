package page

import (
	"cmp"
	"embed"
	"fmt"
	"net/http"
	"net/url"

	"github.com/dovetail-go/dovetail/internal/httpguard"
	"github.com/dovetail-go/dovetail/internal/webpage"
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
	return webpage.New(web, map[string]string{"title": o.Title, "channel": o.Channel}, guard)
}

// checkChannel refuses channels on other hosts, because the Content-Security-Policy does.
func checkChannel(channel string) error {
	u, err := url.Parse(channel)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || u.Fragment != "" {
		return fmt.Errorf("Options.Channel: expected a path such as /approval, not %q", channel)
	}
	return nil
}

//go:embed web
var web embed.FS
