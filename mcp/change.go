package mcp

// A Change says that something a server offers is different now.
type Change struct {
	Kind ChangeKind
	// URI is the resource's, for ResourceUpdated.
	URI string
	// For is the principal (see [Caller]) whose subscribers are to be told, "" if all
	// are. It is a server's own: no client is told whom else a change is for.
	For string
}

// A ChangeKind is what changed.
type ChangeKind uint8

// The kinds of change that can be subscribed to.
const (
	ToolsChanged ChangeKind = iota + 1
	PromptsChanged
	ResourcesChanged
	ResourceUpdated
)
