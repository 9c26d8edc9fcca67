package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/dovetail-go/dovetail/bridge/internal/twotools"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The names of the two tools. CallTool can call tools of the source with the same names.
const (
	SearchTool = "search_tools"
	CallTool   = "call_tool"
)

const (
	searchDescription = "Finds tools by what they do. Many more tools exist than are listed: search before you conclude that something " +
		"cannot be done. The result has the name, description and inputSchema of each tool. Call a tool with " + CallTool + "."
	callDescription = "Calls a tool that " + SearchTool + " has found. The arguments must match the tool's inputSchema."

	searchOutput = `{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object"}}},"required":["tools"]}`
	callInput    = `{"type":"object","properties":{` +
		`"name":{"type":"string","description":"Name of the tool, from the search result"},` +
		`"arguments":{"type":"object","description":"Arguments of the tool"}},` +
		`"required":["name"],"additionalProperties":false}`
)

// QuerySchema returns the input schema of [SearchTool].
func QuerySchema() json.RawMessage {
	return fmt.Appendf(nil, `{"type":"object","properties":{`+
		`"query":{"type":"string","maxLength":%d,"description":"What the tool should do: a verb and its object, in the words of the service, such as: create pull request"},`+
		`"limit":{"type":"integer","minimum":1,"maximum":%d,"default":%d,"description":"Maximum number of tools to find"},`+
		`"prefix":{"type":"string","description":"Find only tools whose names begin with this text"}},`+
		`"required":["query"],"additionalProperties":false}`, maxQuery, maxLimit, defaultLimit)
}

// newTools returns the entries of the two tools.
func (f *finder) newTools(description string) (search, call *server.Entry, err error) {
	if description != "" {
		description = "\n\n" + description
	}
	if search, err = twotools.NewEntry(&mcp.Tool{
		Name: SearchTool, Title: "Search tools", Description: searchDescription + description,
		InputSchema: QuerySchema(), OutputSchema: []byte(searchOutput),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)},
	}, f.find); err != nil {
		return nil, nil, err
	}
	if call, err = twotools.NewEntry(&mcp.Tool{
		Name: CallTool, Title: "Call a tool", Description: callDescription, InputSchema: []byte(callInput),
	}, f.forward); err != nil {
		return nil, nil, err
	}
	call.Tasks = f.source.Serve
	return search, call, nil
}

// find handles a call of [SearchTool].
func (f *finder) find(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	q, err := ReadQuery(call.Member("arguments"))
	if err != nil {
		return twotools.Failure(err), nil
	}
	catalog := f.source.Catalog()
	return newFound(Find(ctx, catalog, call.Caller, q)), nil
}

// Find returns the best tools of a catalog that a caller sees, the best first. The index of the catalog is built by the first
// call.
func Find(ctx context.Context, catalog *server.Catalog, caller *mcp.Caller, q Query) []*server.Entry {
	index := indexOf(catalog)
	numbers := index.search(q, func(tool int32) bool {
		e := index.entries[tool]
		if e.Visible == nil {
			return true
		}
		seen, err := catalog.LookupFor(ctx, caller, mcp.KindTool, e.Name)
		return seen == e && err == nil
	})
	found := make([]*server.Entry, len(numbers))
	for i, tool := range numbers {
		found[i] = index.entries[tool]
	}
	return found
}

// A Query has the arguments of [SearchTool].
type Query struct {
	// Text says what the tools should do, in at most 1,024 bytes.
	Text string
	// Prefix is what the names of the tools begin with. "" means any name.
	Prefix string
	// Limit is how many tools are found at most, from 1 to 50.
	Limit int
}

