package features

import (
	"context"
	_ "embed" // for the media
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// Media of the tools: one red pixel and one silent sample.
var (
	//go:embed pixel.png
	pixel []byte
	//go:embed silence.wav
	silence []byte
)

// addContent adds a tool for each kind of content.
func addContent(s *server.Server) {
	server.AddTool(s, server.Tool{Name: "test_simple_text", Description: "Says one text."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "This is a simple text response for testing.", nil
		})
	server.AddTool(s, server.Tool{Name: "test_image_content", Description: "Shows a picture."},
		func(context.Context, *server.Request, struct{}) (*mcp.ImageContent, error) {
			return mcp.Image(pixel, "image/png"), nil
		})
	server.AddTool(s, server.Tool{Name: "test_audio_content", Description: "Plays a sound."},
		func(context.Context, *server.Request, struct{}) (*mcp.AudioContent, error) {
			return mcp.Audio(silence, "audio/wav"), nil
		})
	server.AddTool(s, server.Tool{Name: "test_embedded_resource", Description: "Encloses a resource."},
		func(context.Context, *server.Request, struct{}) (*mcp.EmbeddedResource, error) {
			return mcp.Embed(&mcp.TextResourceContents{
				URI: "test://embedded-resource", MIMEType: "text/plain", Text: "This is an embedded resource content.",
			}), nil
		})
	server.AddTool(s, server.Tool{Name: "test_resource_link", Description: "Points to a resource."},
		func(context.Context, *server.Request, struct{}) (*mcp.ResourceLink, error) {
			return &mcp.ResourceLink{URI: "test://static-text", Name: "static-text", MIMEType: "text/plain"}, nil
		})
	server.AddTool(s, server.Tool{Name: "test_multiple_content_types", Description: "Says, shows and encloses at once."},
		func(context.Context, *server.Request, struct{}) ([]mcp.Content, error) {
			return []mcp.Content{
				mcp.Text("Multiple content types test:"),
				mcp.Image(pixel, "image/png"),
				mcp.Embed(&mcp.TextResourceContents{
					URI: "test://mixed-content-resource", MIMEType: "application/json", Text: `{"test":"data","value":123}`,
				}),
			}, nil
		})
	server.AddTool(s, server.Tool{Name: "test_error_handling", Description: "Always fails."},
		func(context.Context, *server.Request, struct{}) (string, error) {
			return "", failure("This tool intentionally returns an error for testing")
		})
}

// A failure is an error whose text is a sentence.
type failure string

func (f failure) Error() string { return string(f) }

type forecastIn struct {
	City string `json:"city" jsonschema:"minLength=1" jsonschema_description:"where"`
	Unit string `json:"unit,omitempty" jsonschema:"enum=celsius,enum=fahrenheit,default=celsius" jsonschema_description:"of the temperature"`
	Days int    `json:"days,omitempty" jsonschema:"default=1,minimum=1,maximum=7" jsonschema_description:"how many"`
}

type forecast struct {
	City         string    `json:"city"`
	Unit         string    `json:"unit"`
	Temperatures []float64 `json:"temperatures" jsonschema_description:"one for each day"`
}

type routedIn struct {
	Region string `json:"region" jsonschema:"x-mcp-header=Region" jsonschema_description:"which data centre answers"`
}

// addSchemas adds tools with structured content or special input schemas.
func addSchemas(s *server.Server) {
	server.AddTool(s, server.Tool{
		Name: "test_structured_content", Title: "Forecast", Description: "Gives structured content.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)},
	}, func(_ context.Context, _ *server.Request, in forecastIn) (forecast, error) {
		out := forecast{City: in.City, Unit: in.Unit}
		for day := range in.Days {
			out.Temperatures = append(out.Temperatures, 20.5+float64(day))
		}
		return out, nil
	})
	server.AddTool(s, server.Tool{
		Name: "test_header_parameter", Description: "Takes an argument that HTTP clients repeat in a header.",
	}, func(_ context.Context, _ *server.Request, in routedIn) (string, error) {
		return "Answered from " + in.Region, nil
	})
	server.AddRawTool(s, server.Tool{
		Name: "json_schema_2020_12_tool", Description: "Tool with JSON Schema 2020-12 features", InputSchema: json.RawMessage(contactSchema),
	}, func(_ context.Context, _ *server.Request, arguments json.RawMessage) (mcp.Result, error) {
		text := mcp.Text("JSON Schema 2020-12 tool called with: " + string(arguments))
		return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil
	})
}

// contactSchema has keywords that a Go type cannot describe. Clients get it unchanged.
const contactSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {
		"address": {
			"$anchor": "addressDef",
			"type": "object",
			"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
		}
	},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

const recordTemplate = "test://template/{id}/data"

type recordVars struct {
	ID string `json:"id"`
}

type record struct {
	ID           string `json:"id"`
	TemplateTest bool   `json:"templateTest"`
	Data         string `json:"data"`
}

// addResources adds resources of each kind.
func addResources(s *server.Server) {
	const text = "This is the content of the static text resource."
	server.AddResource(s, server.Resource{
		URI: "test://static-text", Name: "static-text", Title: "Static Text Resource",
		Description: "A static text resource for testing", MIMEType: "text/plain", Size: new(int64(len(text))),
		Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: new(0.5)},
	}, func(context.Context, *server.Request) (string, error) { return text, nil })
	server.AddResource(s, server.Resource{
		URI: "test://static-binary", Name: "static-binary", Title: "Static Binary Resource",
		Description: "A static binary resource (image) for testing", MIMEType: "image/png",
	}, func(context.Context, *server.Request) ([]byte, error) { return pixel, nil })
	server.AddTemplate(s, server.Template{
		URITemplate: recordTemplate, Name: "template", Title: "Resource Template",
		Description: "A resource template with parameter substitution", MIMEType: "application/json",
	}, func(_ context.Context, _ *server.Request, vars recordVars) (record, error) {
		return record{ID: vars.ID, TemplateTest: true, Data: "Data for ID: " + vars.ID}, nil
	})
	addWatched(s)
}

