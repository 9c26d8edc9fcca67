package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A Target is what is called.
type Target struct {
	// Kind is by default [mcp.KindTool].
	Kind mcp.Kind
	// Server is what the operator calls the server that has it, such as an alias of a
	// bridge; "" if there is but one.
	Server string
	// Name is the name that the server has for the tool or prompt; the URI of the
	// resource, or the template itself.
	Name string
	// Exposed is the name that callers see. By default it is Name.
	Exposed string
	// Tags and Annotations are what the server says of it.
	Tags        []string
	Annotations *mcp.ToolAnnotations
	// Trusted says that they are true: the server is the operator's own, or the tool's
	// definition has been looked at and pinned. Otherwise nothing is allowed because of
	// them, and whatever is denied or asked about because of any is so.
	Trusted bool
}

func (t *Target) kind() mcp.Kind  { return cmp.Or(t.Kind, mcp.KindTool) }
func (t *Target) exposed() string { return cmp.Or(t.Exposed, t.Name) }

// Describe takes Annotations and Tags from an entry of a list. Tags are strings in its _meta:
// at [mcp.MetaTags], and where FastMCP puts them, at fastmcp.tags and _fastmcp.tags.
func (t *Target) Describe(entry json.RawMessage) error {
	listed, err := jsonscan.ReadObject(entry)
	if err != nil {
		return fmt.Errorf("policy: what is listed: %w", err)
	}
	t.Annotations, t.Tags = nil, nil
	if hints := listed.Get("annotations"); hints != nil && t.kind() == mcp.KindTool {
		t.Annotations = new(mcp.ToolAnnotations)
		if err := t.Annotations.UnmarshalJSON(hints); err != nil {
			return fmt.Errorf("policy: annotations: %w", err)
		}
	}
	for _, at := range []pointer{{"_meta", mcp.MetaTags}, {"_meta", "fastmcp", "tags"}, {"_meta", "_fastmcp", "tags"}} {
		tags, found := at.find(entry)
		if found != yes || jsonscan.KindOf(tags) != jsonscan.Array {
			continue
		}
		var texts []string
		err := read(tags, func(r *reader) error { return r.texts(&texts)() })
		if err != nil {
			return fmt.Errorf("policy: tags: %w", err)
		}
		t.Tags = append(t.Tags, texts...)
	}
	slices.Sort(t.Tags)
	t.Tags = slices.Compact(t.Tags)
	return nil
}
