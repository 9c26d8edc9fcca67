// The program lists what clients are told of its services.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func main() {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, nil)
	server.AddService(s, &shop{})
	server.AddService(s, door{})
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		must(err)
		fmt.Printf("tool %s: %s\n", tool.Name, tool.Description)
		fmt.Printf("  %s\n", tool.InputSchema)
	}
	for prompt, err := range session.Prompts(ctx, nil) {
		must(err)
		fmt.Printf("prompt %s: %s\n", prompt.Name, prompt.Description)
		for _, argument := range prompt.Arguments {
			fmt.Printf("  %s: %s\n", argument.Name, argument.Description)
		}
	}
	for resource, err := range session.Resources(ctx, nil) {
		must(err)
		fmt.Printf("resource %s: %s\n", resource.URI, resource.Description)
	}
	for template, err := range session.Templates(ctx, nil) {
		must(err)
		fmt.Printf("template %s: %s\n", template.URITemplate, template.Description)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
