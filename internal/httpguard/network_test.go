package httpguard_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/dovetail-go/dovetail/internal/httpguard"
)

func TestNetwork(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
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
		{"a Unix socket", "@", []string{"198.51.100.1"}, ""},
		{"no address", "", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tc.remote, Header: http.Header{"X-Forwarded-For": tc.forwarded}}
			if got := httpguard.Network(r, trusted); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	r := &http.Request{RemoteAddr: "192.0.2.7:1234"}
	if n := testing.AllocsPerRun(100, func() { httpguard.Network(r, nil) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
