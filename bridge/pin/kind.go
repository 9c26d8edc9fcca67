package pin

import (
	"cmp"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Kind is a kind of pinned entry.
type Kind string

// The kinds of pinned entries.
const (
	Tool             Kind = "tool"
	Prompt           Kind = "prompt"
	Resource         Kind = "resource"
	ResourceTemplate Kind = "resourceTemplate"
	Skill            Kind = "skill"
	Event            Kind = "event"
	// Content is the content of a resource whose URI begins with ui://, which a browser runs.
	Content Kind = "content"
)

// kinds lists all kinds in the order of the lock file.
func kinds() []Kind {
	return []Kind{Tool, Prompt, Resource, ResourceTemplate, Skill, Event, Content}
}

// listedKinds are the kinds of the entries of a catalog.
func listedKinds() []mcp.Kind {
	return []mcp.Kind{mcp.KindTool, mcp.KindPrompt, mcp.KindResource, mcp.KindResourceTemplate, mcp.KindSkill, mcp.KindEvent}
}

// kindOf returns the kind of an entry of a catalog.
func kindOf(kind mcp.Kind) Kind { return kinds()[kind-mcp.KindTool] }

// mcpKind is the inverse of kindOf.
func mcpKind(kind Kind) mcp.Kind { return mcp.KindTool + mcp.Kind(slices.Index(kinds(), kind)) }

// section returns the name of the member of the lock file that has the pins of a kind.
func (k Kind) section() string { return string(k) + "s" }

// what returns the name of the kind in messages.
func (k Kind) what() string {
	if k == ResourceTemplate {
		return "resource template"
	}
	return string(k)
}

// memberNames returns the members that a digest covers, in the order of RFC 8785.
func (k Kind) memberNames() []string {
	switch k {
	case Tool:
		return []string{"_meta", "annotations", "description", "inputSchema", "name", "outputSchema", "title"}
	case Prompt:
		return []string{"_meta", "arguments", "description", "name", "title"}
	case Resource:
		return []string{"_meta", "annotations", "description", "mimeType", "name", "title", "uri"}
	case ResourceTemplate:
		return []string{"_meta", "annotations", "description", "mimeType", "name", "title", "uriTemplate"}
	case Skill:
		return []string{"_meta", "frontmatter", "resources", "uri"}
	case Event:
		return []string{"_meta", "delivery", "description", "inputSchema", "name", "payloadSchema", "title"}
	case Content:
		return []string{"contents"}
	}
	return nil
}

// An Entry identifies a pinned entry of a server.
type Entry struct {
	Kind Kind
	// Name is the name of the entry, or the URI of a resource, a skill or a content, or the URI template.
	Name string
}

func compareEntries(a, b Entry) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}
