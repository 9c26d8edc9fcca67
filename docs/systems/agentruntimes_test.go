package systems_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// Code in a sandbox calls the tools of stdio servers through the routes of the proxy.
//
//	@router.post("/{server_name}/tools/{tool_name}")
//	@router.get("/servers")
//	@router.get("/health")
func Example_agentRuntimesProxy() {
	servers, err := bridge.New(nil, bridge.Config{Alias: "github", Dialer: stdio.Command(program, []string{"github"}, nil)})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "agent-runtimes", Version: "1.0.0"}, nil)
	if err := s.Mount(servers, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	g := gateway.New(s, &gateway.Options{States: servers.States})
	routes := http.StripPrefix("/api/v1/mcp/proxy", g.Proxy())
	request(routes, g.Authenticator(), "POST", "/api/v1/mcp/proxy/github/tools/star_repo", `{"arguments":{"owner":"datalayer","repo":"ui"}}`)
	request(routes, g.Authenticator(), "GET", "/api/v1/mcp/proxy/servers", "")
	request(routes, g.Authenticator(), "GET", "/api/v1/mcp/proxy/health", "")
	// Output:
	// 200 {"success":true,"result":"star_repo {\"owner\":\"datalayer\",\"repo\":\"ui\"}","error":null,"is_error":false}
	// 200 {"servers":[{"id":"github","name":"github","is_config":true,"is_running":true,"tools":[{"name":"star_repo","description":""}]}],"total":1}
	// 200 {"status":"ok"}
}

// The caller of skills is set and read while the proxy serves.
//
//	set_skills_proxy_caller(caller)
//	get_skills_proxy_caller()
func Example_agentRuntimesSkills() {
	callers, err := gateway.NewPseudo(nil)
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "agent-runtimes", Version: "1.0.0"}, nil)
	if err := s.Mount(callers, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)
	g := gateway.New(s, nil)
	if err := callers.Set("skills", callSkill); err != nil {
		log.Fatal(err)
	}
	fmt.Println(callers.Get("skills") != nil)
	request(g.Proxy(), g.Authenticator(), "POST", "/skills/tools/load_skill", `{"arguments":{"name":"jokes"}}`)
	// Output:
	// true
	// 200 {"success":true,"result":"skills__load_skill {\"name\":\"jokes\"}","error":null,"is_error":false}
}
