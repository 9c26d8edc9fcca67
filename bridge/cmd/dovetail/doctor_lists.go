package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/schema"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// apiName matches the names of tools that the APIs of models accept.
var apiName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// longDescription is a length of descriptions that some clients cut, in bytes.
const longDescription = 2048

// manyTools is a number of tools that models choose from less well.
const manyTools = 40

// lists checks the lists that the server declares.
func (d *doctor) lists(ctx context.Context, s *client.Session) {
	can := s.Capabilities()
	i := &inspection{session: s}
	for _, list := range []struct {
		declared       bool
		method, member string
		check          func(entries []json.RawMessage)
		capability     string
	}{
		{can.Tools != nil, mcp.MethodToolsList, "tools", d.tools, "tools"},
		{can.Prompts != nil, mcp.MethodPromptsList, "prompts", d.prompts, "prompts"},
		{can.Resources != nil, mcp.MethodResourcesList, "resources", d.resources, "resources"},
		{can.Resources != nil, mcp.MethodResourceTemplatesList, "resourceTemplates", nil, "resources"},
	} {
		if !list.declared {
			continue
		}
		began := time.Now()
		merged, err := mergedPages(ctx, i, list.method, list.member)
		if err != nil {
			d.add(problem, list.member, "the server declares the capability "+list.capability+": it must answer "+list.method, "%v", err)
			continue
		}
		var entries []json.RawMessage
		if err := json.Unmarshal(merged[list.member], &entries); err != nil {
			d.add(problem, list.member, "send a list of objects", "%v", err)
			continue
		}
		d.add(fine, list.member, "", "%d, read in %v", len(entries), time.Since(began).Round(10*time.Microsecond))
		if list.check != nil {
			list.check(entries)
		}
	}
}

func (d *doctor) tools(entries []json.RawMessage) {
	seen := make(map[string]bool)
	if len(entries) > manyTools {
		d.add(advice, "tools", "models choose less well from long lists: offer fewer, or put a search in front", "there are %d", len(entries))
	}
	for _, entry := range entries {
		var tool mcp.Tool
		if err := json.Unmarshal(entry, &tool); err != nil {
			d.add(problem, "tools", "correct the definition: clients drop the tool, or the whole list", "%v", err)
			continue
		}
		at := "tool " + tool.Name
		if seen[tool.Name] {
			d.add(problem, at, "give each tool a name of its own", "is listed twice")
		}
		seen[tool.Name] = true
		if !apiName.MatchString(tool.Name) {
			d.add(problem, at, "use 1 to 64 of the characters A-Z a-z 0-9 _ -: APIs of models refuse other names", "the name is not accepted by all models")
		}
		if strings.TrimSpace(tool.Description) == "" {
			d.add(problem, at, "describe what the tool does and when to use it: the model has nothing else", "has no description")
		} else if len(tool.Description) > longDescription {
			d.add(advice, at, "shorten it: some clients cut descriptions", "the description has %d bytes", len(tool.Description))
		}
		d.inputSchema(at, tool.InputSchema)
		if tool.OutputSchema != nil {
			if _, err := schema.Compile(tool.OutputSchema, nil); err != nil {
				d.add(problem, at, "correct the output schema: clients validate results with it", "%v", err)
			}
		}
		if tool.Annotations == nil {
			d.add(advice, at, "set readOnlyHint or destructiveHint, so that clients know which calls need no approval", "has no annotations")
		}
	}
}

