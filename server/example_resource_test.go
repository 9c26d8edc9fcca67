package server_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// show reads a resource and prints its text.
func show(session *client.Session, uri string) {
	result, err := session.ReadResource(context.Background(), uri, nil)
	if err != nil {
		fmt.Println(uri, "not found:", mcp.IsResourceNotFound(err))
		return
	}
	for _, contents := range result.Contents {
		if text, ok := contents.(*mcp.TextResourceContents); ok {
			fmt.Println(text.URI, text.MIMEType, text.Text)
		}
	}
}

func ExampleAddResource() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddResource(s, server.Resource{URI: "bakery://opening", MIMEType: "text/plain"},
		func(ctx context.Context, r *server.Request) (string, error) { return "7 to 18", nil })
	server.AddResource(s, server.Resource{URI: "bakery://stock"}, // anything else is JSON
		func(ctx context.Context, r *server.Request) (map[string]int, error) {
			return map[string]int{"rye": 3}, nil
		})

	session := dial(s, nil)
	defer session.Close()
	show(session, "bakery://opening")
	show(session, "bakery://stock")
	show(session, "bakery://cellar")
	// Output:
	// bakery://opening text/plain 7 to 18
	// bakery://stock application/json {"rye":3}
	// bakery://cellar not found: true
}

// NewResource returns an entry for Replace. Subscribers are notified of an update.
func ExampleNewResource() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	stock := 3
	resource, err := server.NewResource(server.Resource{URI: "bakery://stock"},
		func(ctx context.Context, r *server.Request) (int, error) { return stock, nil })
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Replace(resource); err != nil {
		log.Fatal(err)
	}
	told := make(chan mcp.Change, 1)
	session := dial(s, &client.Options{OnChange: func(_ context.Context, change mcp.Change) { told <- change }})
	defer session.Close()
	_, err = session.Subscribe(context.Background(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"bakery://stock"}})
	if err != nil {
		log.Fatal(err)
	}
	stock = 2
	s.ResourceUpdated("bakery://stock")
	show(session, (<-told).URI)
	// Output:
	// bakery://stock application/json 2
}

// The fields of the struct are the variables of the template.
func ExampleAddTemplate() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTemplate(s, server.Template{URITemplate: "recipe://{bread}{?servings}", MIMEType: "text/plain"},
		func(ctx context.Context, r *server.Request, vars struct {
			Bread    string `json:"bread"`
			Servings int    `json:"servings,omitempty"`
		}) (string, error) {
			if vars.Bread != "rye" {
				return "", mcp.ResourceNotFound("recipe://" + vars.Bread)
			}
			return fmt.Sprintf("%d g of flour", 500*max(vars.Servings, 1)), nil
		})

	session := dial(s, nil)
	defer session.Close()
	show(session, "recipe://rye")
	show(session, "recipe://rye?servings=3")
	show(session, "recipe://cake")
	// Output:
	// recipe://rye text/plain 500 g of flour
	// recipe://rye?servings=3 text/plain 1500 g of flour
	// recipe://cake not found: true
}

// A struct that does not fit its template is rejected, and so is a template that cannot be
// matched in linear time.
func ExampleNewTemplate() {
	read := func(ctx context.Context, r *server.Request, vars struct {
		Bred string `json:"bred"`
	}) (string, error) {
		return "", nil
	}
	_, err := server.NewTemplate(server.Template{URITemplate: "recipe://{bread}"}, read)
	fmt.Println(err)
	// Output:
	// resource template "recipe://{bread}": variables: the template's "bread" has no field with that json name
}
