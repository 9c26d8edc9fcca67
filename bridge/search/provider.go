package search

import (
	"cmp"
	"log/slog"

	"github.com/dovetail-go/dovetail/bridge/internal/twotools"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const (
	// defaultLimit is the largest number of tools that a search finds by default.
	defaultLimit = 5
	// maxLimit is the largest limit of a search.
	maxLimit = 50
	// maxQuery is the length of the longest query, in bytes.
	maxQuery   = 1 << 10
	maxIndexed = 512     // words of one tool
	maxWord    = 64      // bytes
	maxBegin   = 32      // terms for a word of a query
	maxFound   = 1 << 20 // bytes of a result; the best tool may be longer
)

// Options configure a provider. The zero value is ready for use.
type Options struct {
	// Description tells a model which tools can be found, such as "GitHub issues and pull requests, the wiki". It is
	// added to the description of [SearchTool].
	Description string
	// Guards and CallMiddleware apply to the tools of the source, not to the two tools. A
	// tool that Visible of a guard hides is not found.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Logger logs entries that cannot be offered or found. Default: slog.Default().
	Logger *slog.Logger
}

// A finder handles the calls of the two tools.
type finder struct {
	source *server.Server // mounts the source behind the guards and middleware
}

// New returns a provider with [SearchTool] and [CallTool] in place of the tools of source.
// Other entries are offered unchanged. Mount the provider with [server.Server.Mount]. It runs source, and may be used
// concurrently. opts may be nil.
//
// The error is a *[server.CollisionError] if source has two entries of one name, or says that
// an entry is not valid. Such entries that appear later are logged and not offered.
func New(source server.Provider, opts *Options) (server.Provider, error) {
	options := *cmp.Or(opts, new(Options))
	f := &finder{server.New(mcp.Implementation{Name: "search"}, &server.Options{
		Guards: options.Guards, CallMiddleware: options.CallMiddleware, Logger: options.Logger,
	})}
	search, call, err := f.newTools(options.Description)
	if err != nil {
		return nil, err
	}
	return twotools.New("search", f.source.Provider(), search, call, options.Logger), f.source.Mount(source, nil)
}
