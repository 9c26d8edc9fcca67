package search

import (
	"log/slog"

	"github.com/dovetail-go/dovetail/mcp"
)

// Options configure a [Provider]. The zero value is good.
type Options struct {
	// Description tells a model what there is to be found, such as "GitHub issues and
	// pull requests, the wiki". It is added to the description of [SearchTool].
	Description string
	// Guards and CallMiddleware surround each tool that is found and called, not the two
	// tools. Guards see the tool's own name and arguments. What Visible of a guard hides
	// is not found either.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Logger takes what there is to say to the operator. Default slog.Default().
	Logger *slog.Logger
}
