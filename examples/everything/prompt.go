package main

import (
	"context"
	"fmt"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type twoArguments struct {
	Arg1 string `json:"arg1" jsonschema_description:"First test argument"`
	Arg2 string `json:"arg2" jsonschema_description:"Second test argument"`
}

type embedArguments struct {
	ResourceURI string `json:"resourceUri" jsonschema_description:"URI of the resource to embed"`
}

type promptContext struct {
	Context string `json:"context"`
}

// addPrompts adds prompts of every kind of content, and one that asks.
func addPrompts(s *server.Server) {
	server.AddPrompt(s, server.Prompt{
		Name: "test_simple_prompt", Title: "Simple Test Prompt", Description: "A simple prompt without arguments",
	}, func(context.Context, *server.Request, struct{}) (string, error) {
		return "This is a simple prompt for testing.", nil
	})
	server.AddPrompt(s, server.Prompt{
		Name: "test_prompt_with_arguments", Title: "Prompt With Arguments", Description: "A prompt with required arguments",
	}, func(_ context.Context, _ *server.Request, args twoArguments) (string, error) {
		return fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args.Arg1, args.Arg2), nil
	})
	server.AddPrompt(s, server.Prompt{
		Name: "test_prompt_with_embedded_resource", Title: "Prompt With Embedded Resource", Description: "A prompt that includes an embedded resource",
	}, func(_ context.Context, _ *server.Request, args embedArguments) ([]mcp.PromptMessage, error) {
		return fromUser(mcp.Embed(&mcp.TextResourceContents{
			URI: args.ResourceURI, MIMEType: "text/plain", Text: "Embedded resource content for testing.",
		}), mcp.Text("Please process the embedded resource above.")), nil
	})
	server.AddPrompt(s, server.Prompt{
		Name: "test_prompt_with_image", Title: "Prompt With Image", Description: "A prompt that includes image content",
	}, func(context.Context, *server.Request, struct{}) ([]mcp.PromptMessage, error) {
		return fromUser(mcp.Image(pixel, "image/png"), mcp.Text("Please analyze the image above.")), nil
	})
	server.AddPrompt(s, server.Prompt{
		Name: "test_input_required_result_prompt", Description: "A prompt that asks the user for its context",
	}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		answer, err := server.Elicit[promptContext](r, "user_context", "What context should the prompt use?")
		return "Prompt with context: " + answer.Context, err
	})
}

func fromUser(contents ...mcp.Content) []mcp.PromptMessage {
	messages := make([]mcp.PromptMessage, len(contents))
	for i, content := range contents {
		messages[i] = mcp.PromptMessage{Role: mcp.RoleUser, Content: content}
	}
	return messages
}
