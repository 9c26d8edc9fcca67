package describe

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/mcp"
)

// Limits of a description.
const (
	maxName    = 200 // bytes
	maxTitle   = 100 // characters; also of a description
	maxVersion = 255 // bytes
	maxURL     = 2048
	maxItems   = 100
)

var (
	// cardName and registryName are the patterns of names. The pattern of the registry is stricter.
	cardName     = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)
	registryName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]*[a-zA-Z0-9]/[a-zA-Z0-9][a-zA-Z0-9._-]*[a-zA-Z0-9]$`)

	// versionRange matches comparators and two versions. numbered matches versions with up to three
	// numbers or wildcards.
	versionRange = regexp.MustCompile(`^\s*[\^~<>=]|\|\||\s-\s`)
	numbered     = regexp.MustCompile(`^\s*(v?([0-9]+|[xX*])(\.([0-9]+|[xX*])){0,2})(-[0-9A-Za-z.-]+)?\s*$`)
	semantic     = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

	variable     = regexp.MustCompile(`\{([^{}]*)\}`)
	variableName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	headerName   = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
	protocolDate = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
)

// A checker collects the faults of a description.
type checker struct {
	// received is set for a card of another server. It must have the form of a card, but some rules
	// for authors do not apply.
	received bool
	faults   []error
}

// err returns all faults as one error.
func (c *checker) err() error { return errors.Join(c.faults...) }

// require reports a fault unless ok is true.
func (c *checker) require(ok bool, field, rule string, args ...any) {
	if !ok {
		c.faults = append(c.faults, &FieldError{field, fmt.Sprintf(rule, args...)})
	}
}

// identity checks the fields that all documents have.
func (c *checker) identity(s *Server) {
	c.require(len(s.Name) >= 3 && len(s.Name) <= maxName && cardName.MatchString(s.Name), "Name",
		`expected a name in reverse DNS form with one slash, such as "io.github.acme/calc", of at most %d bytes`, maxName)
	c.text("Title", s.Title, true)
	c.text("Description", s.Description, false)
	c.version("Version", s.Version, false)
	c.url("Website", s.Website, true)
	c.require(len(s.Icons) <= maxItems, "Icons", "expected at most %d", maxItems)
	for i, icon := range s.Icons {
		field := fmt.Sprintf("Icons[%d]", i)
		if !strings.HasPrefix(icon.Src, "data:") {
			c.url(field+".Src", icon.Src, false)
		}
		c.require(slices.Contains([]mcp.IconTheme{"", mcp.IconLight, mcp.IconDark}, icon.Theme), field+".Theme", `expected "light" or "dark"`)
	}
	if r := s.Repository; r != nil {
		c.url("Repository.URL", r.URL, false)
		c.require(r.Source != "", "Repository.Source", `expected the hosting service, such as "github"`)
		c.require(isFolder(r.Subfolder), "Repository.Subfolder", `expected a relative path, such as "cmd/calc"`)
	}
	c.require(len(s.Remotes) <= maxItems, "Remotes", "expected at most %d", maxItems)
	for i := range s.Remotes {
		c.remote(fmt.Sprintf("Remotes[%d]", i), &s.Remotes[i])
	}
}

// text checks a title or a description.
func (c *checker) text(field, text string, optional bool) {
	if text == "" && optional {
		return
	}
	c.require(strings.TrimSpace(text) != "" && utf8.RuneCountInString(text) <= maxTitle && utf8.ValidString(text),
		field, "expected 1 to %d characters", maxTitle)
}

func (c *checker) version(field, version string, optional bool) {
	if version == "" && optional {
		return
	}
	c.require(version != "" && len(version) <= maxVersion, field, "expected 1 to %d bytes", maxVersion)
	match := numbered.FindStringSubmatch(version)
	wildcard := match != nil && strings.ContainsAny(match[1], "xX*")
	c.require(version != "latest" && !wildcard && !versionRange.MatchString(version), field, `expected one version, such as "1.0.2", not a range or "latest"`)
}

// url checks a URL without variables.
func (c *checker) url(field, text string, optional bool) {
	if text == "" && optional {
		return
	}
	u, err := url.Parse(text)
	ok := err == nil && u.Host != "" && u.User == nil && len(text) <= maxURL && !strings.ContainsAny(text, "\"'<>\\ \t\r\n") &&
		(u.Scheme == "https" || c.received && u.Scheme == "http")
	c.require(ok, field, "expected an https URL without user information, of at most %d bytes", maxURL)
}

// remote checks an endpoint.
func (c *checker) remote(field string, r *Remote) {
	c.require(r.Transport == transportHTTP || r.Transport == transportSSE, field+".Transport", `expected "streamable-http" or "sse"`)
	c.template(field+".URL", r.URL, func(name string) bool { _, ok := r.Variables[name]; return ok })
	c.inputs(field+".Headers", r.Headers, headerName)
	c.variables(field+".Variables", r.Variables)
	c.require(len(r.Versions) <= maxItems, field+".Versions", "expected at most %d", maxItems)
	for _, version := range r.Versions {
		if !protocolDate.MatchString(string(version)) && !c.received {
			c.require(false, field+".Versions", "expected versions of the protocol, which are dates")
			break
		}
	}
}

// template checks the URL of an endpoint, and that its variables are known.
func (c *checker) template(field, text string, known func(name string) bool) {
	for _, match := range variable.FindAllStringSubmatch(text, -1) {
		c.require(variableName.MatchString(match[1]) && known(match[1]), field, "expected only variables that are declared")
	}
	u, ok := parseTemplate(text)
	c.require(ok && len(text) <= maxURL, field, "expected a URL without user information and fragment, of at most %d bytes", maxURL)
	if ok && !strings.HasPrefix(text, "{") && !c.received {
		c.require(u.Scheme == "https" || netguard.IsLoopback(u.Hostname()), field, "expected https, or http on a loopback address")
	}
}

// parseTemplate parses the URL of an endpoint, with a sample in the place of each variable.
func parseTemplate(text string) (*url.URL, bool) {
	sample := text
	if strings.HasPrefix(text, "{") {
		_, rest, _ := strings.Cut(text, "}")
		sample = "https://sample" + rest
	}
	u, err := url.Parse(variable.ReplaceAllString(sample, "1"))
	ok := err == nil && u.Host != "" && u.User == nil && u.Fragment == "" && (u.Scheme == "https" || u.Scheme == "http") &&
		!strings.ContainsAny(text, "\"'<>\\ \t\r\n")
	return u, ok
}

// inputs checks headers or environment variables.
func (c *checker) inputs(field string, inputs []NamedInput, pattern *regexp.Regexp) {
	c.require(len(inputs) <= maxItems, field, "expected at most %d", maxItems)
	seen := map[string]bool{}
	for i := range inputs {
		in, at := &inputs[i], fmt.Sprintf("%s[%d]", field, i)
		name := strings.ToLower(in.Name)
		c.require(pattern.MatchString(in.Name) && !seen[name], at+".Name", "expected a name that is valid and not repeated")
		seen[name] = true
		c.input(at, &in.Input, in.Variables)
		c.variables(at+".Variables", in.Variables)
	}
}

func (c *checker) variables(field string, variables map[string]Input) {
	c.require(len(variables) <= maxItems, field, "expected at most %d", maxItems)
	for _, name := range sortedKeys(variables) {
		at, in := field+"["+jsonscan.Quote(name)+"]", variables[name]
		c.require(variableName.MatchString(name) || c.received, at, "expected a name of letters, digits and underscores")
		c.input(at, &in, nil)
	}
}

// input checks one value. A Value with one of the variables is a template.
func (c *checker) input(field string, in *Input, variables map[string]Input) {
	c.require(slices.Contains([]string{"", "string", "number", "boolean", "filepath"}, in.Format), field+".Format",
		`expected "string", "number", "boolean" or "filepath"`)
	c.require(len(in.Choices) <= maxItems, field+".Choices", "expected at most %d", maxItems)
	if c.received {
		return
	}
	c.require(in.Default == "" || len(in.Choices) == 0 || slices.Contains(in.Choices, in.Default), field+".Default", "expected one of Choices")
	if !in.Secret {
		return
	}
	c.require(in.Default == "" && len(in.Choices) == 0, field, "a secret value cannot be published: expected neither Default nor Choices")
	uses := slices.ContainsFunc(variable.FindAllStringSubmatch(in.Value, -1), func(m []string) bool {
		_, ok := variables[m[1]]
		return ok
	})
	c.require(in.Value == "" || uses, field+".Value", "a secret value cannot be published: expected a variable in braces")
}

// isFolder reports whether a path is relative and clean, or "".
func isFolder(path string) bool {
	if path == "" {
		return true
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./", r)
	})
}
