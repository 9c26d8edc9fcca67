package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Target is what a call is for: a tool, prompt, resource or resource template, with
// all that guards, audit and metrics need to know of it. Targets are shared between
// calls: do not change the one of a call.
type Target struct {
	// Kind is that of the entry. A resource that only a template matches has the
	// template as its target.
	Kind Kind
	// Name is the name that callers use; the URI of a resource, the URI template of a
	// template.
	Name string
	// Origin says where the entry comes from; it is zero for a server's own.
	Origin Origin
	// Definition is the entry as callers see it in a list; nil if it is in no list.
	Definition *Definition
	// Scopes are the OAuth scopes that a call needs, those of all mounts included.
	Scopes []string
	// Metadata is for guards and functions. It is never sent.
	Metadata map[string]any
}

// An Origin says from which server a proxied entry comes.
type Origin struct {
	// Server is the alias of the server.
	Server string
	// Name is the entry's name on that server.
	Name string
	// Launch says how the server is started, for people who approve calls.
	Launch string
	// Trusted says that the annotations of the definition may be believed.
	Trusted bool
}

// A Definition is an entry of a list: the JSON of a [Tool], [Prompt], [Resource] or
// [ResourceTemplate]. It does not change; what is derived from it is computed once. Its
// methods may be called concurrently and on nil, which is an empty definition.
type Definition struct {
	raw  json.RawMessage
	once sync.Once
	derived
}

type derived struct {
	annotations ToolAnnotations
	tags        []string
	inputSchema json.RawMessage
	digest      string
}

// NewDefinition returns the definition with that JSON, which must not change afterwards.
func NewDefinition(raw json.RawMessage) *Definition { return &Definition{raw: raw} }

// JSON returns the definition as it is listed. Do not change it.
func (d *Definition) JSON() json.RawMessage {
	if d == nil {
		return nil
	}
	return d.raw
}

// Annotations returns the hints of a tool. They are what its server says: see
// [Origin].Trusted. Hints that cannot be decoded are absent.
func (d *Definition) Annotations() ToolAnnotations { return d.derive().annotations }

// Tags returns the strings in `_meta` at [MetaTags], sorted, each once. Tags are read as
// well where FastMCP puts them, at fastmcp.tags and _fastmcp.tags. Do not change them.
func (d *Definition) Tags() []string { return d.derive().tags }

// InputSchema returns the input schema of a tool, nil if there is none. Do not change it.
func (d *Definition) InputSchema() json.RawMessage { return d.derive().inputSchema }

// Digest returns the SHA-256 of the definition's bytes, in hexadecimal.
func (d *Definition) Digest() string { return d.derive().digest }

func (d *Definition) derive() *derived {
	if d == nil {
		return &derived{}
	}
	d.once.Do(func() {
		sum := sha256.Sum256(d.raw)
		d.digest = hex.EncodeToString(sum[:])
		members, err := jsonscan.ReadObject(d.raw)
		if err != nil {
			return
		}
		d.inputSchema = members.Get("inputSchema")
		if hints := members.Get("annotations"); hints != nil && d.annotations.UnmarshalJSON(hints) != nil {
			d.annotations = ToolAnnotations{}
		}
		meta := members.Get("_meta")
		d.tags = appendTags(d.tags, member(meta, MetaTags))
		d.tags = appendTags(d.tags, member(member(meta, "fastmcp"), "tags"))
		d.tags = appendTags(d.tags, member(member(meta, "_fastmcp"), "tags"))
		slices.Sort(d.tags)
		d.tags = slices.Compact(d.tags)
	})
	return &d.derived
}

// member returns a member of what may be an object.
func member(object json.RawMessage, name string) json.RawMessage {
	members, err := jsonscan.ReadObject(object)
	if err != nil {
		return nil
	}
	return members.Get(name)
}

// appendTags appends the strings of what may be a list of strings.
func appendTags(tags []string, list json.RawMessage) []string {
	var more []string
	if list == nil || json.Unmarshal(list, &more) != nil {
		return tags
	}
	return append(tags, more...)
}
