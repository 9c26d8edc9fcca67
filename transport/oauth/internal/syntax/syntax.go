// Package syntax checks and parses identifiers, scopes and other members of OAuth messages.
package syntax

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/netguard"
)

const (
	// maxScopes is the number of scopes in a list, and maxScope their total length, in bytes.
	maxScopes = 128
	maxScope  = 8 << 10
)

// CheckIdentifier checks the URL of a resource or an issuer. RFC 9728, section 1.2; RFC
// 8414, section 2.
func CheckIdentifier(field, text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || strings.ContainsAny(text, "?# ") || u.Opaque != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !netguard.IsLoopback(u.Hostname())) {
		return fmt.Errorf("%s: expected a URL that is https, or http on a loopback host, without user, query and fragment, got %s", field, jsonscan.Quote(text))
	}
	return nil
}

// Canonical returns the resource identifier of a server. RFC 8707, section 2.
func Canonical(server *url.URL) string {
	u := url.URL{Scheme: strings.ToLower(server.Scheme), Host: strings.ToLower(server.Host), Path: server.Path, RawPath: server.RawPath}
	if u.Path == "/" {
		u.Path = ""
	}
	return u.String()
}

// CheckScopes returns an error if one of the texts is not a scope.
func CheckScopes(scopes []string) error {
	for _, scope := range scopes {
		if !isScope(scope) {
			return errors.New(jsonscan.Quote(scope) + " is not a scope; expected printable characters without space, quote and backslash (RFC 6749, section 3.3)")
		}
	}
	return nil
}

// SplitScope parses a scope parameter.
func SplitScope(text string) []string {
	return UniqueScopes(strings.Fields(text[:min(len(text), maxScope)]))
}

// UniqueScopes returns a list of scopes without duplicates and invalid scopes: at most 128 scopes, and 8 KiB.
func UniqueScopes(scopes []string) []string {
	var all []string
	size := 0
	for _, scope := range scopes {
		if slices.Contains(all, scope) || !isScope(scope) {
			continue
		}
		if size += len(scope) + 1; size > maxScope || len(all) == maxScopes {
			break
		}
		all = append(all, scope)
	}
	return all
}

func isScope(text string) bool {
	return IsWord(text) && !strings.ContainsAny(text, `"\`)
}

// IsWord reports whether a text can be one word of a header: printable ASCII without spaces.
func IsWord(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] >= 0x7f {
			return false
		}
	}
	return text != ""
}

// Text decodes a JSON string. It returns "" for other values.
func Text(raw json.RawMessage) string {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(raw)
}
