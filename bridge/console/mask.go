package console

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

var (
	// The values of members with these words in their names are masked. Names are compared in lower case, without other
	// characters than letters and digits.
	secretWords = []string{"password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "credential", "authorization", "cookie", "bearer"}
	// publicTokens end with the word token, and are no secrets.
	publicTokens = []string{"progresstoken", "pagetoken", "synctoken"}
)

// isSecretName reports whether a member with the name may have a secret.
func isSecretName(name string) bool {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 0x7f {
			return r
		}
		return -1
	}, strings.ToLower(name))
	for _, word := range secretWords {
		if strings.Contains(plain, word) {
			return true
		}
	}
	return strings.HasSuffix(plain, "token") && !slices.ContainsFunc(publicTokens, func(public string) bool { return strings.HasSuffix(plain, public) })
}

// maskSecrets returns a JSON text, which may be cut, with other values of the members with the names of secrets, and how many
// there are. Strings that are JSON texts are masked too. inString says that the text begins within a string.
func maskSecrets(text string, inString bool) (masked string, n int) {
	var out strings.Builder
	kept, at := 0, 0 // the text before kept is in out
	replace := func(from, to int, by string, values int) {
		out.WriteString(text[kept:from])
		out.WriteString(by)
		kept, n = to, n+values
	}
	if inString {
		at = endOfString(text, -1)
	}
	for at < len(text) {
		if text[at] != '"' {
			at++
			continue
		}
		end := endOfString(text, at)
		value := skipSpace(text, end)
		if value == len(text) { // the string may be cut
			break
		}
		content := jsonscan.Unquote([]byte(text[at:end]))
		if text[value] != ':' {
			if inner, values := maskSecrets(content, false); values > 0 && strings.ContainsAny(content[:1], "{[") {
				replace(at, end, jsonscan.Quote(inner), values)
			}
			at = end
			continue
		}
		at = value + 1
		if isSecretName(content) {
			value = skipSpace(text, at)
			at = endOfValue(text, value)
			if secret := text[value:at]; secret != "" && secret != "null" && secret != `""` {
				replace(value, at, fmt.Sprintf(`"‹secret · %d bytes›"`, len(secret)), 1)
			}
		}
	}
	return out.String() + text[kept:], n
}

// endOfString returns the end of the string that begins at a position, -1 for before the text, or of the text.
func endOfString(text string, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return len(text)
}

func skipSpace(text string, at int) int {
	return len(text) - len(strings.TrimLeft(text[at:], " \t\r\n"))
}

// endOfValue returns the end of the value that begins at a position, or of the text.
func endOfValue(text string, at int) int {
	depth := 0
	for at < len(text) {
		switch text[at] {
		case '"':
			at = endOfString(text, at)
			if depth == 0 {
				return at
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return len(text)
}
