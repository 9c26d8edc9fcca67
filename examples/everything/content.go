package main

import (
	"context"
	_ "embed" // for the picture and the sound

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// What tools show and play: one red pixel, one silent sample.
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

// A failure is an error for people: a sentence.
type failure string

func (f failure) Error() string { return string(f) }
