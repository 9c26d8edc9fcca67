package memory

import "github.com/dovetail-go/dovetail/mcp"

// reads are the hints of a tool that changes nothing.
func reads() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)}
}

// replaces are the hints of a tool after which something that was saved may be gone,
// be it that it was saved over; to call it twice does no more.
func replaces() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{
		ReadOnlyHint: new(false), DestructiveHint: new(true), IdempotentHint: new(true), OpenWorldHint: new(false),
	}
}
