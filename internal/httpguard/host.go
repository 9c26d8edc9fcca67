package httpguard

import (
	"net/netip"
	"strconv"
	"strings"
)

// An authority is a host with an optional port (RFC 3986, section 3.2) in canonical form:
// names in lower case without a trailing dot, addresses unmapped. Exactly one of name and
// addr is set.
type authority struct {
	name string
	addr netip.Addr
	port string // empty if there is none
}

// parseAuthority parses a Host header. It refuses forms that browsers would rewrite, such
// as 127.1.
func parseAuthority(text string) (authority, bool) {
	host, port, ok := splitPort(text)
	if !ok {
		return authority{}, false
	}
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		inner, bracketed = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !bracketed || err != nil || !addr.Is6() || addr.Zone() != "" {
			return authority{}, false
		}
		return authority{addr: addr.Unmap(), port: port}, true
	}
	host = strings.TrimSuffix(host, ".")
	numeric, ok := classifyName(host)
	if !ok {
		return authority{}, false
	}
	if !numeric {
		return authority{name: strings.ToLower(host), port: port}, true
	}
	addr, err := netip.ParseAddr(host)
	return authority{addr: addr, port: port}, err == nil
}

// splitPort cuts the port off. A colon without a port is valid.
func splitPort(text string) (host, port string, ok bool) {
	colon := strings.LastIndexByte(text, ':')
	if colon < 0 || strings.HasSuffix(text, "]") {
		return text, "", true
	}
	host, port = text[:colon], text[colon+1:]
	if port == "" {
		return host, "", true
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return host, port, err == nil
}

// classifyName checks the labels of a name and reports whether the last one is a number. Such a name must be an
// IPv4 address: URL Standard, section "ends in a number".
func classifyName(name string) (numeric, ok bool) {
	label := 0 // length of the current label
	for i := range len(name) {
		switch c := name[i]; {
		case c == '.':
			if label == 0 {
				return false, false
			}
			label = 0
		case '0' <= c && c <= '9':
			numeric = numeric && label > 0 || label == 0
			label++
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '-', c == '_':
			numeric = false
			label++
		default:
			return false, false
		}
	}
	return numeric, label > 0
}

// isLoopback reports whether an authority names this machine. All names below localhost do
// (RFC 6761, section 6.3).
func (a authority) isLoopback() bool {
	if a.addr.IsValid() {
		return a.addr.IsLoopback()
	}
	return a.name == "localhost" || strings.HasSuffix(a.name, ".localhost")
}

func (a authority) withoutPort() authority {
	a.port = ""
	return a
}

// An origin is the scheme, host and port of a page (RFC 6454, section 7). The port is empty
// if it is the default of the scheme.
type origin struct {
	scheme string
	authority
}

// parseOrigin parses an origin. "null" is not one.
func parseOrigin(text string) (origin, bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !isScheme(scheme) {
		return origin{}, false
	}
	host, ok := parseAuthority(rest)
	o := origin{strings.ToLower(scheme), host}
	if o.port == defaultPort(o.scheme) {
		o.port = ""
	}
	return o, ok
}

func defaultPort(scheme string) string {
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

// isLoopback reports whether a page of this origin was served by this machine.
func (o origin) isLoopback() bool {
	return (o.scheme == "http" || o.scheme == "https") && o.authority.isLoopback()
}
