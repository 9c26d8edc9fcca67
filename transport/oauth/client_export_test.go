package oauth

import "net/url"

// OpenBrowserBy is OpenBrowser on any system, with any way to start a command.
var OpenBrowserBy = openBrowser

// Waiting is how many wait for a token for a server.
func Waiting(c *Client, server string) int {
	u, err := url.Parse(server)
	if err != nil {
		return 0
	}
	a, drop := c.servers.take(serverKey(u))
	defer drop()
	return a.flights.waiting()
}

// Asking is how many wait for answers about tokens.
func Asking(v *Introspection) int { return v.together.waiting() }

func (f *flights[V]) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := 0
	for _, one := range f.byName {
		all += one.waiting
	}
	return all
}
