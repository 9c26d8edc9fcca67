package oauth

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// maxChallenges is the number of challenges that a WWW-Authenticate header may have.
	maxChallenges = 16
	// maxChallengeBytes is the maximum length of all lines of the header.
	maxChallengeBytes = 16 << 10
	// maxChallengeParams is the number of parameters that a challenge may have.
	maxChallengeParams = 32
)

// A Challenge is one challenge of a WWW-Authenticate header. RFC 9110, section 11.6.1.
type Challenge struct {
	// Scheme is the authentication scheme. Its case does not matter; see [Challenge.Is].
	Scheme string
	// Token is the token68 that follows the scheme instead of parameters, if there is one.
	Token string
	// Params are the parameters. Their names are in lower case.
	Params map[string]string
}

// Is reports whether the challenge has a scheme. It ignores case.
func (c *Challenge) Is(scheme string) bool { return strings.EqualFold(c.Scheme, scheme) }

// Append appends the challenge in header syntax, with its parameters sorted and quoted.
// Characters that a quoted string cannot hold become question marks.
func (c *Challenge) Append(dst []byte) []byte {
	dst = append(dst, c.Scheme...)
	if c.Token != "" {
		return append(append(dst, ' '), c.Token...)
	}
	for i, name := range slices.Sorted(maps.Keys(c.Params)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, ' '), name...)
		dst = appendQuoted(append(dst, '='), c.Params[name])
	}
	return dst
}

func appendQuoted(dst []byte, text string) []byte {
	dst = append(dst, '"')
	for i := range len(text) {
		switch b := text[i]; {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b != '\t' && b < ' ' || b >= 0x7f:
			dst = append(dst, '?')
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"')
}

// ParseChallenges parses the lines of a WWW-Authenticate header: at most 16
// challenges in 16 KiB. If the header is malformed, it returns an error and everything that it could
// read: of a parameter that is repeated the first value, values without quotes, parameters without
// commas, and a list of scopes without quotes.
func ParseChallenges(lines []string) ([]Challenge, error) {
	p := &challengeParser{}
	size := 0
	for _, line := range lines {
		if size += len(line); size > maxChallengeBytes {
			p.fail(errors.New("the challenges have more than 16 KiB"))
			break
		}
		p.parse(line)
	}
	return p.all, p.err
}

var errChallenge = errors.New("the challenge does not follow RFC 9110, section 11.6.1")

// A challengeParser parses lines, and continues after mistakes.
type challengeParser struct {
	all   []Challenge
	err   error  // the first mistake
	rest  string // of the line
	first int    // the index of the first challenge of the line
	comma bool   // a comma was read after the last scheme, parameter or token68
	scope bool   // the last parameter is a scope without quotes
}

func (p *challengeParser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *challengeParser) parse(line string) {
	p.rest, p.first, p.comma, p.scope = line, len(p.all), true, false
	for p.list(); p.rest != ""; p.list() {
		name := p.token()
		after := p.rest
		p.space()
		switch {
		case name == "":
			p.fail(errChallenge)
			p.rest = p.rest[1:]
		case strings.HasPrefix(p.rest, "="):
			p.rest = p.rest[1:]
			p.param(strings.ToLower(name))
		case p.scope && !p.comma:
			p.fail(errChallenge)
			p.all[p.current()].Params["scope"] += " " + name
		case !p.comma && !p.paramFollows(after):
			p.fail(errChallenge) // it is no scheme either
		case len(p.all) == maxChallenges:
			p.fail(fmt.Errorf("there are more than %d challenges", maxChallenges))
			return
		default:
			p.rest = after
			p.scheme(name)
		}
	}
}

// paramFollows reports whether white space and a parameter follow.
func (*challengeParser) paramFollows(rest string) bool {
	ahead := challengeParser{rest: rest}
	if !ahead.space() || ahead.token() == "" {
		return false
	}
	ahead.space()
	return strings.HasPrefix(ahead.rest, "=")
}

// scheme begins a challenge. A token68 may follow.
func (p *challengeParser) scheme(name string) {
	if !p.comma {
		p.fail(errChallenge)
	}
	c := Challenge{Scheme: name}
	if p.space() {
		before := p.rest
		c.Token = p.token68()
		if p.space(); p.rest != "" && p.rest[0] != ',' {
			c.Token, p.rest = "", before // a parameter
		}
	}
	p.all = append(p.all, c)
	p.comma, p.scope = false, false
}

// current returns the index of the challenge to which a parameter belongs, -1 if there is none.
func (p *challengeParser) current() int {
	last := len(p.all) - 1
	if last < p.first {
		return -1
	}
	if p.comma && p.all[last].Params == nil { // it is not the parameter of a scheme before the comma
		p.fail(errChallenge)
		for i := last; i >= p.first; i-- {
			if p.all[i].Params != nil {
				return i
			}
		}
	}
	return last
}

// param parses the value of a parameter and adds it to its challenge.
func (p *challengeParser) param(name string) {
	p.space()
	quoted := strings.HasPrefix(p.rest, `"`)
	value := p.value()
	i := p.current()
	if i < 0 {
		p.fail(errChallenge)
		return
	}
	c := &p.all[i]
	if c.Params == nil {
		c.Params = make(map[string]string)
	} else if !p.comma {
		p.fail(errChallenge)
	}
	_, twice := c.Params[name]
	if twice || len(c.Params) == maxChallengeParams {
		p.fail(errChallenge)
	} else {
		c.Params[name], c.Token = value, ""
	}
	p.comma, p.scope = false, name == "scope" && !quoted && !twice
}

// value parses a quoted string or a token. A value without quotes ends at white space or a comma. One
// without a closing quote is the rest of the line.
func (p *challengeParser) value() string {
	if strings.HasPrefix(p.rest, `"`) {
		return p.quoted()
	}
	if inner, ok := strings.CutPrefix(p.rest, "'"); ok {
		if text, rest, ok := strings.Cut(inner, "'"); ok {
			p.fail(errChallenge)
			p.rest = rest
			return text
		}
	}
	value := p.take(isTokenByte)
	more := p.take(func(b byte) bool { return b > ' ' && b < 0x7f && b != ',' })
	if value == "" || more != "" {
		p.fail(errChallenge)
	}
	return strings.TrimSuffix(value+more, ";")
}

// quoted parses a quoted string.
func (p *challengeParser) quoted() string {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return b.String()
		case c == '\\' && i+1 < len(p.rest):
			i++
			b.WriteByte(p.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	p.fail(errChallenge)
	p.rest = ""
	return b.String()
}

func (p *challengeParser) token() string { return p.take(isTokenByte) }

func (p *challengeParser) token68() string {
	text := p.take(isToken68Byte)
	if text == "" {
		return ""
	}
	return text + p.take(func(b byte) bool { return b == '=' })
}

// space skips white space, and reports whether there was any.
func (p *challengeParser) space() bool { return p.take(isBlank) != "" }

// list skips the separators of list elements, which may be empty.
func (p *challengeParser) list() {
	separators := p.take(func(b byte) bool { return isBlank(b) || b == ',' })
	p.comma = p.comma || strings.Contains(separators, ",")
}

func (p *challengeParser) take(is func(byte) bool) string {
	i := 0
	for i < len(p.rest) && is(p.rest[i]) {
		i++
	}
	taken := p.rest[:i]
	p.rest = p.rest[i:]
	return taken
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }

func isAlphanumeric(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func isToken68Byte(b byte) bool { return isAlphanumeric(b) || strings.IndexByte("-._~+/", b) >= 0 }

func isTokenByte(b byte) bool {
	return isAlphanumeric(b) || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
}
