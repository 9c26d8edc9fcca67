package config

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/dovetail-go/dovetail/bridge"
)

const (
	maxAlias    = 40 // bytes, as in bridge.CheckAlias
	aliasDigest = 7  // bytes: a hyphen and six hexadecimal digits
)

// alias returns the alias of a server with a name in the file. It is the name itself if that is a valid alias, or else
// an alias that no other server has. The alias of the empty name is empty, which is an error.
func (p *parser) alias(name string) string {
	if name == "" || bridge.CheckAlias(name) == nil {
		return name
	}
	plain := plainAlias(name)
	if plain != "" && len(plain) <= maxAlias && !p.names[plain] && !p.aliases[plain] {
		return plain
	}
	digest := sha256.Sum256([]byte(name))
	plain = strings.TrimRight(plain[:min(len(plain), maxAlias-aliasDigest)], "-_.")
	if plain == "" {
		plain = "server"
	}
	return plain + "-" + hex.EncodeToString(digest[:3])
}

// plainAlias returns the permitted characters of a name, with a hyphen for each sequence of others,
// and without hyphens and underscores at its ends.
func plainAlias(name string) string {
	var b strings.Builder
	for _, r := range name {
		last := ""
		if b.Len() > 0 {
			last = b.String()[b.Len()-1:]
		}
		switch {
		case r == '_' && last == "_":
		case isWord(r), r == '-', r == '.':
			b.WriteRune(r)
		case last != "-":
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "-_")
}
