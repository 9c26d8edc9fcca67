package openapi

import (
	"regexp"
	"slices"
	"strings"
)

// An Exposure is what becomes of an operation.
type Exposure uint8

const (
	// AsTool makes it a tool. It is the default.
	AsTool Exposure = iota
	// AsResource makes it a resource, or a resource template if it has parameters.
	// Only GET can be one.
	AsResource
	// Excluded leaves it out.
	Excluded
)

// A Rule says what becomes of the operations that it matches: those that match all
// of what it sets. A Rule that sets nothing matches all.
type Rule struct {
	// Path is looked for anywhere in the path, as it stands in the document: anchor
	// it with ^ and $ where that matters.
	Path *regexp.Regexp
	// Methods are HTTP methods, in any case.
	Methods []string
	// Tags are those of which the operation has at least one.
	Tags []string
	// OperationID is looked for anywhere in the operationId.
	OperationID *regexp.Regexp

	// Expose says what becomes of the operation.
	Expose Exposure
	// Name and Description replace those of the document. A Name suits a rule that
	// matches one operation.
	Name        string
	Description string
}

func (r *Rule) matches(method, path, operationID string, tags []string) bool {
	return (r.Path == nil || r.Path.MatchString(path)) &&
		(r.OperationID == nil || r.OperationID.MatchString(operationID)) &&
		(len(r.Methods) == 0 || slices.ContainsFunc(r.Methods, func(m string) bool { return strings.EqualFold(m, method) })) &&
		(len(r.Tags) == 0 || slices.ContainsFunc(r.Tags, func(tag string) bool { return slices.Contains(tags, tag) }))
}

// firstMatch is the rule for an operation: the first that matches, else the one that
// makes it a tool.
func firstMatch(rules []Rule, method, path, operationID string, tags []string) *Rule {
	for i := range rules {
		if rules[i].matches(method, path, operationID, tags) {
			return &rules[i]
		}
	}
	return &Rule{}
}
