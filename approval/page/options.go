package page

import (
	"cmp"
	"fmt"
	"net/url"
)

// Options configure [Handler]. The zero value is good.
type Options struct {
	// Channel is where the channel is served: a path on the page's own host, or one relative
	// to the page. Default "/approval".
	Channel string
	// Title heads the page. Default "Approvals".
	Title string
	// Hosts are the names under which the page may be reached, such as "example.com" or
	// "example.com:8443". On a loopback address the loopback names are always allowed and, by
	// default, nothing else; on any other address everything is unless names are listed.
	Hosts []string
}

func (o *Options) withDefaults() Options {
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Channel = cmp.Or(opts.Channel, "/approval")
	opts.Title = cmp.Or(opts.Title, "Approvals")
	return opts
}

// checkChannel refuses what the page could not connect to: it is told to reach its own host
// only.
func checkChannel(channel string) error {
	u, err := url.Parse(channel)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || u.Fragment != "" {
		return fmt.Errorf("Options.Channel: expected a path such as /approval, not %q", channel)
	}
	return nil
}
