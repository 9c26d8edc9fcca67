package config

import (
	"fmt"
	"strings"
)

// parseEnvFile reads lines of the form NAME=value, with "export " before them or
// not. The last one of a name counts. Errors tell the line's number and not what
// stands there.
func parseEnvFile(data []byte) (map[string]string, error) {
	variables := make(map[string]string)
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\uFEFF")) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
		if !found || checkVariable(name) != "" || strings.ContainsAny(name, " \t") {
			return nil, fmt.Errorf("line %d: expected NAME=value", number)
		}
		value, ok := unquoteEnv(value)
		if !ok {
			return nil, fmt.Errorf("line %d: expected the quotes of the value to be closed", number)
		}
		if strings.IndexByte(value, 0) >= 0 {
			return nil, fmt.Errorf("line %d: expected a value without NUL", number)
		}
		variables[name] = value
	}
	return variables, nil
}

// unquoteEnv reads a value. A comment may follow it: behind quotes, or behind white
// space.
func unquoteEnv(raw string) (value string, ok bool) {
	text := strings.TrimSpace(raw)
	if text == "" {
		return "", true
	}
	switch quote := text[0]; quote {
	case '\'':
		value, rest, closed := strings.Cut(text[1:], "'")
		return value, closed && isComment(rest)
	case '"':
		end := stringEnd([]byte(text))
		if end == 0 || !isComment(text[end:]) {
			return "", false
		}
		return strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\\`, `\`).Replace(text[1 : end-1]), true
	}
	for i := 1; i < len(raw); i++ {
		if raw[i] == '#' && (raw[i-1] == ' ' || raw[i-1] == '\t') {
			return strings.TrimSpace(raw[:i]), true
		}
	}
	return text, true
}

func isComment(rest string) bool {
	rest = strings.TrimSpace(rest)
	return rest == "" || rest[0] == '#'
}
