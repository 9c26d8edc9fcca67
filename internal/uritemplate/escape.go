package uritemplate

import "strings"

const upperHex = "0123456789ABCDEF"

// appendEscaped percent-encodes what is not unreserved. With reserved it also keeps
// reserved characters and percent-encoded triplets (RFC 6570, section 3.2.1).
func appendEscaped(dst []byte, s string, reserved bool) []byte {
	for i := range len(s) {
		c := s[i]
		switch {
		case isUnreserved(c), reserved && (isReserved(c) || startsTriplet(s[i:])):
			dst = append(dst, c)
		default:
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return dst
}

// isUnreserved: RFC 3986, section 2.3.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

// isReserved: RFC 3986, section 2.2.
func isReserved(c byte) bool { return strings.IndexByte(":/?#[]@!$&'()*+,;=", c) >= 0 }

func startsTriplet(s string) bool {
	_, ok := readTriplet(s)
	return ok
}

// readTriplet returns the octet that the percent-encoded triplet at the start of s
// stands for.
func readTriplet(s string) (octet byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	high, ok1 := hexDigit(s[1])
	low, ok2 := hexDigit(s[2])
	return high<<4 | low, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
