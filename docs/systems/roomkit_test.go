package systems_test

import (
	"encoding/json"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/bridge/llm"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A policy with a role.
//
//	policy = ToolPolicy(allow=["mcp_*", "search_*"], deny=["*_admin"], role_overrides={"observer": RoleOverride(allow=["search_*"])})
//	policy.resolve("observer").is_allowed("mcp_write")
//	filter(policy.resolve("observer").as_filter(), names)
func Example_roomkitPolicy() {
	rules, err := policy.Compile(&policy.Policy{
		Allow: []string{"mcp_*", "search_*"}, Deny: []string{"*_admin"},
		Roles: map[string]policy.RoleOverride{"observer": {Allow: []string{"search_*"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	member, observer := rules.Resolve("member"), rules.Resolve("observer")
	fmt.Println(member.Allows("mcp_write"), observer.Allows("mcp_write"), observer.Allows("search_web"), observer.Allows("search_admin"))
	// Output: true false true false
}

// The tools of a server at a URL, with a filter and a header, and the handler that calls them.
//
//	async with MCPToolProvider.from_url(url, tool_filter=f, headers={"Authorization": "Bearer key"}) as mcp:
//	    tools = mcp.get_tools()
//	    handler = mcp.as_tool_handler()
func Example_roomkitProvider() {
	header := httptransport.StaticHeader(map[string]string{"Authorization": "Bearer key"})
	session, err := client.Connect(ctx, streamable.Dial(site+"/members/mcp", &streamable.DialOptions{Header: header}), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	provider := llm.NewProvider(llm.SessionTools(session), &llm.ProviderOptions{Select: func(name string) bool { return name == "search" }})
	tools, err := provider.Tools(ctx)
	if err != nil {
		log.Fatal(err)
	}
	handler := llm.NewHandler(provider)
	result, err := handler(ctx, "search", json.RawMessage(`{"query":"coffee"}`))
	fmt.Println(len(tools), tools[0].Name, result, err)
	// Output: 1 search search {"query":"coffee"} <nil>
}

// The first handler that has a tool calls it. Handlers of a program that answer as those of RoomKit do are among them.
//
//	handler = compose_tool_handlers(local, mcp.as_tool_handler())
func Example_roomkitCompose() {
	session, err := client.Connect(ctx, streamable.Dial(site+"/mcp", nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	handler := llm.UnknownAsText(llm.FirstMatch(llm.UnknownFromText(localTools), llm.NewHandler(llm.SessionTools(session))))
	for _, name := range []string{"now", "search", "nothing"} {
		fmt.Println(handler(ctx, name, nil))
	}
	// Output:
	// noon <nil>
	// search {} <nil>
	// {"error":"Unknown tool: nothing"} <nil>
}
