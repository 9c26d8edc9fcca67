package describe

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

// registrySchema is the current version of the schema of server.json.
const registrySchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// A Package is a package from which a server can be installed.
type Package struct {
	// Registry is where the package is: "npm", "pypi", "nuget", "cargo", "oci" or "mcpb".
	Registry string
	// RegistryURL is the https URL of the package registry. Default: the public one. An mcpb package
	// has none.
	RegistryURL string
	// Identifier is the name in the package registry, the image reference of an oci package, or the
	// https URL of an mcpb package.
	Identifier string
	// Version is one version. An oci package has it in Identifier.
	Version string
	// SHA256 is the digest of the file in lower-case hexadecimal. An mcpb package needs one.
	SHA256 string
	// Runtime is a program that runs the package, such as "npx" or "docker".
	Runtime string
	// Transport is how the started package serves. "stdio", "streamable-http" or "sse". Default "stdio".
	Transport string
	// URL is the URL at which the started package serves, unless it serves stdio. A name in braces is
	// the name of an argument or an environment variable of the package.
	URL string
	// RuntimeArguments are arguments of Runtime, and Arguments are arguments of the package.
	RuntimeArguments, Arguments []Argument
	// Environment are environment variables.
	Environment []NamedInput
}

// An Argument is a command line argument of a package.
type Argument struct {
	// Name is the flag with its dashes, such as "--port". A positional argument has none.
	Name string
	// Label identifies a positional argument without Value.
	Label string
	// Repeated says that the argument may be repeated.
	Repeated bool
	Input
	// Variables are the variables in Value: the names in braces.
	Variables map[string]Input
}

var (
	digest = regexp.MustCompile(`^[0-9a-f]{64}$`)
	github = regexp.MustCompile(`^https://(www\.)?github\.com/[\w.-]+/[\w.-]+/?$`)
	gitlab = regexp.MustCompile(`^https://(www\.)?gitlab\.com/[\w.-]+(/[\w.-]+)+/?$`)
	size   = regexp.MustCompile(`^([0-9]+x[0-9]+|any)$`)

	environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	registries      = []string{"npm", "pypi", "nuget", "cargo", "oci", "mcpb"}
	imageTypes      = []string{"", "image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"}
)

// The wire forms of a package.
type (
	serverJSON struct {
		card
		Packages []packageJSON `json:"packages,omitempty"`
	}
	packageJSON struct {
		Registry         string         `json:"registryType"`
		RegistryURL      string         `json:"registryBaseUrl,omitzero"`
		Identifier       string         `json:"identifier"`
		Version          string         `json:"version,omitzero"`
		SHA256           string         `json:"fileSha256,omitzero"`
		Runtime          string         `json:"runtimeHint,omitzero"`
		Transport        transportJSON  `json:"transport"`
		RuntimeArguments []argumentJSON `json:"runtimeArguments,omitempty"`
		Arguments        []argumentJSON `json:"packageArguments,omitempty"`
		Environment      []NamedInput   `json:"environmentVariables,omitempty"`
	}
	transportJSON struct {
		Type string `json:"type"`
		URL  string `json:"url,omitzero"`
	}
	argumentJSON struct {
		Type     string `json:"type"`
		Name     string `json:"name,omitzero"`
		Label    string `json:"valueHint,omitzero"`
		Repeated bool   `json:"isRepeated,omitzero"`
		Input
		Variables map[string]Input `json:"variables,omitempty"`
	}
)

// Registry returns the server.json of the MCP Registry, as JSON that ends with a line break. It follows the schema
// of December 2025. The error joins a *[FieldError] for each fault. The registry also checks
// what only it can know: that the name belongs to the publisher, and that packages exist.
func (s Server) Registry() ([]byte, error) {
	var c checker
	c.identity(&s)
	c.registry(&s)
	if err := c.err(); err != nil {
		return nil, err
	}
	out := serverJSON{card: card{
		Schema: registrySchema, Name: s.Name, Title: s.Title, Description: s.Description, Version: s.Version,
		Website: s.Website, Repository: s.Repository, Icons: s.Icons, Remotes: slices.Clone(s.Remotes),
	}}
	for i := range out.Remotes {
		out.Remotes[i].Versions = nil
	}
	for i := range s.Packages {
		p := &s.Packages[i]
		out.Packages = append(out.Packages, packageJSON{
			Registry: p.Registry, RegistryURL: p.RegistryURL, Identifier: p.Identifier, Version: p.Version, SHA256: p.SHA256,
			Runtime: p.Runtime, Transport: transportJSON{p.transport(), p.URL}, Environment: p.Environment,
			RuntimeArguments: encodeArguments(p.RuntimeArguments), Arguments: encodeArguments(p.Arguments),
		})
	}
	return encode(&out)
}

func encodeArguments(arguments []Argument) []argumentJSON {
	var out []argumentJSON
	for i := range arguments {
		a := &arguments[i]
		kind := "positional"
		if a.Name != "" {
			kind = "named"
		}
		out = append(out, argumentJSON{kind, a.Name, a.Label, a.Repeated, a.Input, a.Variables})
	}
	return out
}

