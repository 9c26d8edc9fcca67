package httpguard

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Network returns the network of the client of a request: its IPv4 address, or the first 64 bits of its IPv6 address, such as
// 2001:db8:1:2::/64. If a trusted proxy has sent the request, the client is the last address in X-Forwarded-For that is not a
// trusted proxy, since a client can write the addresses before it. Network returns "" if the address cannot be parsed, such as
// over a Unix socket.
func Network(r *http.Request, trusted []netip.Prefix) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	client := peer.Addr().Unmap()
	switch {
	case isTrusted(client, trusted):
		client = forwardedFor(r.Header["X-Forwarded-For"], client, trusted)
	case peer.Addr().Is4(): // without an allocation
		return r.RemoteAddr[:strings.LastIndexByte(r.RemoteAddr, ':')]
	}
	if client.Is4() {
		return client.String()
	}
	return netip.PrefixFrom(client.WithZone(""), 64).Masked().String()
}

func isTrusted(address netip.Addr, trusted []netip.Prefix) bool {
	return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(address) })
}

// forwardedFor returns the last address of the header that is not a trusted proxy. A malformed address ends the search:
// the proxy that has written it is the client.
func forwardedFor(lines []string, client netip.Addr, trusted []netip.Prefix) netip.Addr {
	for _, line := range slices.Backward(lines) {
		for line != "" {
			comma := strings.LastIndexByte(line, ',')
			address, err := netip.ParseAddr(strings.TrimSpace(line[comma+1:]))
			if err != nil {
				return client
			}
			client = address.Unmap()
			if !isTrusted(client, trusted) {
				return client
			}
			line = line[:max(0, comma)]
		}
	}
	return client
}
