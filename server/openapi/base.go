package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// baseURL is where an operation is: what the program says, else the first server with
// an absolute URL, of the operation, its path or the document, whichever has any.
func baseURL(given string, item *openapi3.PathItem, operation *openapi3.Operation, document openapi3.Servers) (*url.URL, error) {
	if given != "" {
		return parseBase(given)
	}
	servers := document
	if len(item.Servers) > 0 {
		servers = item.Servers
	}
	if operation.Servers != nil && len(*operation.Servers) > 0 {
		servers = *operation.Servers
	}
	for _, server := range servers {
		if server == nil {
			continue
		}
		text := server.URL
		for name, variable := range server.Variables {
			if variable != nil {
				text = strings.ReplaceAll(text, "{"+name+"}", variable.Default)
			}
		}
		if base, err := url.Parse(text); err == nil && base.IsAbs() {
			return parseBase(text)
		}
	}
	return nil, errors.New("the document names no server by an absolute URL: set Options.BaseURL")
}

// parseBase reads a base URL. It quotes none: one with a password must not be logged.
func parseBase(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the base URL is none")
	}
	switch {
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, fmt.Errorf("the base URL has the scheme %.40q, expected an absolute http or https URL", base.Scheme)
	case base.User != nil:
		return nil, errors.New("the base URL has credentials in it: Options.Authorize is for these")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("the base URL has a query or a fragment, expected none")
	}
	if hasDotSegment(base.EscapedPath()) {
		return nil, errors.New("the path of the base URL has a dot segment (. or ..)")
	}
	return base, nil
}

// sameOrigin compares scheme, host and port: RFC 6454, section 4.
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case strings.EqualFold(u.Scheme, "https"):
		return "443"
	}
	return "80"
}
