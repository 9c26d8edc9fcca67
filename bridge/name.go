package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

const (
	// Separator separates a server's alias from the name of a tool or prompt.
	Separator = "__"

	maxName      = 64 // bytes: APIs of models accept no longer names
	maxAlias     = 40
	maxEventName = 128
	digestSuffix = 9 // bytes: an underscore and eight hexadecimal digits
)

// Name returns the name of a server's tool or prompt in a bridge: ALIAS__NAME. It depends on
// no other server. APIs of models refuse names of more than 64 bytes, and characters
// other than A–Z a–z 0–9 _ and -. A name that would be longer or have such characters ends in a digest
// of alias and name instead.
//
// Do not parse names: the name of a tool may contain the separator.
func Name(alias, name string) string {
	full := alias + Separator + name
	plain := replaceSpecial(full)
	if plain == full && len(full) <= maxName {
		return full
	}
	digest := sha256.Sum256([]byte(alias + "\x00" + name))
	return plain[:min(len(plain), maxName-digestSuffix)] + "_" + hex.EncodeToString(digest[:4])
}

// eventName returns the name of a server's event in a bridge: ALIAS__NAME. Unlike tools, events are not
// called by models, so the name keeps its dots, and may have 128 bytes. Other names are as of [Name].
func eventName(alias, name string) string {
	full := alias + Separator + name
	plain := strings.ReplaceAll(full, ".", "_")
	if len(full) <= maxEventName && replaceSpecial(plain) == plain && !strings.Contains(alias, ".") {
		return full
	}
	return Name(alias, name)
}

// replaceSpecial replaces characters that APIs of models refuse.
func replaceSpecial(name string) string {
	return strings.Map(func(c rune) rune {
		if isPlain(c) {
			return c
		}
		return '_'
	}, name)
}

// prefixOf returns the prefix of the names of a server's tools and prompts. A name that ends
// in a digest may have a shorter prefix.
func (o *Options) prefixOf(alias string) string {
	if o.Name == nil {
		return replaceSpecial(alias + Separator)
	}
	return o.Name(alias, "")
}

func isPlain(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// CheckAlias returns an error if a server cannot have the alias. An alias has 1 to 40
// of the characters A–Z a–z 0–9 _ - and dot, does not contain [Separator] and does not end
// with _.
func CheckAlias(alias string) error {
	switch {
	case alias == "" || len(alias) > maxAlias:
		return fmt.Errorf("the alias %.60q: expected 1 to %d characters", alias, maxAlias)
	case strings.Contains(alias, Separator), strings.HasSuffix(alias, "_"): // a_ + b must not equal a + _b
		return fmt.Errorf("the alias %q: expected no %q, and no %q at the end", alias, Separator, "_")
	}
	for _, c := range alias {
		if !isPlain(c) && c != '.' {
			return fmt.Errorf("the alias %q: expected A–Z a–z 0–9 _ - and dot, found %q", alias, c)
		}
	}
	return nil
}
