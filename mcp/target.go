package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Target is the entry that a call is for, with everything that guards, audit and metrics need.
// Targets are shared between calls and must not be changed.
type Target struct {
	// Kind is the kind of the entry. For a resource that only a template matches, the target is the
	// template. For a file of a skill that is not listed as a resource, and for a directory of a
	// skill, the target is the skill.
	Kind Kind
	// Name is the name that callers use: the URI of a resource, the URI template of a template, the
	// URI of the SKILL.md of a skill.
	Name string
	// Origin is the server that the entry comes from. It is zero for a server's own entries.
	Origin Origin
	// Definition is the entry as it is listed, or nil if it is in no list.
	Definition *Definition
	// Scopes are the OAuth scopes that a call needs, including the scopes of all mounts.
	Scopes []string
	// Metadata is for guards and functions. It is not sent.
	Metadata map[string]any
}

// An Origin names the server that a proxied entry comes from.
type Origin struct {
	// Server is the alias of the server.
	Server string
	// Name is the entry's name on that server.
	Name string
	// Launch describes how the server is started, for people who approve calls.
	Launch string
	// Trusted means that the annotations of the definition can be relied on.
	Trusted bool
}

// A Definition is an entry of a list: the JSON of a [Tool], [Prompt], [Resource],
// [ResourceTemplate], [Skill] or [EventType]. It is immutable, and derived values are computed once. Its methods may be
// called concurrently. A nil *Definition is empty.
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

// NewDefinition returns the definition with this JSON, which must not be changed afterwards.
func NewDefinition(raw json.RawMessage) *Definition { return &Definition{raw: raw} }

// JSON returns the definition as it is listed. The caller must not change it.
func (d *Definition) JSON() json.RawMessage {
	if d == nil {
		return nil
	}
	return d.raw
}

// Annotations returns the hints of a tool, as its server declares them; see [Origin].Trusted. Hints
// that cannot be decoded are absent.
func (d *Definition) Annotations() ToolAnnotations { return d.derive().annotations }

// Tags returns the strings in `_meta` at [MetaTags], sorted and without duplicates. It also reads
// the places where FastMCP puts tags, fastmcp.tags and _fastmcp.tags, and the member "tags" of
// lauren-mcp. The caller must not change the slice.
func (d *Definition) Tags() []string { return d.derive().tags }

// InputSchema returns the input schema of a tool or event, or nil. The caller must not change it.
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
		d.tags = appendTags(d.tags, members.Get("tags"))
		d.tags = appendTags(d.tags, objectMember(meta, MetaTags))
		d.tags = appendTags(d.tags, objectMember(objectMember(meta, "fastmcp"), "tags"))
		d.tags = appendTags(d.tags, objectMember(objectMember(meta, "_fastmcp"), "tags"))
		slices.Sort(d.tags)
		d.tags = slices.Compact(d.tags)
	})
	return &d.derived
}

// objectMember returns a member of a value that may be an object.
func objectMember(object json.RawMessage, name string) json.RawMessage {
	members, err := jsonscan.ReadObject(object)
	if err != nil {
		return nil
	}
	return members.Get(name)
}

// appendTags appends the strings of a value that may be a list of strings.
func appendTags(tags []string, list json.RawMessage) []string {
	var more []string
	if list == nil || json.Unmarshal(list, &more) != nil {
		return tags
	}
	return append(tags, more...)
}

// A Kind is a kind of entry.
type Kind uint8

// The kinds of entries. The zero Kind is none of them.
const (
	KindTool Kind = iota + 1
	KindPrompt
	KindResource
	KindResourceTemplate
	KindSkill // since 2026-07-28, see [Skill]
	KindEvent
)

var kindNames = [...]string{"", "tool", "prompt", "resource", "resource template", "skill", "event"}

// String returns the name of the kind, such as "resource template".
func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("Kind(%d)", k)
	}
	return kindNames[k]
}

// MarshalText returns the name of the kind.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText sets the kind by its name.
func (k *Kind) UnmarshalText(text []byte) error {
	for kind, name := range kindNames {
		if kind > 0 && name == string(text) {
			*k = Kind(kind)
			return nil
		}
	}
	return fmt.Errorf("mcp: a kind is one of %q, not %.40q", kindNames[1:], text)
}

// A Change reports that a list of a server, the content of a resource, or a task has changed.
type Change struct {
	// Kind says which list has changed. The lists of resources, of templates and of skills change
	// together, as [KindResource].
	Kind Kind
	// URI is the resource whose content has changed; "" if a list has changed.
	URI string
	// TaskID is the task that has changed. Kind is 0 then.
	TaskID string
	// For is the principal (see [Caller]) whose subscribers are notified, or "" for all. Servers
	// use it; it is not sent.
	For string
}
