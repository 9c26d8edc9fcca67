package edge

import "strings"

// An origin is scheme, host and port of a page. RFC 6454, section 7; the port is ""
// where it is the scheme's own, as browsers write it.
type origin struct {
	scheme string
	authority
}

// parseOrigin reads an origin. "null" is none.
func parseOrigin(text string) (origin, bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !isScheme(scheme) {
		return origin{}, false
	}
	host, ok := parseAuthority(rest)
	o := origin{strings.ToLower(scheme), host}
	if o.port == ownPort(o.scheme) {
		o.port = ""
	}
	return o, ok
}

func ownPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}

// isScheme checks the grammar of RFC 3986, section 3.1.
func isScheme(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return text != ""
}

// isLoopback tells whether a page of this origin was served by this machine.
func (o origin) isLoopback() bool {
	return (o.scheme == "http" || o.scheme == "https") && o.authority.isLoopback()
}
