package netguard

import "net/netip"

// A network is a range of addresses that are not public.
type network struct {
	prefix netip.Prefix
	is     string // what an address of it is
}

// special are the networks that the IANA registries of special-purpose addresses do not
// mark as globally reachable, and a few whose addresses stand for others. The narrower
// of two comes first, for the sake of its description.
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

// globalUnicast is all that is given out of IPv6 so far. RFC 4291, section 2.4.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// whyNotAddress says why an address is not connected to for the sake of a host, "" if it
// may be.
func (g *Guard) whyNotAddress(addr netip.Addr, host string) string {
	addr = addr.Unmap()
	if g.options.AllowLoopback && isLoopbackHost(host) {
		if !addr.IsLoopback() || addr.Zone() != "" {
			return addr.String() + " is not this machine, which the host stands for (RFC 6761)"
		}
		return ""
	}
	for _, allowed := range g.options.Allow {
		if allowed.Contains(addr) {
			return ""
		}
	}
	if is := whatElse(addr); is != "" {
		return addr.String() + " " + is
	}
	return ""
}

// whatElse says what an address is that is not public, "" if it is. The address is
// unmapped. One with a zone is in no network.
func whatElse(addr netip.Addr) string {
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
