package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/client/skills"
	"github.com/dovetail-go/dovetail/mcp"
)

// A scenario is the execution of a scenario of the suite.
type scenario struct {
	params  *parameters
	session *client.Session
	tools   []*mcp.Tool
}

// execute executes a scenario. Most of them expect a call of the first tool.
func (s *scenario) execute(ctx context.Context, name string) error {
	for tool, err := range s.session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		s.tools = append(s.tools, tool)
	}
	switch name {
	case "request-metadata", "json-schema-ref-no-deref":
		return nil
	case "json-schema-2020-12-preservation":
		return s.echoSchema(ctx)
	case "http-standard-headers":
		return errors.Join(s.callAll(ctx), s.readAll(ctx), s.promptAll(ctx))
	case "http-custom-headers":
		return s.callAsConfigured(ctx)
	case "http-invalid-tool-headers", "sep-2322-client-request-state":
		return s.callAll(ctx)
	}
	if check, ok := strings.CutPrefix(name, "sep-2640-client-"); ok {
		return s.openSkills(ctx, check)
	}
	if strings.HasPrefix(name, "auth/") {
		return s.call(ctx, "test-tool", struct{}{})
	}
	if len(s.tools) == 0 {
		return nil
	}
	return s.call(ctx, s.tools[0].Name, map[string]int{"a": 2, "b": 3})
}

// openSkills opens all skills. Unless that is the scenario, it loads them too, and reads their other files: the
// content of SKILL.md must be refused before that.
func (s *scenario) openSkills(ctx context.Context, check string) error {
	for entry, err := range s.session.Skills(ctx, nil) {
		if err != nil {
			return err
		}
		skill, err := skills.Open(s.session, entry, nil)
		if err != nil {
			return err
		}
		if check == "no-prefetch" {
			continue
		}
		_, err = skill.Load(ctx)
		if refused, ok := errors.AsType[*skills.VerifyError](err); ok && check == "verify-"+strings.ReplaceAll(refused.Check, " ", "") {
			continue
		} else if err != nil {
			return err
		}
		for _, file := range entry.Resources {
			if _, err := skill.Read(ctx, file.URI); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scenario) call(ctx context.Context, name string, arguments any) error {
	_, err := s.session.CallTool(ctx, name, arguments, nil)
	return err
}

// callAll calls every tool except unrelatedTool.
func (s *scenario) callAll(ctx context.Context) error {
	for _, tool := range s.tools {
		if tool.Name == unrelatedTool {
			continue
		}
		if err := s.call(ctx, tool.Name, struct{}{}); err != nil {
			return fmt.Errorf("calling %s: %w", tool.Name, err)
		}
	}
	return nil
}

func (s *scenario) callAsConfigured(ctx context.Context) error {
	for _, call := range s.params.ToolCalls {
		if err := s.call(ctx, call.Name, call.Arguments); err != nil {
			return fmt.Errorf("calling %s: %w", call.Name, err)
		}
	}
	return nil
}

func (s *scenario) readAll(ctx context.Context) error {
	for resource, err := range s.session.Resources(ctx, nil) {
		if err == nil {
			_, err = s.session.ReadResource(ctx, resource.URI, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *scenario) promptAll(ctx context.Context) error {
	for prompt, err := range s.session.Prompts(ctx, nil) {
		if err == nil {
			_, err = s.session.GetPrompt(ctx, prompt.Name, nil, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// echoSchema sends the received schema of a tool back unchanged.
func (s *scenario) echoSchema(ctx context.Context) error {
	for _, tool := range s.tools {
		if tool.Name == "json_schema_2020_12_tool" {
			return s.call(ctx, "json_schema_echo", map[string]json.RawMessage{"schema": tool.InputSchema})
		}
	}
	return errors.New("the tool with the schema is missing")
}

// unrelatedTool is a tool to call while another call waits for an answer.
const unrelatedTool = "test_mrtr_unrelated"

// elicit accepts every form with its defaults, and confirms if asked to.
func (s *scenario) elicit(ctx context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	for _, tool := range s.tools {
		if tool.Name == unrelatedTool {
			if err := s.call(ctx, unrelatedTool, struct{}{}); err != nil {
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

// sample answers for the model. No scenario calls it, but some expect the capability.
func (*scenario) sample(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{Model: "none", Role: mcp.RoleAssistant, Content: mcp.SamplingContent{&mcp.TextContent{Text: "yes"}}}, nil
}

// roots returns no roots.
func (*scenario) roots(context.Context) ([]mcp.Root, error) { return nil, nil }
