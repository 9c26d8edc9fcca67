package httpguard_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/dovetail-go/dovetail/internal/httpguard"
)

func TestNetwork(t *testing.T) {
	var trusted []netip.Prefix
	for _, prefix := range []string{"10.0.0.0/8", "fd00::/8", "::ffff:172.16.0.0/108", "fe81::/16"} {
		trusted = append(trusted, netip.MustParsePrefix(prefix))
	}
	for _, tc := range []struct {
		name, remote string
		forwarded    []string
		want         string
	}{
		{"IPv4", "192.0.2.7:1234", nil, "192.0.2.7"},
		{"IPv4 in IPv6", "[::ffff:192.0.2.7]:1234", nil, "192.0.2.7"},
		{"IPv6", "[2001:db8:1:2:3:4:5:6]:1234", nil, "2001:db8:1:2::/64"},
		{"link-local with a zone", "[fe80::1%eth0]:1234", nil, "fe80::/64"},
		{"a header of a stranger", "192.0.2.7:1", []string{"198.51.100.1"}, "192.0.2.7"},
		{"a trusted proxy", "10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a trusted proxy without the header", "10.0.0.1:1", nil, "10.0.0.1"},
		{"two trusted proxies", "10.0.0.1:1", []string{"198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"an address that the client has written", "10.0.0.1:1", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		{"a line that the client has written", "10.0.0.1:1", []string{"203.0.113.9", "198.51.100.1"}, "198.51.100.1"},
		{"a trusted IPv6 proxy", "[fd00::1]:1", []string{"2001:db8::1"}, "2001:db8::/64"},
		{"a trusted address that the client has written", "10.0.0.1:1", []string{"10.9.9.9, 198.51.100.1"}, "198.51.100.1"},
		{"only proxies", "10.0.0.1:1", []string{"10.0.0.3,10.0.0.2"}, "10.0.0.3"},
		{"malformed", "10.0.0.1:1", []string{"203.0.113.9, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"an empty header", "10.0.0.1:1", []string{""}, "10.0.0.1"},
		{"a Unix socket", "@", []string{"198.51.100.1"}, "unknown"},
		{"no address", "", nil, "unknown"},
		{"a name", "client:1", nil, "unknown"},
		{"IPv4 without a port", "192.0.2.7", nil, "192.0.2.7"},
		{"IPv6 without a port", "2001:db8:1:2:3:4:5:6", nil, "2001:db8:1:2::/64"},
		{"IPv6 in brackets", "[2001:db8:1:2:3:4:5:6]", nil, "2001:db8:1:2::/64"},
		{"IPv4 in IPv6 without a port", "::ffff:192.0.2.7", nil, "192.0.2.7"},
		{"a trusted proxy without a port", "10.0.0.1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a forwarded IPv4 address with a port", "10.0.0.1:1", []string{"203.0.113.7:51234"}, "203.0.113.7"},
		{"a forwarded IPv6 address with a port", "10.0.0.1:1", []string{"[2001:db8::1]:443"}, "2001:db8::/64"},
		{"a forwarded IPv6 address in brackets", "10.0.0.1:1", []string{"[2001:db8::1]"}, "2001:db8::/64"},
		{"a forwarded IPv4 address in IPv6 with a port", "10.0.0.1:1", []string{"[::ffff:203.0.113.7]:1"}, "203.0.113.7"},
		{"a forwarded address without the end of its brackets", "10.0.0.1:1", []string{"[2001:db8::1"}, "10.0.0.1"},
		{"two trusted proxies with ports", "10.0.0.1:1", []string{"198.51.100.1:2, 10.0.0.2:3"}, "198.51.100.1"},
		{"a trusted prefix of IPv4 in IPv6", "172.16.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"outside of a trusted prefix of IPv4 in IPv6", "172.32.0.1:1", []string{"198.51.100.1"}, "172.32.0.1"},
		{"a trusted proxy with a zone", "[fe81::1%eth0]:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a forwarded proxy with a zone", "10.0.0.1:1", []string{"198.51.100.1, fe81::1%eth0"}, "198.51.100.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tc.remote, Header: http.Header{"X-Forwarded-For": tc.forwarded}}
			if got := httpguard.Network(r, trusted); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	r := &http.Request{RemoteAddr: "192.0.2.7:1234"}
	if n := testing.AllocsPerRun(100, func() { httpguard.Network(r, trusted) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