func (p *Package) transport() string {
	if p.Transport == "" {
		return transportStdio
	}
	return p.Transport
}

// registry checks what server.json restricts further.
func (c *checker) registry(s *Server) {
	c.require(registryName.MatchString(s.Name), "Name", "expected two parts that begin and end with a letter or a digit, of at least two characters each")
	// The registry takes any x after three numbers for a wildcard.
	c.require(!numbered.MatchString(s.Version) || !strings.ContainsAny(s.Version, "xX"), "Version", `expected no "x" in a version such as "1.0.2-next"`)
	for i, icon := range s.Icons {
		field := fmt.Sprintf("Icons[%d]", i)
		c.require(strings.HasPrefix(icon.Src, "https:") && len(icon.Src) <= 255, field+".Src", "expected an https URL of at most 255 bytes")
		c.require(slices.Contains(imageTypes, icon.MIMEType), field+".MIMEType", "expected the type of a PNG, JPEG, SVG or WebP image")
		c.require(!slices.ContainsFunc(icon.Sizes, func(s string) bool { return !size.MatchString(s) }), field+".Sizes", `expected sizes such as "48x48", or "any"`)
	}
	if r := s.Repository; r != nil {
		ok := r.Source == "github" && github.MatchString(r.URL) ||
			r.Source == "gitlab" && gitlab.MatchString(r.URL) && !strings.Contains(r.URL+"/", "/-/")
		c.require(ok, "Repository", "expected a repository of github or gitlab, with its Source")
	}
	for i := range s.Remotes {
		u, ok := parseTemplate(s.Remotes[i].URL)
		c.require(ok && u.Scheme == "https" && !netguard.IsLoopback(u.Hostname()), fmt.Sprintf("Remotes[%d].URL", i), "expected https, and a public address")
	}
	c.require(len(s.Packages) <= maxItems, "Packages", "expected at most %d", maxItems)
	for i := range s.Packages {
		c.packageFields(fmt.Sprintf("Packages[%d]", i), &s.Packages[i])
	}
}

func (c *checker) packageFields(field string, p *Package) {
	c.require(slices.Contains(registries, p.Registry), field+".Registry", "expected one of %s", strings.Join(registries, ", "))
	c.require(p.Identifier != "" && !strings.ContainsAny(p.Identifier, " \t\r\n"), field+".Identifier", "expected a name without spaces")
	c.version(field+".Version", p.Version, true)
	c.url(field+".RegistryURL", p.RegistryURL, true)
	c.require(p.SHA256 == "" || digest.MatchString(p.SHA256), field+".SHA256", "expected 64 hexadecimal digits in lower case")
	if p.Registry == "mcpb" {
		c.url(field+".Identifier", p.Identifier, false)
		c.require(p.SHA256 != "", field+".SHA256", "an mcpb package needs a digest")
		c.require(p.RegistryURL == "", field+".RegistryURL", "an mcpb package has none")
	}
	known := map[string]bool{}
	for _, in := range p.Environment {
		known[in.Name] = true
	}
	for _, a := range slices.Concat(p.RuntimeArguments, p.Arguments) {
		known[a.Name], known[a.Label] = true, true
	}
	switch p.transport() {
	case transportStdio:
		c.require(p.URL == "", field+".URL", "a package that serves stdio has none")
	case transportHTTP, transportSSE:
		c.packageURL(field+".URL", p.URL, known)
	default:
		c.require(false, field+".Transport", `expected "stdio", "streamable-http" or "sse"`)
	}
	c.arguments(field+".RuntimeArguments", p.RuntimeArguments)
	c.arguments(field+".Arguments", p.Arguments)
	c.inputs(field+".Environment", p.Environment, environmentName)
}

// packageURL checks the URL at which a package serves. Its variables may be flags.
func (c *checker) packageURL(field, text string, known map[string]bool) {
	for _, match := range variable.FindAllStringSubmatch(text, -1) {
		c.require(match[1] != "" && known[match[1]], field, "expected only variables that are declared")
	}
	_, ok := parseTemplate(text)
	c.require(ok && len(text) <= maxURL, field, "expected a URL without user information and fragment, of at most %d bytes", maxURL)
}

func (c *checker) arguments(field string, arguments []Argument) {
	c.require(len(arguments) <= maxItems, field, "expected at most %d", maxItems)
	for i := range arguments {
		a, at := &arguments[i], fmt.Sprintf("%s[%d]", field, i)
		if a.Name == "" {
			c.require(a.Value != "" || a.Label != "", at, "a positional argument needs Value or Label")
		} else {
			c.require(!strings.ContainsAny(a.Name, "<>$ "), at+".Name", `expected only the flag, such as "--port"`)
			c.require(!strings.HasPrefix(a.Value, a.Name) && !strings.HasPrefix(a.Default, a.Name), at, "expected a value without the flag")
		}
		c.input(at, &a.Input, a.Variables)
		c.variables(at+".Variables", a.Variables)
	}
}
