package resources_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A Recipe is what the server of this page knows.
type Recipe struct {
	Name    string   `json:"name"`
	Minutes int      `json:"minutes"`
	Needs   []string `json:"needs"`
}

// book is the data of the server.
type book struct {
	mu      sync.Mutex
	recipes map[string]Recipe
	today   string
}

func newBook() *book {
	return &book{today: "soup", recipes: map[string]Recipe{
		"bread": {"bread", 180, []string{"flour", "salt"}},
		"soup":  {"soup", 40, []string{"leeks"}},
	}}
}

func (b *book) menu() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return "Today: " + b.today
}

func (b *book) recipe(name string) (Recipe, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.recipes[name]
	return r, ok
}

// names returns the names of the recipes that begin with a text, sorted.
func (b *book) names(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := slices.Sorted(maps.Keys(b.recipes))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

func (b *book) choose(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.today = name
}

// newServer returns the server of this page.
func newServer(b *book) *server.Server {
	s := server.New(mcp.Implementation{Name: "recipes", Version: "1.0.0"}, nil)
	server.AddResource(s, server.Resource{
		URI: "recipes://menu", Name: "menu", Title: "The menu of today",
		Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: new(0.8)},
	}, func(ctx context.Context, r *server.Request) (string, error) {
		return b.menu(), nil
	})

	type RecipeVars struct {
		Name string `json:"name"`
	}
	server.AddTemplate(s, server.Template{URITemplate: "recipes://recipe/{name}", Name: "recipe", MIMEType: "application/json"},
		func(ctx context.Context, r *server.Request, vars RecipeVars) (Recipe, error) {
			recipe, ok := b.recipe(vars.Name)
			if !ok {
				return Recipe{}, mcp.ResourceNotFound("recipes://recipe/" + vars.Name)
			}
			return recipe, nil
		})

	type ShoppingArgs struct {
		Recipe string `json:"recipe" jsonschema_description:"the name of a recipe"`
		Style  string `json:"style,omitempty" jsonschema:"enum=short,enum=polite,default=short" jsonschema_description:"how to write"`
	}
	server.AddPrompt(s, server.Prompt{Name: "shopping", Title: "Shopping list", Description: "Write a shopping list for a recipe."},
		func(ctx context.Context, r *server.Request, args ShoppingArgs) ([]mcp.PromptMessage, error) {
			recipe, ok := b.recipe(args.Recipe)
			if !ok {
				return nil, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "there is no recipe " + args.Recipe}
			}
			return []mcp.PromptMessage{
				{Role: mcp.RoleUser, Content: mcp.Text("Write a " + args.Style + " shopping list for this recipe.")},
				{Role: mcp.RoleUser, Content: mcp.Embed(&mcp.TextResourceContents{
					URI: "recipes://recipe/" + recipe.Name, MIMEType: "text/plain", Text: strings.Join(recipe.Needs, ", "),
				})},
			}, nil
		})

	names := func(ctx context.Context, r *server.Request, typed string, others map[string]string) ([]string, error) {
		return b.names(typed), nil
	}
	server.AddCompletion(s, server.Completion{Prompt: "shopping", Argument: "recipe"}, names)
	server.AddCompletion(s, server.Completion{Template: "recipes://recipe/{name}", Argument: "name"}, names)

	type ChooseIn struct {
		Name string `json:"name" jsonschema_description:"the name of a recipe"`
	}
	server.AddTool(s, server.Tool{
		Name: "choose", Title: "Choose the menu", Description: "Set the recipe of today.",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: new(false), IdempotentHint: new(true), OpenWorldHint: new(false)},
	}, func(ctx context.Context, r *server.Request, in ChooseIn) ([]mcp.Content, error) {
		recipe, ok := b.recipe(in.Name)
		if !ok {
			return nil, fmt.Errorf("there is no recipe %q: choose one of %s", in.Name, strings.Join(b.names(""), ", "))
		}
		b.choose(recipe.Name)
		s.ResourceUpdated("recipes://menu")
		return []mcp.Content{
			mcp.Text("Today there is " + recipe.Name + "."),
			&mcp.ResourceLink{URI: "recipes://recipe/" + recipe.Name, Name: recipe.Name, MIMEType: "application/json"},
			&mcp.TextContent{Text: "Tell the cook.", Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleAssistant}}},
		}, nil
	})
	return s
}

// connected returns a client of a server in memory.
func connected(s *server.Server, opts *client.Options) *client.Session {
	session, err := client.Connect(context.Background(), transport.Pipe(s), opts)
	if err != nil {
		log.Fatal(err)
	}
	return session
}

