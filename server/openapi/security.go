package openapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dovetail-go/dovetail/mcp"
)

// Security says what a request needs, and for whom it is made.
type Security struct {
	// Alternatives are the ways to be authorized: one of them is enough. There are
	// none when the document asks for nothing.
	Alternatives []Requirement
	// OperationID, Method and Path name the operation as the document does.
	OperationID, Method, Path string
	// Call is the call that the request answers. Its Caller is who calls.
	Call *mcp.Call
}

// A Requirement is one way to be authorized: all of its schemes together. Without
// schemes it is that of anybody.
type Requirement []SecurityScheme

// A SecurityScheme is a kind of credential: OpenAPI 3.1.1, section 4.8.27.
type SecurityScheme struct {
	// Name is the scheme's in the document.
	Name string
	// Type is apiKey, http, mutualTLS, oauth2 or openIdConnect; empty when the document
	// asks for a scheme that it does not have.
	Type string
	// In is header, query or cookie, and Parameter the name there (of an apiKey).
	In, Parameter string
	// Scheme is that of the Authorization header, such as bearer or basic (http).
	Scheme string
	// Scopes are those that the operation needs (oauth2, openIdConnect).
	Scopes []string
	// OpenIDConnectURL is where to discover how to get a token (openIdConnect).
	OpenIDConnectURL string
}

// Apply adds a secret to a request where the scheme wants it: an API key, a bearer
// token, for basic authentication "user:password", for any other http scheme what
// follows its name. Of mutualTLS nothing stands in a request: the HTTPClient has it.
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
		return fmt.Errorf("the key %q stands in %q, expected header, query or cookie", s.Name, s.In)
	}
	return nil
}

// addCookie adds name=value to the request's one Cookie header.
func addCookie(request *http.Request, pair string) {
	if there := request.Header.Get("Cookie"); there != "" {
		pair = there + "; " + pair
	}
	request.Header.Set("Cookie", pair)
}

// requirements are the alternatives of an operation, those of the document unless it
// has its own.
func (d *document) requirements(operation *openapi3.Operation) []Requirement {
	asked := d.Security
	if operation.Security != nil {
		asked = *operation.Security
	}
	var alternatives []Requirement
	for _, one := range asked {
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

// secrets are texts that Authorize has put into a request, the longest first.
type secrets []string

// minSecret is the shortest text that is taken for a secret: shorter ones stand in
// any text by chance.
const minSecret = 4

// addedSecrets are what a request has since its copy was made.
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
	was := before.URL.Query()
	for name, values := range after.URL.Query() {
		for _, value := range values {
			if !slices.Contains(was[name], value) {
				found = append(found, value, escapeQuery(value))
			}
		}
	}
	found = slices.DeleteFunc(found, func(s string) bool { return len(s) < minSecret })
	slices.SortFunc(found, func(a, b string) int { return len(b) - len(a) })
	return found
}

// redact takes the secrets out of a text.
func (s secrets) redact(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// dropEnd takes the beginning of a secret off the end of a text that was cut there.
func (s secrets) dropEnd(text string) string {
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
