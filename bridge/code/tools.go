package code

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dovetail-go/dovetail/bridge/internal/twotools"
	"github.com/dovetail-go/dovetail/bridge/search"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The names of the two tools.
const (
	SearchTool = search.SearchTool
	ScriptTool = "run_script"
)

const (
	searchDescription = "Finds tools by what they do. Many more tools exist than are listed: search before you conclude that something " +
		"cannot be done. The result declares each tool as a function in TypeScript. Call the functions in a script with " + ScriptTool + "."

	scriptDescription = `Runs a JavaScript program that calls tools, and returns what the program returns. Use it for several calls at once, and to filter large results.

The program is the body of an async function. Each server is a global object, and each tool is a function in it, as ` + SearchTool + ` declares it:

const files = await fs.search_files({path: "docs", pattern: "*.md"})
const texts = await Promise.all(files.map(path => fs.read_text_file({path})))
return texts.filter(text => text.includes("TODO")).length

A function takes one object. Its value is the structured result of the tool, or else its text; with images, a list of both. A call that fails throws a ToolError. Images in what the program returns are shown to you. There are no modules, files, network or timers. console.log is for notes.`

	scriptInput = `{"type":"object","properties":{` +
		`"script":{"type":"string","maxLength":%d,"description":"The program: statements in JavaScript, with return and await"}},` +
		`"required":["script"],"additionalProperties":false}`
)

// newTools returns the entries of the two tools.
func (p *provider) newTools() (searchEntry, scriptEntry *server.Entry, err error) {
	description := p.options.Description
	if description != "" {
		description = "\n\n" + description
	}
	schema, err := findSchema()
	if err != nil {
		return nil, nil, err
	}
	if searchEntry, err = twotools.NewEntry(&mcp.Tool{
		Name: SearchTool, Title: "Search tools", Description: searchDescription + description, InputSchema: schema,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)},
	}, p.find); err != nil {
		return nil, nil, err
	}
	scriptEntry, err = twotools.NewEntry(&mcp.Tool{
		Name: ScriptTool, Title: "Run a script", Description: scriptDescription,
		InputSchema: fmt.Appendf(nil, scriptInput, p.options.Limits.Source),
	}, p.serveScript)
	return searchEntry, scriptEntry, err
}

// serveScript handles a call of [ScriptTool].
func (p *provider) serveScript(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	source, err := p.readScript(call.Member("arguments"))
	if err != nil {
		return newResult(&scriptResult{Error: err.Error()}, nil), nil
	}
	r, err := p.runScript(ctx, call, source)
	if _, asks := mcp.AsInputRequired(err); asks || err != nil && ctx.Err() != nil {
		return nil, err
	}
	if r == nil {
		return newResult(&scriptResult{Error: err.Error()}, nil), nil // a limit of scripts
	}
	return r.result(err), nil
}

// readScript returns the source of a script. The error is for the model.
func (p *provider) readScript(arguments json.RawMessage) (string, error) {
	members, err := twotools.ReadArguments(arguments, "script")
	if err != nil {
		return "", err
	}
	value := members.Get("script")
	if jsonscan.KindOf(value) != jsonscan.String {
		return "", errors.New("the argument script must be a string")
	}
	source := jsonscan.Unquote(value)
	if most := p.options.Limits.Source; len(source) > most {
		return "", fmt.Errorf("the script has %d bytes, more than %d", len(source), most)
	}
	return source, nil
}
