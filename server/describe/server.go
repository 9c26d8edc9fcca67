package describe

import (
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Server describes a server. The documents say which fields they need: all of them need Name,
// Description and Version. It must not be changed while a function of this package uses it.
type Server struct {
	// Name is the name in reverse DNS form with one slash, such as "io.github.acme/calc". At most
	// 200 bytes.
	Name string
	// Title is the name for people. At most 100 characters.
	Title string
	// Description says what the server does, in at most 100 characters.
	Description string
	// Version is one version, preferably a semantic one. At most 255 bytes.
	Version string
	// Website is an https URL with more information.
	Website string
	// Icons are shown in user interfaces. A bundle has an icon of its own.
	Icons []mcp.Icon
	// Repository is the source code, nil if that is not public.
	Repository *Repository
	// Remotes are the endpoints of the server. At most 100.
	Remotes []Remote

	// Packages are the packages from which the server can be installed. Only in server.json. At
	// most 100.
	Packages []Package

	// Author and License, an SPDX identifier such as "Apache-2.0", are only in bundles.
	Author  Author
	License string
	// Tools and Prompts are listed in bundles, before the server is started.
	Tools   []Tool
	Prompts []Prompt
	// MoreTools and MorePrompts say that the server may have more than these.
	MoreTools, MorePrompts bool
}

// An Author is a person or an organization.
type Author struct {
	Name  string `json:"name"`
	Email string `json:"email,omitzero"`
	URL   string `json:"url,omitzero"`
}

// A Repository is where the source code of a server is.
type Repository struct {
	// URL is an https URL for browsers and for git clone.
	URL string `json:"url"`
	// Source is the hosting service. The registry accepts "github" and "gitlab".
	Source string `json:"source"`
	// ID is the identifier of the repository at the hosting service, which renaming does not change.
	ID string `json:"id,omitzero"`
	// Subfolder is the folder of the server in the repository.
	Subfolder string `json:"subfolder,omitzero"`
}

// The transports. Stdio is only for packages.
const (
	transportHTTP  = "streamable-http"
	transportSSE   = "sse"
	transportStdio = "stdio"
)

// A Remote is an endpoint of a server.
type Remote struct {
	// Transport is "streamable-http" or "sse".
	Transport string `json:"type"`
	// URL is the https URL, or http on a loopback address during development. A name in braces, as
	// in "https://{tenant}.example.com/mcp", is a key of Variables.
	URL string `json:"url"`
	// Headers are the headers that a client sends. At most 100.
	Headers []NamedInput `json:"headers,omitempty"`
	// Variables are the variables in URL.
	Variables map[string]Input `json:"variables,omitempty"`
	// Versions are the supported versions of the protocol. Only in cards.
	Versions []mcp.Version `json:"supportedProtocolVersions,omitempty"`
}

// NewRemote returns an endpoint with streamable HTTP at a URL, and all versions of the protocol that
// a *server.Server supports. It does not check the URL: the functions that write a document do.
func NewRemote(url string) Remote {
	return Remote{Transport: transportHTTP, URL: url, Versions: mcp.Versions()}
}

// An Input is a value that the user gives, or one that is fixed.
type Input struct {
	// Description explains the value to the user.
	Description string `json:"description,omitzero"`
	// Required says that there is no connection without the value.
	Required bool `json:"isRequired,omitzero"`
	// Secret marks a password or a token. It cannot have a Default, and no Value without variables.
	Secret bool `json:"isSecret,omitzero"`
	// Format is "string", "number", "boolean" or "filepath"; "" means "string".
	Format string `json:"format,omitzero"`
	// Value is fixed: the user cannot change it.
	Value string `json:"value,omitzero"`
	// Default is the value if the user gives none.
	Default string `json:"default,omitzero"`
	// Placeholder is an example for the user.
	Placeholder string `json:"placeholder,omitzero"`
	// Choices are the allowed values; empty means any.
	Choices []string `json:"choices,omitempty"`
}

// A NamedInput is the value of a header or an environment variable.
type NamedInput struct {
	Name string `json:"name"`
	Input
	// Variables are the variables in Value: the names in braces.
	Variables map[string]Input `json:"variables,omitempty"`
}

// A Tool is a tool in the manifest of a bundle.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
}

// A Prompt is a prompt in the manifest of a bundle.
type Prompt struct {
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	// Arguments are the names of the arguments.
	Arguments []string `json:"arguments,omitempty"`
	// Text is the text of the prompt, with arguments such as ${arguments.topic}. The manifest lists
	// only prompts with a text. If any has none, it says that there are more.
	Text string `json:"text"`
}

// Of returns the description of a server, as far as the server knows it. Tools and prompts are those
// of the server's current catalog that all callers see; if there are others, MoreTools and
// MorePrompts are true. Prompts have no text. Of does not start the server.
func Of(s *server.Server) Server {
	info, catalog := s.Info(), s.Catalog()
	d := Server{
		Name: info.Name, Title: info.Title, Description: info.Description, Version: info.Version,
		Website: info.WebsiteURL, Icons: info.Icons,
	}
	for e := range catalog.All(mcp.KindTool) {
		var tool Tool
		if e.Visible != nil || json.Unmarshal(e.Definition.JSON(), &tool) != nil {
			d.MoreTools = true
			continue
		}
		d.Tools = append(d.Tools, tool)
	}
	for e := range catalog.All(mcp.KindPrompt) {
		var prompt mcp.Prompt
		if e.Visible != nil || json.Unmarshal(e.Definition.JSON(), &prompt) != nil {
			d.MorePrompts = true
			continue
		}
		listed := Prompt{Name: prompt.Name, Description: prompt.Description}
		for _, argument := range prompt.Arguments {
			listed.Arguments = append(listed.Arguments, argument.Name)
		}
		d.Prompts = append(d.Prompts, listed)
	}
	return d
}

// A FieldError says that a field of a description has a value that a document does not allow.
type FieldError struct {
	// Field is the path of the field, such as "Remotes[0].URL".
	Field string
	// Rule says what was expected. It does not contain the value.
	Rule string
}

// Error returns the field and the rule.
func (e *FieldError) Error() string { return fmt.Sprintf("describe: %s: %s", e.Field, e.Rule) }