func (d *doctor) inputSchema(at string, text json.RawMessage) {
	var s struct {
		Type       any `json:"type"`
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
		OneOf, AnyOf, AllOf []json.RawMessage
	}
	if err := json.Unmarshal(text, &s); err != nil || s.Type != "object" {
		d.add(problem, at, `set "type": "object" at the root of inputSchema`, "the input schema is not a schema of an object")
		return
	}
	if _, err := schema.Compile(text, nil); err != nil {
		d.add(problem, at, "correct the input schema, which is JSON Schema 2020-12 or draft-07", "%v", err)
	}
	if len(s.OneOf)+len(s.AnyOf)+len(s.AllOf) > 0 {
		d.add(advice, at, "move oneOf, anyOf and allOf below properties: some APIs of models refuse them at the root", "the input schema has them at the root")
	}
	var undescribed []string
	for name, property := range s.Properties {
		if property.Description == "" {
			undescribed = append(undescribed, name)
		}
	}
	if len(undescribed) > 0 {
		d.add(advice, at, "describe each argument", "%d of %d arguments have no description", len(undescribed), len(s.Properties))
	}
}

func (d *doctor) prompts(entries []json.RawMessage) {
	for _, entry := range entries {
		var prompt mcp.Prompt
		if err := json.Unmarshal(entry, &prompt); err != nil {
			d.add(problem, "prompts", "correct the definition", "%v", err)
			continue
		}
		if prompt.Description == "" && prompt.Title == "" {
			d.add(advice, "prompt "+prompt.Name, "describe it: people choose prompts from a list", "has neither title nor description")
		}
	}
}

func (d *doctor) resources(entries []json.RawMessage) {
	seen := make(map[string]bool)
	for _, entry := range entries {
		var resource mcp.Resource
		if err := json.Unmarshal(entry, &resource); err != nil {
			d.add(problem, "resources", "correct the definition", "%v", err)
			continue
		}
		if seen[resource.URI] {
			d.add(problem, "resource "+resource.URI, "list each URI once", "is listed twice")
		}
		seen[resource.URI] = true
		if !strings.Contains(resource.URI, ":") {
			d.add(problem, "resource "+resource.URI, "use a URI with a scheme", "is no URI")
		}
	}
}

// web checks the endpoint itself, with requests that have no credentials.
func (d *doctor) web(ctx context.Context) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	address := d.c.target.resolved.URL.Reveal()
	status, header, err := post(ctx, address, ping, map[string]string{"Origin": "https://attacker.example"})
	switch {
	case err != nil:
		d.add(problem, "HTTP", "check the address", "%v", err)
		return
	case status == http.StatusForbidden:
		d.add(fine, "Origin", "", "a request of another web site is refused")
	case status == http.StatusUnauthorized:
		d.add(fine, "login", "", "a request without a token is refused")
		challenge := header.Get("WWW-Authenticate")
		if !strings.Contains(challenge, "resource_metadata") {
			d.add(advice, "login", "add resource_metadata to WWW-Authenticate (RFC 9728), so that clients find the authorization server", "WWW-Authenticate is %q", challenge)
		}
	default:
		d.add(problem, "Origin", "refuse requests with an unknown Origin with the status 403: a web site could use the server of its visitor (DNS rebinding)", "a request of https://attacker.example got the status %d", status)
	}
	if header.Get("Access-Control-Allow-Origin") == "*" {
		d.add(advice, "CORS", "allow only the origins that need it", "every web site may read the answers")
	}
	if isReadable(address) {
		d.add(problem, "TLS", "use https: tokens and results are readable on the way", "the URL begins with http://")
	}
	if status, _, err := post(ctx, address, `{`, nil); err == nil && status >= http.StatusInternalServerError {
		d.add(problem, "malformed requests", "answer them with the status 400", "got the status %d", status)
	}
}

// isReadable reports whether others on the network can read requests to a URL.
func isReadable(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "http" && !isLoopback(u.Hostname())
}

// post sends a request without credentials.
func post(ctx context.Context, url, body string, headers map[string]string) (int, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	web := httptransport.NewClient(func(settings *http.Transport) { settings.DisableKeepAlives = true })
	web.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := web.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("the request failed: %w", err)
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4096) // the body does not matter
	_ = res.Body.Close()
	return res.StatusCode, res.Header, nil
}
