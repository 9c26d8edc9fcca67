package uritemplate

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Matching works on canonical text, in which equivalent URIs are equal bytes:
//
//   - a percent-encoded unreserved character is that character,
//   - a percent-encoded octet above 127 is that octet,
//   - any other percent-encoded character takes the two bytes that UTF-8 would
//     need if it allowed longer forms than necessary ("%2F" is C0 AF).
//
// An encoded delimiter therefore differs from a delimiter, a search never finds the middle of a
// percent-encoded character, and text without percent signs is canonical.

// Equivalent returns the canonical spelling of a URI, which is the same for URIs that are equivalent: they differ only
// in the case of scheme and host, in the case of hexadecimal digits, and in the percent-encoding of characters that
// need none. RFC 3986, section 6.2.2. The scheme and the host are in lower case, hexadecimal digits in upper case, and
// characters beyond ASCII are not encoded. A URI that is malformed is equivalent only to itself. A URI without percent
// signs that is canonical costs no allocation.
func Equivalent(uri string) string {
	text, ok := canonical(uri)
	if !ok {
		return uri
	}
	n := foldedLength(text)
	if folded := strings.ToLower(text[:n]); folded != text[:n] {
		text = folded + text[n:]
	}
	if hasEncoded(text) {
		return encode(text)
	}
	return text
}

// HasScheme reports whether a URI, or an equivalent one, begins with a scheme such as "ui://", in lower case.
func HasScheme(uri, scheme string) bool {
	uri = Equivalent(uri)
	return len(uri) >= len(scheme) && strings.EqualFold(uri[:len(scheme)], scheme) // a malformed URI keeps its case
}

// encode returns canonical text as a URI, with percent signs.
func encode(text string) string {
	var dst []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == 0xC0 || c == 0xC1 {
			i++
			dst = fmt.Appendf(dst, "%%%02X", c<<6|text[i]&0x3F)
			continue
		}
		dst = append(dst, c)
	}
	return string(dst)
}

// hasEncoded reports whether canonical text has a percent-encoded character.
func hasEncoded(text string) bool {
	return strings.IndexByte(text, 0xC0) >= 0 || strings.IndexByte(text, 0xC1) >= 0
}

// canonical returns the canonical form of uri; ok is false if uri has malformed
// percent-encoding or is, decoded, not valid UTF-8.
func canonical(uri string) (text string, ok bool) {
	if !utf8.ValidString(uri) {
		return "", false
	}
	if !strings.Contains(uri, "%") {
		return uri, true
	}
	dst := make([]byte, 0, len(uri))
	for rest := uri; ; {
		plain, _, found := strings.Cut(rest, "%")
		dst = append(dst, plain...)
		if !found {
			break
		}
		octet, ok := readTriplet(rest[len(plain):])
		if !ok {
			return "", false
		}
		switch {
		case isUnreserved(octet):
			dst = append(dst, octet)
		case octet < utf8.RuneSelf:
			dst = append(dst, 0xC0|octet>>6, 0x80|octet&0x3F)
		case octet == 0xC0, octet == 0xC1: // never in UTF-8; they mark encoded characters here
			return "", false
		default:
			dst = append(dst, octet)
		}
		rest = rest[len(plain)+3:]
	}
	text = string(dst)
	return text, utf8.ValidString(decode(text))
}

// decode returns canonical text with all percent-encoding decoded.
func decode(text string) string {
	if !hasEncoded(text) {
		return text
	}
	dst := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == 0xC0 || c == 0xC1 {
			i++
			c = c<<6 | text[i]&0x3F
		}
		dst = append(dst, c)
	}
	return string(dst)
}

// isUnreserved: RFC 3986, section 2.3.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// readTriplet decodes the percent-encoded octet at the start of s.
func readTriplet(s string) (octet byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:3], 16, 8)
	return byte(n), err == nil
}