// ReadQuery reads the arguments of [SearchTool] by the schema of [QuerySchema]. Further arguments are errors, except those
// in also, which the caller reads. The error is for the model.
func ReadQuery(arguments json.RawMessage, also ...string) (Query, error) {
	members, err := twotools.ReadArguments(arguments, append([]string{"query", "limit", "prefix"}, also...)...)
	if err != nil {
		return Query{}, err
	}
	q := Query{Limit: defaultLimit}
	if q.Text, err = readText("query", members.Get("query")); err != nil {
		return Query{}, err
	}
	if prefix := members.Get("prefix"); jsonscan.IsPresent(prefix) {
		if q.Prefix, err = readText("prefix", prefix); err != nil {
			return Query{}, err
		}
	}
	if limit := members.Get("limit"); jsonscan.IsPresent(limit) {
		if q.Limit, err = strconv.Atoi(string(limit)); err != nil || q.Limit < 1 || q.Limit > maxLimit {
			return Query{}, fmt.Errorf("limit must be an integer from 1 to %d, not %.40s", maxLimit, limit)
		}
	}
	return q, nil
}

func readText(name string, value []byte) (string, error) {
	if jsonscan.KindOf(value) != jsonscan.String {
		return "", fmt.Errorf("%s must be a string", name)
	}
	text := jsonscan.Unquote(value)
	if len(text) > maxQuery {
		return "", fmt.Errorf("%s must have at most %d bytes, not %d", name, maxQuery, len(text))
	}
	return text, nil
}

// found is the result of a search: an object with the definitions of tools. It is sent as
// structured content and as text.
type found []byte

func newFound(tools []*server.Entry) found {
	size := len(`{"tools":[]}`)
	for i, tool := range tools {
		size += len(tool.Definition.JSON()) + 1
		if i > 0 && size > maxFound {
			tools = tools[:i]
			break
		}
	}
	f := append(make(found, 0, min(size, maxFound)), `{"tools":[`...)
	for i, tool := range tools {
		if i > 0 {
			f = append(f, ',')
		}
		f = append(f, tool.Definition.JSON()...)
	}
	return append(f, `]}`...)
}

// AppendJSON appends the result object.
func (f found) AppendJSON(dst []byte) ([]byte, error) {
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	dst = jsonscan.AppendString(dst, string(f))
	dst = append(dst, `}],"structuredContent":`...)
	return append(append(dst, f...), '}'), nil
}

// forward handles a call of [CallTool]. It makes the call that the arguments describe: name and
// arguments of the params are replaced, all other bytes are kept.
func (f *finder) forward(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	name, arguments, err := readCall(call.Member("arguments"))
	if err != nil {
		return twotools.Failure(err), nil
	}
	if err := f.becomeTask(ctx, call, name); err != nil {
		return nil, err
	}
	responder := &twotools.Responder{Call: call, Name: "call"}
	nested, err := responder.Nest(responder, name, arguments)
	if err != nil {
		return nil, err
	}
	result, err := f.source.Serve(ctx, nested)
	return result, responder.Outside(err)
}

// becomeTask returns the error of a call that continues as a task because the entry returns tasks of another server. A
// caller knows the ids of such tasks only through the entry, which the caller does not see here. All other tools decide
// for themselves, after their guards.
func (f *finder) becomeTask(ctx context.Context, call *mcp.Call, name json.RawMessage) error {
	if !call.Caller.Capabilities.HasExtension(mcp.ExtensionTasks) {
		return nil
	}
	e := f.source.Catalog().Lookup(mcp.KindTool, jsonscan.Unquote(name)) // entries of other servers have no variants
	if e == nil || e.Tasks == nil || e.Task == server.TaskForbidden || e.Visible != nil && !e.Visible(ctx, call.Caller) {
		return nil
	}
	return call.BecomeTask(mcp.TaskRequest{})
}

func readCall(raw json.RawMessage) (name, arguments json.RawMessage, err error) {
	members, err := twotools.ReadArguments(raw, "name", "arguments")
	if err != nil {
		return nil, nil, err
	}
	name, arguments = members.Get("name"), members.Get("arguments")
	if jsonscan.KindOf(name) != jsonscan.String {
		return nil, nil, errors.New("name must be a string: the name of a tool, from the result of " + SearchTool)
	}
	switch kind := jsonscan.KindOf(arguments); kind {
	case jsonscan.EOF, jsonscan.Null, jsonscan.Object:
		return name, arguments, nil
	default:
		return nil, nil, fmt.Errorf("arguments must be an object that matches the tool's inputSchema, not %v", kind)
	}
}
