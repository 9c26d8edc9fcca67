package webclient

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ParseURL reads the URL of a server, which must be one of http or https. A fragment
// is dropped. Errors do not tell the URL, which may hold a password.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("the server's URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, errors.New("the server's URL must begin with http:// or https:// and a host")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// SameOrigin compares scheme, host and port, which may be left out when it is the
// scheme's own. RFC 6454, section 5.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// Origin is scheme, host and port in one spelling. RFC 6454, section 4.
func Origin(u *url.URL) string {
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port(u)
}
