// Quickstart runs an MCP server and a client in one process and prints what they
// do, once in each era of the protocol:
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		if err := visit(ctx, era); err != nil {
			log.Fatal(err)
		}
	}
}

// visit connects to a new server and uses each of its features.
func visit(ctx context.Context, era client.Era) error {
	changed := make(chan mcp.Change, 8)
	bakery := newBakery()
	session, err := client.Connect(ctx, transport.Pipe(bakery), &client.Options{
		Info:     mcp.Implementation{Name: "quickstart", Version: "1.0.0"},
		Era:      era,
		Elicit:   answer,
		OnChange: func(_ context.Context, change mcp.Change) { changed <- change },
	})
	if err != nil {
		return err
	}
	defer session.Close()
	fmt.Printf("── connected to %s, speaking %s ──\n", session.Server().Name, session.Version())

	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		fmt.Printf("tool        %s: %s\n", tool.Name, tool.Description)
	}
	for _, step := range []func(context.Context, *client.Session) error{add, order, bake, recipe, greet} {
		if err := step(ctx, session); err != nil {
			return err
		}
	}
	return watch(ctx, session, bakery, changed)
}

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
	Bread string `json:"bread" jsonschema_description:"name of the bread"`
}

type quantity struct {
	Loaves int `json:"loaves" jsonschema:"minimum=1,maximum=12" jsonschema_description:"number of loaves"`
}

type confirmation struct {
	Sure bool `json:"sure" jsonschema_description:"confirms the order"`
}

type recipeVars struct {
	Bread string `json:"bread"`
}

type greetArgs struct {
	Name string `json:"name" jsonschema_description:"name of the customer"`
}

// newBakery returns the server. Every tool, resource and prompt is a Go function.
func newBakery() *server.Server {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{
		Instructions: "Ask for a recipe before you order.",
	})

	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."},
		func(_ context.Context, _ *server.Request, in addIn) (int, error) {
			return in.A + in.B, nil
		})

	// A tool that asks the user twice. Elicit returns an error until the answer has
	// arrived. The function returns that error, and runs again with the answer.
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

	server.AddTool(s, server.Tool{Name: "bake", Description: "Bake bread and report progress."},
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

// addSpecial adds a tool while clients are connected. The server notifies them.
func addSpecial(s *server.Server) error {
	special, err := server.NewTool(server.Tool{Name: "special", Description: "Today's special."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "pretzels", nil })
	if err != nil {
		return err
	}
	return s.Replace(special)
}

// answer answers the questions of the server in place of a user.
func answer(_ context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	content := `{"sure":true}`
	if strings.HasPrefix(question.Message, "How many") {
		content = `{"loaves":4}`
	}
	fmt.Printf("asked       %s  answered %s\n", question.Message, content)
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(content)}, nil
}

func add(ctx context.Context, session *client.Session) error {
	sum, err := client.CallAs[int](ctx, session, "add", addIn{A: 2, B: 3}, nil)
	if err != nil {
		return err
	}
	fmt.Printf("add(2, 3)   %d\n", sum)
	return nil
}

func order(ctx context.Context, session *client.Session) error {
	receipt, err := client.CallAs[string](ctx, session, "order", orderIn{Bread: "brioche"}, nil)
	if err != nil {
		return err
	}
	fmt.Printf("order       %s\n", receipt)
	return nil
}

func bake(ctx context.Context, session *client.Session) error {
	result, err := session.CallTool(ctx, "bake", nil, &client.CallOptions{
		Progress: func(p *mcp.ProgressParams) {
			fmt.Printf("progress    %v of %v: %s\n", p.Progress, *p.Total, p.Message)
		},
	})
	if err != nil {
		return err
	}
	fmt.Printf("bake        %s\n", result.Content[0].(*mcp.TextContent).Text)
	return nil
}

func recipe(ctx context.Context, session *client.Session) error {
	breads, err := session.CompleteTemplate(ctx, "recipe://{bread}", "bread", "b", nil, nil)
	if err != nil {
		return err
	}
	fmt.Printf("completion  b… → %s\n", strings.Join(breads.Values, ", "))
	read, err := session.ReadResource(ctx, "recipe://"+breads.Values[0], nil)
	if err != nil {
		return err
	}
	contents := read.Contents[0].(*mcp.TextResourceContents)
	fmt.Printf("resource    %s: %s\n", contents.URI, contents.Text)
	return nil
}

func greet(ctx context.Context, session *client.Session) error {
	prompt, err := session.GetPrompt(ctx, "greet", map[string]string{"name": "Ada"}, nil)
	if err != nil {
		return err
	}
	fmt.Printf("prompt      %s\n", prompt.Messages[0].Content.(*mcp.TextContent).Text)
	return nil
}

// watch subscribes to the list of tools and waits until it changes.
func watch(ctx context.Context, session *client.Session, bakery *server.Server, changed <-chan mcp.Change) error {
	subscription, err := session.Subscribe(ctx, mcp.SubscriptionFilter{ToolsListChanged: true})
	if err != nil {
		return err
	}
	defer subscription.Close()
	if err := addSpecial(bakery); err != nil {
		return err
	}
	select {
	case change := <-changed:
		fmt.Printf("changed     the list of tools: %v\n", change.Kind == mcp.KindTool)
	case <-ctx.Done():
		return ctx.Err()
	}
	special, err := client.CallAs[string](ctx, session, "special", nil, nil)
	if err != nil {
		return err
	}
	fmt.Printf("special     %s\n\n", special)
	return nil
}
