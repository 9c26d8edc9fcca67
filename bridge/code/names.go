package code

import (
	"context"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/internal/tooltype"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A function is a tool as scripts see it.
type function struct {
	server string // the global object
	name   string // of the function in it
	entry  *server.Entry
}

// String returns how a script calls the function: files.read_text_file.
func (f *function) String() string { return f.server + "." + f.name }

// ownServer is the global object with the tools that belong to no server of a bridge.
const ownServer = "tools"

// A namespace has the functions of a catalog.
type namespace struct {
	functions []*function          // in the order of the catalog
	byText    map[string]*function // by String
	byTool    map[string]*function // by the name of the tool
}

// namesOf returns the functions of a catalog. The first call makes them.
func namesOf(c *server.Catalog) *namespace {
	type key struct{}
	return c.Memo(key{}, func() any { return newNamespace(c) }).(*namespace)
}

// newNamespace gives the functions names. A name that is used already gets a number.
func newNamespace(c *server.Catalog) *namespace {
	n := &namespace{byText: make(map[string]*function), byTool: make(map[string]*function)}
	used := tooltype.Reserve(strings.Fields(reserved)...)
	type object struct {
		name string
		used tooltype.Names
	}
	objects := make(map[string]object) // by the alias of the server
	for e := range c.All(mcp.KindTool) {
		if n.byTool[e.Name] != nil {
			continue // a variant
		}
		alias, name := e.Origin.Server, e.Origin.Name
		if alias == "" {
			alias, name = ownServer, e.Name
		}
		of, known := objects[alias]
		if !known {
			of = object{used.Add(tooltype.Word(alias)), tooltype.Reserve("then", "toJSON", "constructor", "__proto__")}
			objects[alias] = of
		}
		f := &function{of.name, of.used.Add(tooltype.Word(name)), e}
		n.functions = append(n.functions, f)
		n.byText[f.String()], n.byTool[e.Name] = f, f
	}
	return n
}

// visible returns the functions that a caller sees, by object and function, with the text that identifies each.
func (n *namespace) visible(ctx context.Context, c *server.Catalog, caller *mcp.Caller) map[string]map[string]string {
	objects := make(map[string]map[string]string)
	for _, f := range n.functions {
		if f.entry.Visible != nil {
			if seen, err := c.LookupFor(ctx, caller, mcp.KindTool, f.entry.Name); seen == nil || err != nil {
				continue
			}
		}
		if objects[f.server] == nil {
			objects[f.server] = make(map[string]string)
		}
		objects[f.server][f.name] = f.String()
	}
	return objects
}

// reserved has the words that cannot be the name of a variable (ECMA-262, section 12.7.2), and the globals of a script.
const reserved = " arguments as async await break case catch class const continue debugger default delete do else enum eval " +
	"export extends false finally for from function get if implements import in instanceof interface let new null " +
	"of package private protected public return set static super switch target this throw true try typeof undefined " +
	"var void while with yield AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array Boolean " +
	"DataView Date DOMException DisposableStack Error EvalError Float16Array Float32Array Float64Array Function Infinity Int16Array Int32Array " +
	"Int8Array Iterator JSON Map Math NaN Number Object Promise Proxy RangeError ReferenceError Reflect RegExp Set " +
	"String Symbol SuppressedError SyntaxError ToolError TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray " +
	"UnknownOutcome WeakMap WeakSet atob btoa console decodeURI decodeURIComponent encodeURI " +
	"encodeURIComponent escape globalThis isFinite isNaN parseFloat parseInt queueMicrotask unescape "
