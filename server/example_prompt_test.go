package server_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type GreetArgs struct {
	Name     string `json:"name" jsonschema_description:"who comes in"`
	Language string `json:"language,omitempty"`
}

func greet(ctx context.Context, r *server.Request, args GreetArgs) (string, error) {
	if args.Language == "de" {
		return "Begrüße " + args.Name + ".", nil
	}
	return "Welcome " + args.Name + ".", nil
}

func ExampleAddPrompt() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddPrompt(s, server.Prompt{Name: "greet", Description: "Greet a customer."}, greet)

	session := dial(s, nil)
	defer session.Close()
	for prompt, err := range session.Prompts(context.Background(), nil) {
		if err != nil {
			log.Fatal(err)
		}
		for _, argument := range prompt.Arguments {
			fmt.Println(prompt.Name, argument.Name, argument.Required)
		}
	}
	result, err := session.GetPrompt(context.Background(), "greet", map[string]string{"name": "Ada"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, message := range result.Messages {
		fmt.Println(message.Role, message.Content.(*mcp.TextContent).Text)
	}
	// Output:
	// greet name true
	// greet language false
	// user Welcome Ada.
}

// NewPrompt and NewCompletion return entries for Replace.
func ExampleNewPrompt() {
	prompt, err := server.NewPrompt(server.Prompt{Name: "greet"}, greet)
	if err != nil {
		log.Fatal(err)
	}
	completion, err := server.NewCompletion(server.Completion{Prompt: "greet", Argument: "language"}, languages)
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	if err := s.Replace(prompt, completion); err != nil {
		log.Fatal(err)
	}
	session := dial(s, nil)
	defer session.Close()
	result, err := session.GetPrompt(context.Background(), "greet", map[string]string{"name": "Ada", "language": "de"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Messages[0].Content.(*mcp.TextContent).Text)
	// Output: Begrüße Ada.
}

func languages(ctx context.Context, r *server.Request, typed string, others map[string]string) ([]string, error) {
	known := []string{"de", "en", "es"}
	return slices.DeleteFunc(known, func(name string) bool { return !strings.HasPrefix(name, typed) }), nil
}

func ExampleAddCompletion() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddPrompt(s, server.Prompt{Name: "greet"}, greet)
	server.AddCompletion(s, server.Completion{Prompt: "greet", Argument: "language"}, languages)

	session := dial(s, nil)
	defer session.Close()
	found, err := session.CompletePrompt(context.Background(), "greet", "language", "e", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Values)
	// Output: [en es]
}

func ExampleNewCompletion() {
	_, err := server.NewCompletion(server.Completion{Prompt: "greet"}, languages)
	fmt.Println(err)
	// Output:
	// completion {Prompt:greet Template: Argument:}: one of Prompt and Template, and Argument, must be set
}