func Example_resources() {
	ctx := context.Background()
	session := connected(newServer(newBook()), nil)
	defer session.Close()
	for _, uri := range []string{"recipes://menu", "recipes://recipe/bread", "recipes://recipe/cake", "recipes://other"} {
		result, err := session.ReadResource(ctx, uri, nil)
		if err != nil {
			fmt.Println(uri, "not found:", mcp.IsResourceNotFound(err))
			continue
		}
		contents := result.Contents[0].(*mcp.TextResourceContents)
		fmt.Println(contents.URI, contents.MIMEType, contents.Text)
	}
	// Output:
	// recipes://menu text/plain Today: soup
	// recipes://recipe/bread application/json {"name":"bread","minutes":180,"needs":["flour","salt"]}
	// recipes://recipe/cake not found: true
	// recipes://other not found: true
}

func Example_changes() {
	ctx := context.Background()
	changed := make(chan string, 1)
	session := connected(newServer(newBook()), &client.Options{
		OnChange: func(_ context.Context, change mcp.Change) { changed <- change.URI },
	})
	defer session.Close()
	subscription, err := session.Subscribe(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{"recipes://menu"}})
	if err != nil {
		log.Fatal(err)
	}
	defer subscription.Close()
	result, err := session.CallTool(ctx, "choose", map[string]string{"name": "bread"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	fmt.Println(result.Content[1].(*mcp.ResourceLink).URI)
	fmt.Println("changed:", <-changed)
	// Output:
	// Today there is bread.
	// recipes://recipe/bread
	// changed: recipes://menu
}

func Example_prompts() {
	ctx := context.Background()
	session := connected(newServer(newBook()), nil)
	defer session.Close()
	prompt, err := session.GetPrompt(ctx, "shopping", map[string]string{"recipe": "soup"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, message := range prompt.Messages {
		switch content := message.Content.(type) {
		case *mcp.TextContent:
			fmt.Println(message.Role, "says:", content.Text)
		case *mcp.EmbeddedResource:
			fmt.Println(message.Role, "shows:", content.Resource.(*mcp.TextResourceContents).Text)
		}
	}
	for _, arguments := range []map[string]string{{}, {"recipe": "cake"}, {"recipe": "soup", "style": "long"}} {
		_, err := session.GetPrompt(ctx, "shopping", arguments, nil)
		fmt.Println(err)
	}
	// Output:
	// user says: Write a short shopping list for this recipe.
	// user shows: leeks
	// jsonrpc: -32602 "arguments: missing \"recipe\" (accepted: recipe, style)"
	// jsonrpc: -32602 "there is no recipe cake"
	// jsonrpc: -32602 "arguments: \"style\": expected one of short, polite, got \"long\""
}

func Example_completions() {
	ctx := context.Background()
	session := connected(newServer(newBook()), nil)
	defer session.Close()
	for _, complete := range []func() (*mcp.CompletionValues, error){
		func() (*mcp.CompletionValues, error) {
			return session.CompletePrompt(ctx, "shopping", "recipe", "b", nil, nil)
		},
		func() (*mcp.CompletionValues, error) {
			return session.CompletePrompt(ctx, "shopping", "style", "", nil, nil)
		},
		func() (*mcp.CompletionValues, error) {
			return session.CompleteTemplate(ctx, "recipes://recipe/{name}", "name", "", nil, nil)
		},
	} {
		values, err := complete()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(values.Values)
	}
	// Output:
	// [bread]
	// [short polite]
	// [bread soup]
}

func Example_argumentsAtRunTime() {
	ctx := context.Background()
	s := server.New(mcp.Implementation{Name: "letters", Version: "1.0.0"}, nil)
	texts := map[string]string{"thanks": "Thank {name} for {gift}."} // from a file
	for name, text := range texts {
		server.AddPrompt(s, server.Prompt{Name: name, Arguments: []mcp.PromptArgument{{Name: "name", Required: true}, {Name: "gift", Required: true}}},
			func(ctx context.Context, r *server.Request, args map[string]string) (string, error) {
				return strings.NewReplacer("{name}", args["name"], "{gift}", args["gift"]).Replace(text), nil
			})
	}
	session := connected(s, nil)
	defer session.Close()
	prompt, err := session.GetPrompt(ctx, "thanks", map[string]string{"name": "Ada", "gift": "the book"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(prompt.Messages[0].Content.(*mcp.TextContent).Text)
	// Output: Thank Ada for the book.
}
