package gateway

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Launch says how a server is launched, for approvers and for an approval to hold to: its
// command line, or its URL without user, query and fragment, the names of the variables and
// headers that it gets, and the server's fingerprint, which covers their values too.
//
//	npx -y some-server /data (cwd /srv; env API_KEY, HOME) sha256:9f86…
//
// Variables of a configuration stand in it as they do there, with no values. It is one line
// that a terminal can show.
func Launch(r *config.Resolved) string {
	var b strings.Builder
	if r.Type == config.Stdio {
		b.WriteString(word(r.Command.String()))
		for _, arg := range r.Args {
			b.WriteString(" " + word(arg.String()))
		}
	} else {
		b.WriteString(string(r.Type) + " " + word(r.URL.String()))
	}
	var more []string
	if dir := r.Dir.String(); dir != "" {
		more = append(more, "cwd "+word(dir))
	}
	if r.Options.InheritEnv {
		more = append(more, "this process's environment")
	}
	if len(r.Env) > 0 {
		more = append(more, "env "+names(r.Env))
	}
	if len(r.Headers) > 0 {
		more = append(more, "headers "+names(r.Headers))
	}
	if len(more) > 0 {
		b.WriteString(" (" + strings.Join(more, "; ") + ")")
	}
	return b.String() + " sha256:" + r.Fingerprint()
}

func names(secrets map[string]config.Secret) string {
	sorted := slices.Sorted(maps.Keys(secrets))
	for i, name := range sorted {
		sorted[i] = word(name)
	}
	return strings.Join(sorted, ", ")
}

// word is a text as it stands, unless it could be taken for something else: then in quotes.
func word(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"'\();,`, r)
	}) < 0
	if plain && text != "" {
		return text
	}
	return approval.PrintableJSON(jsonscan.AppendString(nil, text))
}
