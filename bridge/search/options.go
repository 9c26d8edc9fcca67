package search

import (
	"log/slog"

	"github.com/dovetail-go/dovetail/server"
)

// Options configure a [Provider]. The zero value is good.
type Options struct {
	// Description tells a model what there is to be found, such as "GitHub issues and
	// pull requests, the wiki". It is added to the description of [SearchTool].
	Description string
	// Around stands around each tool that is found and called, not around the two
	// tools. Guards see the tool's own name and arguments; those that hide are asked
	// when tools are searched, too. Outer interceptors see a search as tools/list, and
	// what they take out of that list is not found. There is no lifespan here:
	// functions cannot use server.State.
	Around server.Around
	// Logger takes what there is to say to the operator. Default slog.Default().
	Logger *slog.Logger
}
