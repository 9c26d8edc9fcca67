package httpguard

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// unknownNetwork is the network of all clients without an address.
const unknownNetwork = "unknown"

// Network returns the network of the client of a request: its IPv4 address, or the first 64 bits of its IPv6 address, such as
// 2001:db8:1:2::/64. If a trusted proxy has sent the request, the client is the last address in X-Forwarded-For that is not a
// trusted proxy, since a client can write the addresses before it. Addresses may have a port. Network returns "unknown" if
// RemoteAddr is not an address, such as over a Unix socket, so that all these clients together have one share of a limit.
func Network(r *http.Request, trusted []netip.Prefix) string {
	client, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return unknownNetwork
	}
	if isTrusted(client, trusted) {
		client = forwardedFor(r.Header["X-Forwarded-For"], client, trusted)
	} else if host, _, _ := strings.Cut(r.RemoteAddr, ":"); strings.Contains(host, ".") { // IPv4, without an allocation
		return host
	}
	if client.Is4() {
		return client.String()
	}
	return netip.PrefixFrom(client, 64).Masked().String()
}

// parseAddress parses an address with or without a port. IPv6 addresses without a port may have brackets. The result has no
// zone, and is not an IPv4 address in IPv6.
func parseAddress(s string) (address netip.Addr, ok bool) {
	if withPort, err := netip.ParseAddrPort(s); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		s = s[1 : len(s)-1]
	}
	address, err := netip.ParseAddr(s)
	return address.Unmap().WithZone(""), err == nil
}

// isTrusted reports whether an address from [parseAddress] has one of the prefixes.
func isTrusted(address netip.Addr, trusted []netip.Prefix) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		return p.Contains(address)
	})
}

// forwardedFor returns the last address of the header that is not a trusted proxy. A malformed address ends the search:
// the proxy that has written it is the client.
func forwardedFor(lines []string, client netip.Addr, trusted []netip.Prefix) netip.Addr {
	for _, line := range slices.Backward(lines) {
		for line != "" {
			comma := strings.LastIndexByte(line, ',')
			address, ok := parseAddress(strings.TrimSpace(line[comma+1:]))
			if !ok {
				return client
			}
			client = address
			if !isTrusted(client, trusted) {
				return client
			}
			line = line[:max(0, comma)]
		}
	}
	return client
}
