package openapi

import (
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/schema"
)

// An operation is one of the service's, with its compiled way from arguments to a
// request and from an answer to a result.
type operation struct {
	name   string // of the tool or resource
	method string
	// path, as the document has it, and id name the operation there.
	path, id string

	base       *url.URL
	template   pathTemplate
	separators bool         // values in the path may have / and \
	parameters []*parameter // beside those of the path
	body       *body
	accept     string
	security   []Requirement

	input  *schema.Validator
	output *schema.Validator // nil: none is declared

	uri       string                // of a resource or resource template
	variables map[string]*parameter // its variables
}

// origin begins the URIs of what an operation reads: the service's host and base path,
// under a scheme that tells clients not to fetch them themselves.
func (o *operation) origin() string {
	return uriScheme + "://" + o.base.Host + strings.TrimSuffix(o.base.EscapedPath(), "/")
}

// String is how errors name it.
func (o *operation) String() string { return o.method + " " + o.path }
