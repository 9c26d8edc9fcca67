package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// Separator stands between a server's alias and the name of a tool or prompt.
	Separator = "__"
	// MaxName is how long a name is at most, since models take no longer ones.
	MaxName = 64

	maxAlias = 40
	tailSize = 9 // an underscore and eight digits
)

// Name is what a server's tool or prompt is called here: alias__name. It depends on
// nothing else, so that it stays what it is, whatever other servers there are. Where it
// would be longer than [MaxName], or has characters other than A–Z a–z 0–9 _ and -, which
// models do not take, its end is a digest of the two.
//
// Do not take a name apart: a tool's own name may hold the separator.
func Name(alias, name string) string {
	full := alias + Separator + name
	short := strings.Map(plain, full)
	if short == full && len(full) <= MaxName {
		return full
	}
	digest := sha256.Sum256([]byte(alias + "\x00" + name))
	return short[:min(len(short), MaxName-tailSize)] + "_" + hex.EncodeToString(digest[:4])
}

// plain replaces a character that models do not take.
func plain(c rune) rune {
	if isPlain(c) {
		return c
	}
	return '_'
}

// prefixOf returns how the names of a server's tools and prompts begin, as far as that is known
// before it has listed them. Names of [Name] may end in a digest instead.
func (o *Options) prefixOf(alias string) string {
	if o.Name == nil {
		return strings.Map(plain, alias+Separator)
	}
	return o.Name(alias, "")
}

func isPlain(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// checkAlias refuses what would make names unclear.
func checkAlias(alias string) error {
	switch {
	case alias == "" || len(alias) > maxAlias:
		return fmt.Errorf("the alias %.60q: it has 1 to %d characters", alias, maxAlias)
	case strings.Contains(alias, Separator), strings.HasSuffix(alias, "_"):
		return fmt.Errorf("the alias %q: it must not contain %q, nor end with %q", alias, Separator, "_") // or a_, b would be a, _b
	}
	for _, c := range alias {
		if !isPlain(c) && c != '.' {
			return fmt.Errorf("the alias %q: it consists of A–Z a–z 0–9 _ - and dot, not of %q", alias, c)
		}
	}
	return nil
}
