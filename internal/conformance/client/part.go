package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
)

// A part is what the client does in a scenario.
type part struct {
	given   *given
	session *client.Session
	tools   []*mcp.Tool
}

// play does what one scenario wants to see: in most of them, the first tool called.
func (p *part) play(ctx context.Context, scenario string) error {
	for tool, err := range p.session.Tools(ctx) {
		if err != nil {
			return err
		}
		p.tools = append(p.tools, tool)
	}
	switch scenario {
	case "request-metadata", "json-schema-ref-no-deref":
		return nil
	case "json-schema-2020-12-preservation":
		return p.echoSchema(ctx)
	case "http-standard-headers":
		return errors.Join(p.callAll(ctx), p.readAll(ctx), p.promptAll(ctx))
	case "http-custom-headers":
		return p.callGiven(ctx)
	case "http-invalid-tool-headers", "sep-2322-client-request-state":
		return p.callAll(ctx)
	}
	if strings.HasPrefix(scenario, "auth/") {
		return p.call(ctx, "test-tool", struct{}{})
	}
	if len(p.tools) == 0 {
		return nil
	}
	return p.call(ctx, p.tools[0].Name, map[string]int{"a": 2, "b": 3})
}

func (p *part) call(ctx context.Context, name string, arguments any) error {
	_, err := p.session.CallTool(ctx, name, arguments, nil)
	return err
}

// callAll calls every tool that there is, but for the one that is called meanwhile.
func (p *part) callAll(ctx context.Context) error {
	for _, tool := range p.tools {
		if tool.Name == unrelatedTool {
			continue
		}
		if err := p.call(ctx, tool.Name, struct{}{}); err != nil {
			return fmt.Errorf("calling %s: %w", tool.Name, err)
		}
	}
	return nil
}

func (p *part) callGiven(ctx context.Context) error {
	for _, call := range p.given.ToolCalls {
		if err := p.call(ctx, call.Name, call.Arguments); err != nil {
			return fmt.Errorf("calling %s: %w", call.Name, err)
		}
	}
	return nil
}

func (p *part) readAll(ctx context.Context) error {
	for resource, err := range p.session.Resources(ctx) {
		if err == nil {
			_, err = p.session.Read(ctx, resource.URI, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *part) promptAll(ctx context.Context) error {
	for prompt, err := range p.session.Prompts(ctx) {
		if err == nil {
			_, err = p.session.Prompt(ctx, prompt.Name, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// echoSchema sends a tool's schema back as it came.
func (p *part) echoSchema(ctx context.Context) error {
	for _, tool := range p.tools {
		if tool.Name == "json_schema_2020_12_tool" {
			return p.call(ctx, "json_schema_echo", map[string]json.RawMessage{"schema": tool.InputSchema})
		}
	}
	return errors.New("the tool with the schema is missing")
}

// unrelatedTool is called while another call waits for an answer.
const unrelatedTool = "test_mrtr_unrelated"

// elicit accepts every form, and leaves it at its defaults, or confirms.
func (p *part) elicit(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	for _, tool := range p.tools {
		if tool.Name == unrelatedTool {
			if err := p.call(ctx, unrelatedTool, struct{}{}); err != nil {
				return nil, err
			}
		}
	}
	content := json.RawMessage(`{}`)
	if strings.Contains(string(params.RequestedSchema), `"confirmed"`) {
		content = json.RawMessage(`{"confirmed":true}`)
	}
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, nil
}

// sample is the model, which always says the same. No scenario asks it; that it is there
// is what the client tells of itself.
func (*part) sample(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{Model: "none", Role: mcp.RoleAssistant, Content: mcp.SamplingContent{&mcp.TextContent{Text: "yes"}}}, nil
}

// roots are none.
func (*part) roots(context.Context) ([]mcp.Root, error) { return nil, nil }
