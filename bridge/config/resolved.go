package config

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Resolved is a server whose variables have been replaced. It may be printed with fmt,
// encoding/json and log/slog, which do not show its secrets.
type Resolved struct {
	Alias   string            `json:"alias"`
	Type    string            `json:"type"`
	Command Secret            `json:"command,omitzero"`
	Args    []Secret          `json:"args,omitempty"`
	Env     map[string]Secret `json:"env,omitempty"` // with the variables of PassEnv and EnvFile
	Dir     Secret            `json:"cwd,omitzero"`
	URL     Secret            `json:"url,omitzero"`
	Headers map[string]Secret `json:"headers,omitempty"`
	// ClientID, ClientSecret and Issuer are the registration of [OAuth].
	ClientID     Secret   `json:"clientId,omitzero"`
	ClientSecret Secret   `json:"clientSecret,omitzero"`
	Issuer       Secret   `json:"issuer,omitzero"`
	CallbackPort int      `json:"callbackPort,omitempty"`
	Scopes       []Secret `json:"scopes,omitempty"`
	Options      Options  `json:"options,omitzero"`
}

// Format prints JSON with the variables unexpanded.
func (r *Resolved) Format(f fmt.State, _ rune) {
	text, err := json.Marshal(r)
	if err != nil {
		text = []byte(r.Alias)
	}
	_, _ = f.Write(text)
}

// Fingerprint returns a digest of everything that decides which program runs or which server is called. It covers
// alias, type, command, arguments, environment, folder, URL, headers and registration, with the values of secrets. It has 64
// hexadecimal digits and is the same in every process. The other options, and the file that the name of the command
// leads to, do not affect it.
//
// A fingerprint allows guessing a short secret if all other values are known. Keep such
// fingerprints private.
func (r *Resolved) Fingerprint() string {
	var b []byte
	addLength := func(n int) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	add := func(text string) { // with its length, so that the encoding is unambiguous
		addLength(len(text))
		b = append(b, text...)
	}
	addMap := func(values map[string]Secret) {
		addLength(len(values))
		for _, name := range sortedKeys(values) {
			add(name)
			add(values[name].Reveal())
		}
	}
	add("dovetail server 1")
	add(r.Alias)
	add(r.Type)
	add(r.Command.Reveal())
	addLength(len(r.Args))
	for _, arg := range r.Args {
		add(arg.Reveal())
	}
	addMap(r.Env)
	if r.Options.InheritEnv {
		add("inherit")
	} else {
		add("")
	}
	add(r.Dir.Reveal())
	add(r.URL.Reveal())
	headers := make(map[string]Secret, len(r.Headers))
	for name, value := range r.Headers {
		headers[strings.ToLower(name)] = value
	}
	addMap(headers)
	if r.ClientID.Reveal() != "" || len(r.Scopes) > 0 {
		add(r.ClientID.Reveal())
		add(r.ClientSecret.Reveal())
		for _, scope := range r.Scopes {
			add(scope.Reveal())
		}
	}
	if issuer := r.Issuer.Reveal(); issuer != "" {
		add("issuer")
		add(issuer)
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// Launch describes how the server is started, on one line, for people who approve calls. It has the command line, or
// the URL. It also has the environment variables, the headers, and the fingerprint, which covers their values:
//
//	npx -y some-server /data (cwd /srv; env API_KEY, MODE=fast) sha256:9f86…
//
// Each [Secret] is shown as it prints, and quoted unless it is one plain word. A variable or header whose value is
// hidden has its name only. A server of a [File] hides the values of variables and headers, and the user, query and
// fragment of a URL; its variables are shown unexpanded.
func (r *Resolved) Launch() string {
	var b strings.Builder
	if r.Type == typeStdio {
		b.WriteString(quoteWord(r.Command.String()))
		for _, arg := range r.Args {
			b.WriteString(" " + quoteWord(arg.String()))
		}
	} else {
		b.WriteString(r.Type + " " + quoteWord(r.URL.String()))
	}
	var more []string
	if dir := r.Dir.String(); dir != "" {
		more = append(more, "cwd "+quoteWord(dir))
	}
	if r.Options.InheritEnv {
		more = append(more, "this process's environment")
	}
	if len(r.Env) > 0 {
		more = append(more, "env "+joinSecrets(r.Env))
	}
	if len(r.Headers) > 0 {
		more = append(more, "headers "+joinSecrets(r.Headers))
	}
	if id := r.ClientID.String(); id != "" {
		more = append(more, "client "+quoteWord(id))
	}
	if issuer := r.Issuer.String(); issuer != "" {
		more = append(more, "at "+quoteWord(issuer))
	}
	if len(r.Scopes) > 0 {
		scopes := make([]string, len(r.Scopes))
		for i, scope := range r.Scopes {
			scopes[i] = quoteWord(scope.String())
		}
		more = append(more, "scopes "+strings.Join(scopes, ", "))
	}
	if len(more) > 0 {
		b.WriteString(" (" + strings.Join(more, "; ") + ")")
	}
	return b.String() + " sha256:" + r.Fingerprint()
}

// joinSecrets lists names, with the values that are not hidden.
func joinSecrets(secrets map[string]Secret) string {
	terms := sortedKeys(secrets)
	for i, name := range terms {
		terms[i] = quoteWord(name)
		if value := secrets[name]; value.Reveal() == value.String() {
			terms[i] += "=" + quoteWord(value.String())
		}
	}
	return strings.Join(terms, ", ")
}

// quoteWord quotes a text unless it is one word of printable ASCII without delimiters.
func quoteWord(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"'\();,`, r)
	}) < 0
	if plain && text != "" {
		return text
	}
	return approval.PrintableJSON(jsonscan.AppendString(nil, text))
}

// redacted is printed in place of a secret.
const redacted = "[redacted]"

// A Secret is a text that fmt, encoding/json and log/slog print as another text. The zero value
// is the empty text.
type Secret struct {
	// reveal is a function since packages that print by reflection see unexported fields, but
	// not variables of a closure.
	reveal func() string
	shown  string
}

// NewSecret returns a secret that prints as shown.
func NewSecret(text, shown string) Secret {
	return Secret{reveal: func() string { return text }, shown: shown}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// String returns the text to show.
func (s Secret) String() string { return s.shown }

// Format prints the text to show, for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.shown) }

// MarshalText returns the text to show. encoding/json uses it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.shown), nil }

// LogValue returns the text to show.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.shown) }
