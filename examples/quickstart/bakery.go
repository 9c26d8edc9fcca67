package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// recipes are what the bakery knows.
var recipes = map[string]string{
	"baguette": "flour, water, salt, yeast, patience",
	"brioche":  "flour, eggs, butter, sugar, yeast",
	"pretzel":  "flour, water, malt, lye",
}

func breads(typed string) []string {
	var names []string
	for name := range recipes {
		if strings.HasPrefix(name, typed) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

type addIn struct {
	A int `json:"a" jsonschema_description:"first summand"`
	B int `json:"b" jsonschema_description:"second summand"`
}

type orderIn struct {
	Bread string `json:"bread" jsonschema_description:"what to order"`
}

type quantity struct {
	Loaves int `json:"loaves" jsonschema:"minimum=1,maximum=12" jsonschema_description:"how many"`
}

type confirmation struct {
	Sure bool `json:"sure" jsonschema_description:"really order them"`
}

type recipeVars struct {
	Bread string `json:"bread"`
}

type greetArgs struct {
	Name string `json:"name" jsonschema_description:"who comes in"`
}

// newBakery is the server: everything it offers is a Go function.
func newBakery() *server.Server {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{
		Instructions: "Ask for a recipe before you order.",
	})

	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."},
		func(_ context.Context, _ *server.Request, in addIn) (int, error) {
			return in.A + in.B, nil
		})

	// A tool that asks the person twice. It reads as if the answers were there;
	// until they are, it returns the error it was given and is run again.
	server.AddTool(s, server.Tool{Name: "order", Description: "Order bread."},
		func(_ context.Context, r *server.Request, in orderIn) (string, error) {
			want, err := server.Elicit[quantity](r, "quantity", "How many loaves of "+in.Bread+"?")
			if err != nil {
				return "", err
			}
			answer, err := server.Elicit[confirmation](r, "sure", fmt.Sprintf("Order %d × %s?", want.Loaves, in.Bread))
			if err != nil {
				return "", err
			}
			if !answer.Sure {
				return "nothing ordered", nil
			}
			return fmt.Sprintf("ordered %d × %s", want.Loaves, in.Bread), nil
		})

	server.AddTool(s, server.Tool{Name: "bake", Description: "Bake, and say how it gets on."},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			for i, stage := range []string{"kneaded", "risen", "baked"} {
				if err := r.Progress(ctx, float64(i+1), 3, stage); err != nil {
					return "", err
				}
			}
			return "fresh bread", nil
		})

	server.AddTemplate(s, server.Template{URITemplate: "recipe://{bread}", Name: "recipe", MIMEType: "text/plain"},
		func(_ context.Context, r *server.Request, vars recipeVars) (string, error) {
			text, ok := recipes[vars.Bread]
			if !ok {
				return "", mcp.ResourceNotFound("recipe://" + vars.Bread)
			}
			return text, nil
		})
	server.AddCompletion(s, server.Completion{Template: "recipe://{bread}", Argument: "bread"},
		func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
			return breads(typed), nil
		})

	server.AddPrompt(s, server.Prompt{Name: "greet", Description: "Greet a customer."},
		func(_ context.Context, _ *server.Request, args greetArgs) (string, error) {
			return "Welcome " + args.Name + " to our bakery, in one warm sentence.", nil
		})
	return s
}

// addSpecial adds a tool while clients are connected: they are told.
func addSpecial(s *server.Server) error {
	special, err := server.NewTool(server.Tool{Name: "special", Description: "Today's special."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "pretzels", nil })
	if err != nil {
		return err
	}
	return s.Replace(special)
}
