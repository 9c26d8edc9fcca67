package openapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/mcp"
)

// Security describes the authorization that a request needs.
type Security struct {
	// Alternatives are the sufficient requirements. There are none if the document requires no
	// authorization.
	Alternatives []Requirement
	// OperationID, Method and Path identify the operation in the document.
	OperationID, Method, Path string
	// Call is the MCP call that causes the request. It contains the Caller.
	Call *mcp.Call
}

// A Requirement is a set of schemes that are needed together. An empty Requirement permits
// anonymous requests.
type Requirement []SecurityScheme

// A SecurityScheme is a kind of credential: OpenAPI 3.1.1, section 4.8.27.
type SecurityScheme struct {
	// Name is the name of the scheme in the document.
	Name string
	// Type is apiKey, http, mutualTLS, oauth2 or openIdConnect. It is empty if the document
	// does not define the scheme.
	Type string
	// In is header, query or cookie, and Parameter the name of the parameter (apiKey).
	In, Parameter string
	// Scheme is the scheme of the Authorization header, such as bearer or basic (http).
	Scheme string
	// Scopes are the scopes that the operation needs (oauth2, openIdConnect).
	Scopes []string
	// OpenIDConnectURL is the discovery URL (openIdConnect).
	OpenIDConnectURL string
}

// Apply adds a secret to a request as the scheme requires. The secret is an API key, a bearer
// token, "user:password" for basic authentication, or the parameters of another http scheme. For
// mutualTLS Apply does nothing: configure the HTTPClient.
func (s SecurityScheme) Apply(request *http.Request, secret string) error {
	switch s.Type {
	case "apiKey":
		return s.applyKey(request, secret)
	case "http":
		switch strings.ToLower(s.Scheme) {
		case "basic":
			user, password, ok := strings.Cut(secret, ":")
			if !ok {
				return fmt.Errorf("the secret for %q is not of the form user:password", s.Name)
			}
			request.SetBasicAuth(user, password)
		case "bearer":
			request.Header.Set("Authorization", "Bearer "+secret)
		default:
			request.Header.Set("Authorization", s.Scheme+" "+secret)
		}
	case "oauth2", "openIdConnect":
		request.Header.Set("Authorization", "Bearer "+secret)
	case "mutualTLS":
	default:
		return fmt.Errorf("the security scheme %q is of the unknown type %q", s.Name, s.Type)
	}
	return nil
}

func (s SecurityScheme) applyKey(request *http.Request, secret string) error {
	switch s.In {
	case "header":
		request.Header.Set(s.Parameter, secret)
	case "query":
		query := escapeQuery(s.Parameter) + "=" + escapeQuery(secret)
		if request.URL.RawQuery != "" {
			query = request.URL.RawQuery + "&" + query
		}
		request.URL.RawQuery = query
	case "cookie":
		addCookie(request, s.Parameter+"="+escapeQuery(secret))
	default:
		return fmt.Errorf("the key %q is in %q, expected header, query or cookie", s.Name, s.In)
	}
	return nil
}

// addCookie adds name=value to the request's one Cookie header.
func addCookie(request *http.Request, pair string) {
	if cookies := request.Header.Get("Cookie"); cookies != "" {
		pair = cookies + "; " + pair
	}
	request.Header.Set("Cookie", pair)
}

// requirements returns the requirements of an operation, or else the requirements of the document.
func (d *document) requirements(operation *openapi3.Operation) []Requirement {
	declared := d.Security
	if operation.Security != nil {
		declared = *operation.Security
	}
	var alternatives []Requirement
	for _, one := range declared {
		requirement := Requirement{}
		for _, name := range slices.Sorted(maps.Keys(one)) {
			scheme := d.securityScheme(name)
			scheme.Scopes = one[name]
			requirement = append(requirement, scheme)
		}
		alternatives = append(alternatives, requirement)
	}
	return alternatives
}

func (d *document) securityScheme(name string) SecurityScheme {
	scheme := SecurityScheme{Name: name}
	if d.Components == nil {
		return scheme
	}
	if ref := d.Components.SecuritySchemes[name]; ref != nil && ref.Value != nil {
		s := ref.Value
		scheme.Type, scheme.In, scheme.Parameter = s.Type, s.In, s.Name
		scheme.Scheme, scheme.OpenIDConnectURL = s.Scheme, s.OpenIdConnectUrl
	}
	return scheme
}

var errNotAuthorized = errors.New("the request could not be authorized")

// secrets are the texts that Authorize has added to a request, the longest first.
type secrets []string

// minSecret is the length of the shortest secret that is redacted. Shorter texts occur in any
// text by chance.
const minSecret = 4

// addedSecrets returns the texts that a request has in addition to an earlier copy.
func addedSecrets(before, after *http.Request) secrets {
	var found secrets
	for name, values := range after.Header {
		for _, value := range values {
			if slices.Contains(before.Header[name], value) {
				continue
			}
			found = append(found, value)
			parts := strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" ;,", r) })
			for i, part := range parts {
				if name == "Authorization" && i == 0 && len(parts) > 1 {
					continue // the scheme
				}
				_, assigned, _ := strings.Cut(part, "=")
				found = append(found, part, assigned)
			}
		}
	}
	if _, password, ok := after.BasicAuth(); ok {
		found = append(found, password)
	}
	if password, ok := after.URL.User.Password(); ok {
		found = append(found, password)
	}
	queryBefore := before.URL.Query()
	for name, values := range after.URL.Query() {
		for _, value := range values {
			if !slices.Contains(queryBefore[name], value) {
				found = append(found, value, escapeQuery(value))
			}
		}
	}
	found = slices.DeleteFunc(found, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
	return found
}

// redact replaces the secrets in a text.
func (s secrets) redact(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// trimPartial removes the beginning of a secret from the end of a text that was cut.
func (s secrets) trimPartial(text string) string {
	for _, secret := range s {
		for n := min(len(secret)-1, len(text)); n > 0; n-- {
			if strings.HasSuffix(text, secret[:n]) {
				text = text[:len(text)-n]
				break
			}
		}
	}
	return text
}

// Credentials are constant secrets by the name of their security scheme in the document.
// [SecurityScheme.Apply] describes their format.
type Credentials map[string]string

// Authorize applies the first alternative whose secrets are complete. It implements
// [Options].Authorize. If there is no such alternative, it fails, unless the operation permits
// anonymous requests.
func (c Credentials) Authorize(_ context.Context, request *http.Request, security Security) error {
	if len(security.Alternatives) == 0 {
		return nil
	}
	anonymous := false
	var incomplete []string
	for _, requirement := range security.Alternatives {
		missing := c.missing(requirement)
		if missing != "" {
			incomplete = append(incomplete, missing)
			continue
		}
		if len(requirement) == 0 {
			anonymous = true
			continue
		}
		for _, scheme := range requirement {
			if err := scheme.Apply(request, c[scheme.Name]); err != nil {
				return err
			}
		}
		return nil
	}
	if anonymous {
		return nil
	}
	return fmt.Errorf("there are no credentials for %s", strings.Join(incomplete, " or "))
}

// missing returns the first scheme of a requirement without a secret, or "".
func (c Credentials) missing(requirement Requirement) string {
	for _, scheme := range requirement {
		if _, ok := c[scheme.Name]; !ok && scheme.Type != "mutualTLS" {
			return scheme.Name
		}
	}
	return ""
}
