package describe

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/dovetail-go/dovetail/mcp"
)

// The media types of the two documents.
const (
	cardType    = "application/mcp-server-card+json"
	catalogType = "application/ai-catalog+json"
)

// CatalogPath is the path of the AI catalog of a domain.
const catalogPath = "/.well-known/ai-catalog.json"

// Maximum lengths of documents that are read, in bytes.
const (
	maxCard    = 64 << 10
	maxCatalog = 1 << 20
)

const cardSchema = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"

// A card is the server card of a server.
type card struct {
	Schema      string      `json:"$schema"`
	Name        string      `json:"name"`
	Title       string      `json:"title,omitzero"`
	Description string      `json:"description"`
	Version     string      `json:"version"`
	Website     string      `json:"websiteUrl,omitzero"`
	Repository  *Repository `json:"repository,omitzero"`
	Icons       []mcp.Icon  `json:"icons,omitempty"`
	Remotes     []Remote    `json:"remotes,omitempty"`
}

// A catalog is an AI catalog.
type catalog struct {
	SpecVersion string         `json:"specVersion"`
	Entries     []catalogEntry `json:"entries"`
}

type catalogEntry struct {
	Identifier string `json:"identifier"`
	Type       string `json:"type"`
	// MediaType was the name of Type in drafts of the specification. It is only read.
	MediaType string `json:"mediaType,omitzero"`
	// URL or Data is set.
	URL  string         `json:"url,omitzero"`
	Data jsontext.Value `json:"data,omitzero"`
}

// Card returns the server card (SEP-2127), as JSON that ends with a line break. The error joins a
// *[FieldError] for each fault.
func (s Server) Card() ([]byte, error) {
	var c checker
	c.identity(&s)
	if err := c.err(); err != nil {
		return nil, err
	}
	return encode(&card{
		Schema: cardSchema, Name: s.Name, Title: s.Title, Description: s.Description, Version: s.Version,
		Website: s.Website, Repository: s.Repository, Icons: s.Icons, Remotes: s.Remotes,
	})
}

// ParseCard decodes the server card of another server. The text may have up to 64 KiB.
// Unknown members are ignored. The error joins a *[FieldError] for each fault, or says that the text is not valid
// JSON. URLs may be http.
func ParseCard(text []byte) (Server, error) {
	if len(text) > maxCard {
		return Server{}, fmt.Errorf("describe: a server card may have %d bytes", maxCard)
	}
	var in card
	if err := json.Unmarshal(text, &in); err != nil {
		return Server{}, fmt.Errorf("describe: a server card: %w", err)
	}
	s := Server{
		Name: in.Name, Title: in.Title, Description: in.Description, Version: in.Version,
		Website: in.Website, Icons: in.Icons, Repository: in.Repository, Remotes: in.Remotes,
	}
	c := checker{received: true}
	c.require(in.Schema == cardSchema, "$schema", "expected %s", cardSchema)
	c.identity(&s)
	if err := c.err(); err != nil {
		return Server{}, err
	}
	return s, nil
}

// Catalog returns the AI catalog of a domain with these servers, as JSON that ends with a line break.
// An entry has the URL of the card, which is the URL of the first Remote with streamable HTTP followed by
// "/server-card". It contains the card instead if there is no such Remote, or its URL has variables.
// There may be up to 100 servers, with different names. The error joins a *[FieldError] for each
// fault.
func Catalog(servers ...Server) ([]byte, error) {
	if len(servers) > maxItems {
		return nil, fmt.Errorf("describe: a catalog may have %d servers", maxItems)
	}
	out := catalog{SpecVersion: "1.0", Entries: []catalogEntry{}}
	names := map[string]bool{}
	for i := range servers {
		s := &servers[i]
		text, err := s.Card()
		if err != nil {
			return nil, err
		}
		if names[s.Name] {
			return nil, fmt.Errorf("describe: two servers have the name %q", s.Name)
		}
		names[s.Name] = true
		entry := catalogEntry{Identifier: s.identifier(), Type: cardType, URL: s.cardURL()}
		if entry.URL == "" {
			entry.Data = text
		}
		out.Entries = append(out.Entries, entry)
	}
	return encode(&out)
}

// identifier returns the identifier in catalogs: the name in the order of DNS.
func (s *Server) identifier() string {
	namespace, name, _ := strings.Cut(s.Name, "/")
	labels := strings.Split(namespace, ".")
	slices.Reverse(labels)
	return "urn:air:" + strings.Join(labels, ".") + ":mcp:" + name
}

// cardSuffix follows the URL of an endpoint in the URL of its card.
const cardSuffix = "/server-card"

// cardURL returns the URL of the card, or "" if none follows from the endpoints.
func (s *Server) cardURL() string {
	for i := range s.Remotes {
		r := &s.Remotes[i]
		if r.Transport != transportHTTP {
			continue
		}
		u, ok := parseTemplate(r.URL)
		if !ok || strings.ContainsAny(r.URL, "{}") {
			return ""
		}
		u.RawQuery, u.ForceQuery = "", false
		return u.JoinPath(cardSuffix).String()
	}
	return ""
}

// parseCatalog returns the entries for server cards.
func parseCatalog(text []byte) ([]catalogEntry, error) {
	if len(text) > maxCatalog {
		return nil, fmt.Errorf("describe: an AI catalog may have %d bytes", maxCatalog)
	}
	var in catalog
	if err := json.Unmarshal(text, &in); err != nil {
		return nil, fmt.Errorf("describe: an AI catalog: %w", err)
	}
	if major, _, _ := strings.Cut(in.SpecVersion, "."); major != "1" {
		return nil, errors.New("describe: an AI catalog: expected specVersion 1")
	}
	return slices.DeleteFunc(in.Entries, func(e catalogEntry) bool {
		return e.Type != cardType && (e.Type != "" || e.MediaType != cardType)
	}), nil
}

// encode returns v as indented JSON.
func encode(v any) ([]byte, error) {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("describe: %w", err)
	}
	return append(text, '\n'), nil
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
