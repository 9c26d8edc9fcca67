package netguard

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Check checks a URL without looking up its host. The error is a [*RefusedError].
func (g *Guard) Check(text string) error {
	_, err := g.parse(text)
	return err
}

func (g *Guard) parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, &RefusedError{Reason: "it is not a URL (RFC 3986)"} // the text may hold a secret
	}
	return u, g.checkURL(u)
}

func (g *Guard) checkURL(u *url.URL) error {
	if reason := g.urlRefusal(u); reason != "" {
		return &RefusedError{URL: withoutSecrets(u), Reason: reason}
	}
	return nil
}

func (g *Guard) urlRefusal(u *url.URL) string {
	host := u.Hostname()
	local := g.options.AllowLoopback && IsLoopback(host)
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !local && !g.allowsHTTP(host)):
		return "its scheme must be https"
	case u.User != nil: // it can mislead: RFC 9110, section 4.2.4
		return "it holds user information"
	case !isPort(u.Port()):
		return "its port is not one of 1 to 65535"
	case local:
		return ""
	case isLocalhost(host):
		return "its host is this machine"
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.addressRefusal(addr, host)
	}
	return nameRefusal(strings.TrimSuffix(host, "."))
}

func (g *Guard) allowsHTTP(host string) bool {
	return slices.ContainsFunc(g.options.AllowHTTP, func(allowed string) bool { return strings.EqualFold(allowed, host) })
}

// nameRefusal refuses names that no public host has, in particular addresses in spellings
// that only some resolvers accept, such as 127.1, 0177.0.0.1 and 0x7f000001. A name that
// ends in a number is an address: URL Standard, section "ends in a number".
func nameRefusal(name string) string {
	if name == "" || len(name) > maxName {
		return "its host is not a name of 1 to 253 bytes"
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.Trim(label, nameCharacters) != "" {
			return "its host is not a name of letters, digits, hyphens and dots; others are written in punycode (RFC 5890)"
		}
		last = label
	}
	if isNumber(last) {
		return "its host is an address, but not written as four decimal numbers"
	}
	return ""
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}

func isNumber(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(strings.ToLower(label), "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

// nameCharacters are the characters of names in use. RFC 952 does not have the underscore.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// IsLoopback reports whether a host is this machine for every resolver.
func IsLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return isLocalhost(host)
	}
	return addr.Unmap().IsLoopback() && addr.Zone() == ""
}

// isLocalhost reports whether a host is localhost or a subdomain of it, which are always
// this machine. RFC 6761, section 6.3.
func isLocalhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// A network is a range of addresses that are not public.
type network struct {
	prefix netip.Prefix
	is     string // completes "the address …"
}

// special are the networks that the IANA registries of special-purpose addresses do not
// mark as globally reachable, and networks whose addresses contain another address. The
// narrower of two networks comes first, because its description is more precise.
//
// https://www.iana.org/assignments/iana-ipv4-special-registry
// https://www.iana.org/assignments/iana-ipv6-special-registry
var special = []network{
	{netip.MustParsePrefix("0.0.0.0/8"), "is unspecified (RFC 791)"},
	{netip.MustParsePrefix("10.0.0.0/8"), "is private (RFC 1918)"},
	{netip.MustParsePrefix("100.64.0.0/10"), "belongs to a carrier's NAT (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "is this machine (RFC 1122)"},
	{netip.MustParsePrefix("168.63.129.16/32"), "is the platform's own on Azure"},
	{netip.MustParsePrefix("169.254.0.0/16"), "is link-local (RFC 3927)"},
	{netip.MustParsePrefix("172.16.0.0/12"), "is private (RFC 1918)"},
	{netip.MustParsePrefix("192.0.0.0/24"), "is for protocols (RFC 6890)"},
	{netip.MustParsePrefix("192.0.2.0/24"), "is for documentation (RFC 5737)"},
	{netip.MustParsePrefix("192.88.99.0/24"), "is a 6to4 relay (RFC 7526)"},
	{netip.MustParsePrefix("192.168.0.0/16"), "is private (RFC 1918)"},
	{netip.MustParsePrefix("198.18.0.0/15"), "is for benchmarks (RFC 2544)"},
	{netip.MustParsePrefix("198.51.100.0/24"), "is for documentation (RFC 5737)"},
	{netip.MustParsePrefix("203.0.113.0/24"), "is for documentation (RFC 5737)"},
	{netip.MustParsePrefix("224.0.0.0/4"), "is multicast (RFC 5771)"},
	{netip.MustParsePrefix("240.0.0.0/4"), "is reserved (RFC 1112)"},

	{netip.MustParsePrefix("::/128"), "is unspecified (RFC 4291)"},
	{netip.MustParsePrefix("::1/128"), "is this machine (RFC 4291)"},
	{netip.MustParsePrefix("::/96"), "holds an IPv4 address (RFC 4291)"},
	{netip.MustParsePrefix("64:ff9b::/96"), "holds an IPv4 address (NAT64, RFC 6052)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "holds an IPv4 address (NAT64, RFC 8215)"},
	{netip.MustParsePrefix("100::/64"), "is discarded (RFC 6666)"},
	{netip.MustParsePrefix("2001::/32"), "holds an IPv4 address (Teredo, RFC 4380)"},
	{netip.MustParsePrefix("2001::/23"), "is for protocols (RFC 2928)"},
	{netip.MustParsePrefix("2001:db8::/32"), "is for documentation (RFC 3849)"},
	{netip.MustParsePrefix("2002::/16"), "holds an IPv4 address (6to4, RFC 3056)"},
	{netip.MustParsePrefix("3fff::/20"), "is for documentation (RFC 9637)"},
	{netip.MustParsePrefix("fc00::/7"), "is private (RFC 4193)"},
	{netip.MustParsePrefix("fe80::/10"), "is link-local (RFC 4291)"},
	{netip.MustParsePrefix("fec0::/10"), "is site-local (RFC 3879)"},
	{netip.MustParsePrefix("ff00::/8"), "is multicast (RFC 4291)"},
}

// globalUnicast is the part of IPv6 that is assigned so far. RFC 4291, section 2.4.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// addressRefusal says why an address of a host is refused, "" if it is allowed.
func (g *Guard) addressRefusal(addr netip.Addr, host string) string {
	addr = addr.Unmap()
	if g.options.AllowLoopback && IsLoopback(host) {
		if !addr.IsLoopback() || addr.Zone() != "" {
			return addr.String() + " is not this machine, as the name of the host requires (RFC 6761)"
		}
		return ""
	}
	for _, allowed := range g.options.Allow {
		if allowed.Contains(addr) {
			return ""
		}
	}
	if is := specialUse(addr); is != "" {
		return addr.String() + " " + is
	}
	return ""
}

// specialUse says why an address is not public, "" if it is public. The address is
// unmapped. An address with a zone is in no network of the list.
func specialUse(addr netip.Addr) string {
	for i := range special {
		if special[i].prefix.Contains(addr) {
			return special[i].is
		}
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return "is not global unicast (RFC 4291)"
	}
	return ""
}
