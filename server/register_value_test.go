package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// givenBy makes a tool, a resource, a template and a prompt whose functions return a type, and
// returns the errors.
func givenBy[Out any]() (given givenErrors) {
	_, given.tool = server.NewTool(server.Tool{Name: "x"}, func(context.Context, *server.Request, struct{}) (out Out, err error) { return out, nil })
	_, given.resource = server.NewResource(server.Resource{URI: "app:x"}, func(context.Context, *server.Request) (out Out, err error) { return out, nil })
	_, given.template = server.NewTemplate(server.Template{URITemplate: "app:{x}"}, func(context.Context, *server.Request, map[string]string) (out Out, err error) { return out, nil })
	_, given.prompt = server.NewPrompt(server.Prompt{Name: "x"}, func(context.Context, *server.Request, struct{}) (out Out, err error) { return out, nil })
	return given
}

// givenErrors are those of registering a function of each kind.
type givenErrors struct{ tool, resource, template, prompt error }

type (
	resultGiver  struct{}
	contentGiver struct{}
	readGiver    struct{}
	promptGiver  struct{}
)

type (
	giveTool     struct{ _ server.ToolTag }
	giveResource struct {
		_ server.ResourceTag `uri:"app:x"`
	}
	givePrompt struct{ _ server.PromptTag }
)

func (resultGiver) Give(context.Context, giveTool) (mcp.CallToolResult, error) {
	return mcp.CallToolResult{}, nil
}

func (contentGiver) Give(context.Context, giveTool) (mcp.TextContent, error) {
	return mcp.TextContent{}, nil
}

func (readGiver) Give(context.Context, giveResource) (mcp.ReadResourceResult, error) {
	return mcp.ReadResourceResult{}, nil
}

func (promptGiver) Give(context.Context, givePrompt) (mcp.GetPromptResult, error) {
	return mcp.GetPromptResult{}, nil
}

// TestResultsByValueAreRefused: a function that returns a result or content as a value, and
// not a pointer to it, cannot be registered: its callers would get data that looks like one.
func TestResultsByValueAreRefused(t *testing.T) {
	result := givenBy[mcp.CallToolResult]().tool
	content := givenBy[mcp.TextContent]().tool
	image := givenBy[mcp.ImageContent]().tool
	read := givenBy[mcp.ReadResourceResult]()
	text := givenBy[mcp.TextResourceContents]()
	blob := givenBy[mcp.BlobResourceContents]()
	prompt := givenBy[mcp.GetPromptResult]().prompt
	_, resultMethod := server.Service(resultGiver{})
	_, contentMethod := server.Service(contentGiver{})
	_, readMethod := server.Service(readGiver{})
	_, promptMethod := server.Service(promptGiver{})
	for _, test := range []struct {
		err  error
		want string
	}{
		{result, `tool "x": result: mcp.CallToolResult is a result or content: return a pointer, *mcp.CallToolResult`},
		{content, `tool "x": result: mcp.TextContent is a result or content: return a pointer, *mcp.TextContent`},
		{image, `return a pointer, *mcp.ImageContent`},
		{read.resource, `resource "app:x": mcp.ReadResourceResult is a result or contents: return a pointer, *mcp.ReadResourceResult`},
		{read.template, `resource template "app:{x}": mcp.ReadResourceResult is a result or contents: return a pointer, *mcp.ReadResourceResult`},
		{text.resource, `return a pointer, *mcp.TextResourceContents`},
		{text.template, `return a pointer, *mcp.TextResourceContents`},
		{blob.resource, `return a pointer, *mcp.BlobResourceContents`},
		{blob.template, `return a pointer, *mcp.BlobResourceContents`},
		{prompt, `*mcp.GetPromptResult, not mcp.GetPromptResult`},
		{resultMethod, `return a pointer, *mcp.CallToolResult`},
		{contentMethod, `return a pointer, *mcp.TextContent`},
		{readMethod, `return a pointer, *mcp.ReadResourceResult`},
		{promptMethod, `*mcp.GetPromptResult, not mcp.GetPromptResult`},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("the error is %v, want %q", test.err, test.want)
		}
	}
}

// TestResultsByPointerAreTaken: the same types as pointers, each where it belongs.
func TestResultsByPointerAreTaken(t *testing.T) {
	result := givenBy[*mcp.CallToolResult]().tool
	content := givenBy[*mcp.TextContent]().tool
	read := givenBy[*mcp.ReadResourceResult]()
	blob := givenBy[*mcp.BlobResourceContents]()
	prompt := givenBy[*mcp.GetPromptResult]().prompt
	for _, err := range []error{result, content, read.resource, read.template, blob.resource, blob.template, prompt} {
		if err != nil {
			t.Error(err)
		}
	}
}
