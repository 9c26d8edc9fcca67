package twotools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// NewEntry returns the entry of one of the two tools. Its calls become calls of other tools.
func NewEntry(tool *mcp.Tool, handle mcp.Handler) (*server.Entry, error) {
	definition, err := tool.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return &server.Entry{
		Forwards: true,
		Target:   mcp.Target{Kind: mcp.KindTool, Name: tool.Name, Definition: mcp.NewDefinition(definition)},
		Handle:   handle,
	}, nil
}

// ReadArguments reads the arguments of one of the two tools. Unknown ones are errors, which are for the model.
func ReadArguments(arguments json.RawMessage, known ...string) (jsonscan.Members, error) {
	if arguments == nil {
		return jsonscan.Members{}, nil
	}
	members, err := jsonscan.ReadObject(arguments)
	if err != nil {
		return members, fmt.Errorf("arguments: %w", err)
	}
	for member := range members.All() {
		if !slices.ContainsFunc(known, func(name string) bool { return jsonscan.KeyIs(member.Key, name) }) {
			return members, fmt.Errorf("unknown argument %s, expected only %s", jsonscan.Quote(member.Name()), strings.Join(known, ", "))
		}
	}
	return members, nil
}

// Failure returns a result that describes an error in the arguments to the model.
func Failure(err error) mcp.Result {
	return &mcp.CallToolResult{Content: mcp.ContentList{mcp.Text(err.Error())}, IsError: true}
}
