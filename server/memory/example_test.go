package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func ExampleNew() {
	ctx := context.Background()
	s := memory.New(memory.InMemory(nil), nil)
	session, err := client.Connect(ctx, transport.Pipe(s), nil) // or: stdio.Serve(ctx, s, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()

	for _, call := range []struct{ tool, arguments string }{
		{"save_user_fact", `{"user_id":"ann","key":"city","value":"Oslo"}`},
		{"get_user_facts", `{"user_id":"ann"}`},
		{"save_conversation", `{"conversation_id":"c1","snapshot":"{\"messages\":[\"hello\"]}"}`},
	} {
		result, err := session.CallTool(ctx, call.tool, json.RawMessage(call.arguments), nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	conversation, err := session.ReadResource(ctx, "memory://conversations/c1", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(conversation.Contents[0].(*mcp.TextResourceContents).Text)
	// Output:
	// {"saved":true,"user_id":"ann","key":"city"}
	// [{"key":"city","value":"Oslo"}]
	// {"saved":true,"conversation_id":"c1"}
	// {"messages":["hello"]}
}

func ExampleInMemory() {
	ctx := context.Background()
	store := memory.InMemory(&memory.Limits{Facts: 1})
	ann := memory.Collection{Kind: memory.Facts, User: "ann"}
	fmt.Println(store.Save(ctx, ann, memory.Record{Key: "city", Value: "Oslo"}))
	fmt.Println(store.Save(ctx, ann, memory.Record{Key: "tea", Value: "green"}))
	fmt.Println(store.Load(ctx, ann, "city"))
	fmt.Println(store.Load(ctx, ann, "tea"))
	// Output:
	// <nil>
	// the memory is full: it holds at most 1 facts about one user; delete some first
	// Oslo <nil>
	//  memory: not found
}

// Middleware sets the principal of a request; each principal has a separate memory.
func Example_principals() {
	users := map[string]string{"Bearer a1": "ann", "Bearer b2": "bob"} // or ask your identity provider
	endpoint := streamable.Handler(memory.New(memory.InMemory(nil), nil), nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, known := users[r.Header.Get("Authorization")]
		if !known {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		endpoint.ServeHTTP(w, r.WithContext(transport.WithPrincipal(r.Context(), user)))
	}))
	defer web.Close()
	defer endpoint.Close()

	ctx := context.Background()
	for _, token := range []string{"a1", "b2", "a1"} {
		session, err := client.Connect(ctx, streamable.Dial(web.URL, &streamable.DialOptions{
			Header: httptransport.StaticHeader(map[string]string{"Authorization": "Bearer " + token}),
		}), nil)
		if err != nil {
			log.Fatal(err)
		}
		before, err := client.CallAs[[]memory.Record](ctx, session, "get_user_facts", map[string]string{"user_id": "me"}, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(token, "finds", before)
		if _, err := session.CallTool(ctx, "save_user_fact", json.RawMessage(`{"user_id":"me","key":"token","value":"`+token+`"}`), nil); err != nil {
			log.Fatal(err)
		}
		session.Close()
	}
	// Output:
	// a1 finds []
	// b2 finds []
	// a1 finds [{token a1}]
}
