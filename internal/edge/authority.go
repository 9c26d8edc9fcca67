package edge

import (
	"net/netip"
	"strconv"
	"strings"
)

// An authority is a host with an optional port, in one spelling: names in lower case
// without a trailing dot, addresses unmapped. RFC 3986, section 3.2. Exactly one of
// name and addr is set.
type authority struct {
	name string
	addr netip.Addr
	port string // "" when none was given
}

// parseAuthority reads what a Host header may hold. What browsers would rewrite before
// they send it, such as 127.1, is refused: nobody sends it in good faith.
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
	numeric, ok := checkName(host)
	if !ok {
		return authority{}, false
	}
	if !numeric {
		return authority{name: strings.ToLower(host), port: port}, true
	}
	addr, err := netip.ParseAddr(host)
	return authority{addr: addr, port: port}, err == nil
}

// splitPort cuts the port off. A colon without a port is legal.
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

// checkName looks at the labels of a name. A name whose last label is a number is
// an IPv4 address or nothing: URL Standard, section "ends in a number".
func checkName(name string) (numeric, ok bool) {
	label := 0 // length of the label so far
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

// isLoopback tells whether an authority names this machine to everyone: RFC 6761,
// section 6.3, has localhost and all names below it lead nowhere else.
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
