package oauth

import (
	"net/url"
	"strings"
)

// OpenBrowserBy is OpenBrowser for any operating system and any way to start a command.
var OpenBrowserBy = openBrowser

// Waiting returns how many callers wait for a token for a server.
func Waiting(c *Client, server string) int {
	u, err := url.Parse(server)
	if err != nil {
		return 0
	}
	return c.calls.waiters(serverKey(u))
}

// Querying returns how many callers wait for introspection responses.
func Querying(v Verifier) int { return v.(*introspection).queries.waiters("") }

func (s *sharedCalls[V]) waiters(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := 0
	for key, call := range s.calls {
		if strings.HasPrefix(key, prefix) {
			all += call.waiters
		}
	}
	return all
}
