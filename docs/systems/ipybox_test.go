package systems_test

import (
	"context"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/bridge/toolserver"
)

// A tool server asks the approver that is connected.
//
//	async with ToolServer(approval_required=True) as server:
//	    async with ApprovalClient(callback=on_approval_request):
//	        ...
func Example_ipyboxToolServer() {
	approvals, err := channel.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	tools, err := toolserver.Start("localhost:0", &toolserver.Options{Launch: toolserver.LaunchAny, Approver: approvals})
	if err != nil {
		log.Fatal(err)
	}
	defer tools.Close()
	approver, err := channel.Dial(ctx, tools.URL()+"/approval", accept, &channel.ClientOptions{Token: approvals.Token()})
	if err != nil {
		log.Fatal(err)
	}
	defer approver.Close()
	run(tools, "read_file")
	// Output: read_file {}
}

// A runner calls the tools of a server that the tool server launches.
//
//	runner = ToolRunner(server_name="fetch", server_params={"command": "uvx", "args": ["mcp-server-fetch"]})
//	result = await runner.run("fetch", {"url": "https://example.com"})
func Example_ipyboxToolRunner() {
	runner, err := toolserver.NewRunner(plain.URL(), "fetch", &toolserver.RunnerOptions{
		Params: toolserver.ServerParams{Command: program, Args: []string{"fetch"}}, Token: plain.Authenticator().Token(),
	})
	if err != nil {
		log.Fatal(err)
	}
	result, err := runner.Run(ctx, "fetch", map[string]string{"url": "https://example.com"})
	fmt.Println(string(result), err)
	// Output: "fetch {\"url\":\"https://example.com\"}" <nil>
}

// An approver accepts each call.
//
//	async def on_approval_request(request: ApprovalRequest):
//	    print(f"Approval request: {request}")
//	    await request.accept()
//
//	async with ApprovalClient(callback=on_approval_request):
//	    ...
func Example_ipyboxApprovalClient() {
	onApprovalRequest := func(ctx context.Context, request *approval.Prompt) {
		fmt.Println("Approval request:", request)
		_ = request.Accept(ctx) // the error says that the call has ended
	}
	approver, err := channel.Dial(ctx, asking.URL()+"/approval", onApprovalRequest, &channel.ClientOptions{Token: approvals.Token()})
	if err != nil {
		log.Fatal(err)
	}
	defer approver.Close()
	run(asking, "read_file")
	// Output:
	// Approval request: launched:files.read_file()
	// read_file {}
}

// An approver rejects one tool.
//
//	if request.tool_name == "dangerous_tool":
//	    await request.reject()
//	else:
//	    await request.accept()
func Example_ipyboxApprovalRequest() {
	onApprovalRequest := func(ctx context.Context, request *approval.Prompt) {
		_ = request.Decide(ctx, approval.Answer{Approved: request.Target.Tool != "dangerous_tool"})
	}
	approver, err := channel.Dial(ctx, asking.URL()+"/approval", onApprovalRequest, &channel.ClientOptions{Token: approvals.Token()})
	if err != nil {
		log.Fatal(err)
	}
	defer approver.Close()
	run(asking, "read_file")
	run(asking, "dangerous_tool")
	// Output:
	// read_file {}
	// files.dangerous_tool: Approval request for files.dangerous_tool rejected
}
