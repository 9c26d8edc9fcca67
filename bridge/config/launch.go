package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Launch describes how the server is launched, in one line for people who approve calls: its
// command line, or its URL without user, query and fragment, the names of the variables and
// headers that it gets, and its fingerprint, which covers their values too.
//
//	npx -y some-server /data (cwd /srv; env API_KEY, HOME) sha256:9f86…
//
// Variables of a configuration are shown as they are written there, without values.
func (r *Resolved) Launch() string {
	var b strings.Builder
	if r.Type == Stdio {
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

func names(secrets map[string]Secret) string {
	sorted := slices.Sorted(maps.Keys(secrets))
	for i, name := range sorted {
		sorted[i] = word(name)
	}
	return strings.Join(sorted, ", ")
}

// word returns a text as it is, or in quotes if it could be taken for something else.
func word(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"'\();,`, r)
	}) < 0
	if plain && text != "" {
		return text
	}
	return approval.PrintableJSON(jsonscan.AppendString(nil, text))
}
