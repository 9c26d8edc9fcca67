package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// answer is the person behind the client.
func answer(_ context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	content := `{"sure":true}`
	if strings.HasPrefix(question.Message, "How many") {
		content = `{"loaves":4}`
	}
	fmt.Printf("asked       %s  answered %s\n", question.Message, content)
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(content)}, nil
}

func add(ctx context.Context, session *client.Session) error {
	sum, err := client.CallAs[int](ctx, session, "add", addIn{A: 2, B: 3})
	if err != nil {
		return err
	}
	fmt.Printf("add(2, 3)   %d\n", sum)
	return nil
}

func order(ctx context.Context, session *client.Session) error {
	receipt, err := client.CallAs[string](ctx, session, "order", orderIn{Bread: "brioche"})
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
	breads, err := session.CompleteTemplate(ctx, "recipe://{bread}", "bread", "b", nil)
	if err != nil {
		return err
	}
	fmt.Printf("completion  b… → %s\n", strings.Join(breads.Values, ", "))
	read, err := session.Read(ctx, "recipe://"+breads.Values[0], nil)
	if err != nil {
		return err
	}
	contents := read.Contents[0].(*mcp.TextResourceContents)
	fmt.Printf("resource    %s: %s\n", contents.URI, contents.Text)
	return nil
}

func greet(ctx context.Context, session *client.Session) error {
	prompt, err := session.Prompt(ctx, "greet", map[string]string{"name": "Ada"}, nil)
	if err != nil {
		return err
	}
	fmt.Printf("prompt      %s\n", prompt.Messages[0].Content.(*mcp.TextContent).Text)
	return nil
}

// watch subscribes to the list of tools and sees it change.
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
	special, err := client.CallAs[string](ctx, session, "special", nil)
	if err != nil {
		return err
	}
	fmt.Printf("special     %s\n\n", special)
	return nil
}
