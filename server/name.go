package server

import "fmt"

// maxName is the longest name of a tool or prompt. MCP 2025-11-25, server/tools.
const maxName = 128

// checkName refuses names that clients may not be able to use.
func checkName(kind kind, name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%v %.40q: a name has 1 to %d characters, not %d", kind, name, maxName, len(name))
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
		default:
			return fmt.Errorf("%v %q: a name consists of A–Z a–z 0–9 _ - and dot, not of %q", kind, name, c)
		}
	}
	return nil
}
