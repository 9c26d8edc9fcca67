package config

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// Fingerprint is a digest of all that decides which program runs, or which server
// is spoken to, with what: alias, type, command, arguments, environment, folder,
// URL and headers, values of secrets included. It is the same in every process, as
// a lock file or the record of an approval needs it, and another as soon as any of
// these differs. The other options do not count, nor does which file the command's
// name leads to.
//
// Who knows all but one secret can try values for it: keep the digests of short
// secrets to yourself. It has 64 hexadecimal digits.
func (r *Resolved) Fingerprint() string {
	var b []byte
	count := func(n int) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	text := func(text string) { // with its length, so that no two lists are alike
		count(len(text))
		b = append(b, text...)
	}
	table := func(table map[string]Secret) {
		count(len(table))
		for _, name := range sortedKeys(table) {
			text(name)
			text(table[name].Reveal())
		}
	}
	text("dovetail server 1")
	text(r.Alias)
	text(string(r.Type))
	text(r.Command.Reveal())
	count(len(r.Args))
	for _, arg := range r.Args {
		text(arg.Reveal())
	}
	table(r.Env)
	if r.Options.InheritEnv {
		text("inherit")
	} else {
		text("")
	}
	text(r.Dir.Reveal())
	text(r.URL.Reveal())
	headers := make(map[string]Secret, len(r.Headers))
	for name, value := range r.Headers {
		headers[strings.ToLower(name)] = value
	}
	table(headers)
	return fmt.Sprintf("%x", sha256.Sum256(b))
}
