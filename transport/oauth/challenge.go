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
// challenges in 16 KiB. If a challenge is malformed, it returns an error and the challenges
// before.
func ParseChallenges(lines []string) ([]Challenge, error) {
	var all []Challenge
	size := 0
	for _, line := range lines {
		if size += len(line); size > maxChallengeBytes {
			return all, errors.New("the challenges have more than 16 KiB")
		}
		p := challengeParser{rest: line}
		for p.list(); p.rest != ""; p.list() {
			if len(all) == maxChallenges {
				return all, fmt.Errorf("there are more than %d challenges", maxChallenges)
			}
			challenge, err := p.challenge()
			if err != nil {
				return all, err
			}
			all = append(all, challenge)
		}
	}
	return all, nil
}

// A challengeParser parses one line.
type challengeParser struct{ rest string }

var errChallenge = errors.New("the challenge does not follow RFC 9110, section 11.6.1")

// challenge parses a scheme and its token68 or parameters.
func (p *challengeParser) challenge() (Challenge, error) {
	c := Challenge{Scheme: p.token()}
	if c.Scheme == "" {
		return c, errChallenge
	}
	if !p.space() {
		return c, p.end()
	}
	for {
		name, value, ok, err := p.param()
		if err != nil {
			return c, err
		}
		if !ok {
			break
		}
		if _, twice := c.Params[name]; twice || len(c.Params) == maxChallengeParams {
			return c, errChallenge
		}
		if c.Params == nil {
			c.Params = make(map[string]string)
		}
		c.Params[name] = value
		if p.space(); p.rest == "" {
			return c, nil
		}
		if p.rest[0] != ',' {
			return c, errChallenge
		}
		p.list()
	}
	if c.Params == nil {
		c.Token = p.token68()
		p.space()
		return c, p.end()
	}
	return c, nil // the scheme of the next challenge follows
}

// end returns an error unless a challenge without parameters can end here.
func (p *challengeParser) end() error {
	if p.rest != "" && p.rest[0] != ',' {
		return errChallenge
	}
	return nil
}

// param parses a parameter. ok is false if none follows.
func (p *challengeParser) param() (name, value string, ok bool, err error) {
	before := p.rest
	name = p.token()
	p.space()
	if name == "" || !strings.HasPrefix(p.rest, "=") {
		p.rest = before
		return "", "", false, nil
	}
	p.rest = p.rest[1:]
	p.space()
	if strings.HasPrefix(p.rest, `"`) {
		value, err = p.quoted()
		return strings.ToLower(name), value, err == nil, err
	}
	if value = p.token(); value == "" { // it was the padding of a token68
		p.rest = before
		return "", "", false, nil
	}
	return strings.ToLower(name), value, true, nil
}

// quoted parses a quoted string.
func (p *challengeParser) quoted() (string, error) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return b.String(), nil
		case c == '\\' && i+1 < len(p.rest):
			i++
			b.WriteByte(p.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", errChallenge
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
func (p *challengeParser) list() { p.take(func(b byte) bool { return isBlank(b) || b == ',' }) }

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
