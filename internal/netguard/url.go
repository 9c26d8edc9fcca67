package netguard

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Check says whether a URL may be fetched, as far as that can be told without looking
// up its name. The error is a [*RefusedError].
func (g *Guard) Check(text string) error {
	_, err := g.parse(text)
	return err
}

func (g *Guard) parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, &RefusedError{Reason: "it is not a URL (RFC 3986)"} // what it is may hold a secret
	}
	return u, g.checkURL(u)
}

// checkURL refuses what must not be looked up, let alone connected to.
func (g *Guard) checkURL(u *url.URL) error {
	if reason := g.whyNotURL(u); reason != "" {
		return &RefusedError{URL: withoutSecrets(u), Reason: reason}
	}
	return nil
}

func (g *Guard) whyNotURL(u *url.URL) string {
	host := u.Hostname()
	local := g.options.AllowLoopback && isLoopbackHost(host)
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !local):
		return "its scheme must be https"
	case u.User != nil: // RFC 9110, section 4.2.4: it is there to mislead
		return "it holds user information"
	case !isPort(u.Port()):
		return "its port is not one of 1 to 65535"
	case local:
		return ""
	case isLocalhost(host):
		return "its host is this machine"
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return g.whyNotAddress(addr, host)
	}
	return whyNotName(strings.TrimSuffix(host, "."))
}

// whyNotName refuses names that no public host has: above all addresses in spellings
// that only some resolvers read, such as 127.1, 0177.0.0.1 and 0x7f000001. What ends in
// a number is an address or nothing: URL Standard, section "ends in a number".
func whyNotName(name string) string {
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

// nameCharacters are those of names in use; the underscore is not in RFC 952.
const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// isLoopbackHost tells whether a host names this machine to everyone.
func isLoopbackHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return isLocalhost(host)
	}
	return addr.Unmap().IsLoopback() && addr.Zone() == ""
}

// isLocalhost: RFC 6761, section 6.3, has localhost and all names below it lead nowhere
// else.
func isLocalhost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