// addWatched adds a resource for subscriptions, and a tool that changes it.
func addWatched(s *server.Server) {
	const uri = "test://watched-resource"
	var revision atomic.Int64
	server.AddResource(s, server.Resource{
		URI: uri, Name: "watched-resource", Title: "Watched Resource",
		Description: "A resource that can be subscribed to", MIMEType: "text/plain",
	}, func(context.Context, *server.Request) (string, error) {
		return fmt.Sprintf("Watched resource content, revision %d", revision.Load()), nil
	})
	server.AddTool(s, server.Tool{Name: "test_trigger_resource_update", Description: "Changes the watched resource."},
		func(context.Context, *server.Request, struct{}) (int64, error) {
			revision := revision.Add(1)
			s.ResourceUpdated(uri)
			return revision, nil
		})
}

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

// addPrompts adds prompts with every kind of content, and one that asks a question.
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

// addCompletions adds completions of a prompt's arguments and a template's variable. The
// completion of the second argument depends on the first one.
func addCompletions(s *server.Server) {
	const prompt = "test_prompt_with_arguments"
	server.AddCompletion(s, server.Completion{Prompt: prompt, Argument: "arg1"},
		func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
			return withPrefix(typed, "paris", "park", "party"), nil
		})
	server.AddCompletion(s, server.Completion{Prompt: prompt, Argument: "arg2"},
		func(_ context.Context, _ *server.Request, typed string, others map[string]string) ([]string, error) {
			if others["arg1"] == "paris" {
				return withPrefix(typed, "louvre", "pantheon"), nil
			}
			return nil, nil
		})
	server.AddCompletion(s, server.Completion{Template: recordTemplate, Argument: "id"},
		func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
			ids := make([]string, 150)
			for i := range ids {
				ids[i] = strconv.Itoa(i + 1)
			}
			return withPrefix(typed, ids...), nil
		})
}

// withPrefix returns the values that begin with a prefix.
func withPrefix(typed string, values ...string) []string {
	var matching []string
	for _, value := range values {
		if strings.HasPrefix(value, typed) {
			matching = append(matching, value)
		}
	}
	return matching
}
