package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A listing is how a list method answers.
type listing struct {
	kind   mcp.Kind
	member string // that holds the entries
	name   string // the member of an entry that names it
}

func listOf(method string) (listing, bool) {
	switch method {
	case mcp.MethodToolsList:
		return listing{mcp.KindTool, "tools", "name"}, true
	case mcp.MethodPromptsList:
		return listing{mcp.KindPrompt, "prompts", "name"}, true
	case mcp.MethodResourcesList:
		return listing{mcp.KindResource, "resources", "uri"}, true
	case mcp.MethodResourceTemplatesList:
		return listing{mcp.KindResourceTemplate, "resourceTemplates", "uriTemplate"}, true
	default:
		return listing{}, false
	}
}

// list leaves out of a list what its caller may not call. What is left is as it came, and
// private: others may be allowed other calls.
func (e *Enforcer) list(ctx context.Context, call *mcp.Call, l listing, next mcp.Handler) (mcp.Result, error) {
	result, err := next(ctx, call)
	if err != nil {
		return nil, err
	}
	whole, err := result.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	members, err := jsonscan.ReadObject(whole)
	if err != nil {
		return nil, err
	}
	caller, nobody := e.who(ctx, call)
	entries, err := l.filter(members.Get(l.member), func(name string) bool {
		_, d := e.decide(ctx, call, caller, nobody, l.kind, name, true)
		return e.offers(d)
	})
	if err != nil {
		return nil, err
	}
	edits := []jsonscan.Edit{{Name: "cacheScope", Value: []byte(`"` + mcp.CachePrivate + `"`)}, {Name: l.member, Value: entries}}
	filtered, err := jsonscan.Splice(make([]byte, 0, len(whole)), whole, edits...)
	return mcp.Raw(filtered), err
}

// filter returns an array with those entries that are shown. One without a name is not.
func (l *listing) filter(entries json.RawMessage, shows func(name string) bool) ([]byte, error) {
	if jsonscan.KindOf(entries) != jsonscan.Array {
		return nil, errors.New("gateway: " + l.member + " of a list is no array")
	}
	scan := jsonscan.New(entries)
	if err := scan.EnterArray(); err != nil {
		return nil, err
	}
	shown := append(make([]byte, 0, len(entries)), '[')
	for first := true; ; first = false {
		ok, err := scan.Element(first)
		if err != nil {
			return nil, err
		}
		if !ok {
			return append(shown, ']'), nil
		}
		entry, err := scan.Value()
		if err != nil {
			return nil, err
		}
		members, err := jsonscan.ReadObject(entry)
		if err != nil {
			continue
		}
		name := members.Get(l.name)
		if jsonscan.KindOf(name) != jsonscan.String || !shows(jsonscan.Unquote(name)) {
			continue
		}
		if len(shown) > 1 {
			shown = append(shown, ',')
		}
		shown = append(shown, entry...)
	}
}
