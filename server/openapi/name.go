package openapi

import (
	"fmt"
	"strings"
)

// toolName is what an operation is called: as its rule says, else by its operationId,
// else by method and path, in the characters that a tool's name may have.
func toolName(rule *Rule, operationID, method, path string) (string, error) {
	if rule.Name != "" {
		if sanitize(rule.Name) != rule.Name {
			return "", fmt.Errorf("Rule.Name %.200q is no tool's name: it has 1 to %d of A–Z a–z 0–9 _ - and dot", rule.Name, maxName)
		}
		return rule.Name, nil
	}
	name := sanitize(operationID)
	if name == "" {
		name = sanitize(strings.ToLower(method) + path)
	}
	return name, nil
}

// sanitize turns runs of characters that a tool's name must not have into one
// underscore, and cuts the name when it is too long.
func sanitize(text string) string {
	var name strings.Builder
	gap := false
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '.':
			if gap && name.Len() > 0 {
				name.WriteByte('_')
			}
			gap = false
			name.WriteByte(c)
		default:
			gap = true
		}
		if name.Len() >= maxName {
			break
		}
	}
	return name.String()[:min(name.Len(), maxName)]
}
