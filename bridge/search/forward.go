package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// forward makes the call that the arguments ask for.
func (p *Provider) forward(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	wanted, err := readWanted(call.Member("arguments"))
	if err != nil {
		return refused(err), nil
	}
	inner, err := wanted.in(call)
	if err != nil {
		return nil, err
	}
	return p.within.Serve(ctx, inner)
}

// wanted is a call that somebody wants to be made.
type wanted struct{ name, arguments json.RawMessage }

func readWanted(arguments json.RawMessage) (wanted, error) {
	members, err := readArguments(arguments, "name", "arguments")
	if err != nil {
		return wanted{}, err
	}
	w := wanted{members.Get("name"), members.Get("arguments")}
	if jsonscan.KindOf(w.name) != jsonscan.String {
		return wanted{}, errors.New("name must be a string: the name of a tool, as " + SearchTool + " has found it")
	}
	switch kind := jsonscan.KindOf(w.arguments); kind {
	case jsonscan.EOF, jsonscan.Null, jsonscan.Object:
		return w, nil
	default:
		return wanted{}, fmt.Errorf("arguments must be an object, not %v: what the tool takes by its inputSchema", kind)
	}
}

// in is the call with what is wanted in place of what it was; all other bytes of its
// params are as they were.
func (w wanted) in(call *mcp.Call) (*mcp.Call, error) {
	params := call.Params()
	params, err := jsonscan.Splice(make(json.RawMessage, 0, len(params)), params,
		jsonscan.Edit{Name: "name", Value: w.name}, jsonscan.Edit{Name: "arguments", Value: w.arguments})
	if err != nil {
		return nil, err
	}
	return call.Enter(nil, params, nil)
}

// readArguments reads the arguments of one of the two tools, which are those accepted.
func readArguments(arguments json.RawMessage, accepted ...string) (jsonscan.Members, error) {
	if arguments == nil {
		return jsonscan.Members{}, nil
	}
	members, err := jsonscan.ReadObject(arguments)
	if err != nil {
		return members, fmt.Errorf("arguments: %w", err)
	}
	for member := range members.All() {
		if !slices.ContainsFunc(accepted, func(name string) bool { return jsonscan.KeyIs(member.Key, name) }) {
			return members, fmt.Errorf("there is no argument %s here, only %s", jsonscan.Quote(member.Name()), strings.Join(accepted, ", "))
		}
	}
	return members, nil
}
