package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type deleteIn struct {
	Path string `json:"path"`
}

// exampleServer returns a server with one tool and a guard.
func exampleServer(guard mcp.Guard) *server.Server {
	s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{
		Logger: slog.New(slog.DiscardHandler),
		Guards: []mcp.Guard{guard},
	})
	server.AddTool(s, server.Tool{Name: "delete"}, func(_ context.Context, _ *server.Request, in deleteIn) (string, error) {
		return "deleted " + in.Path, nil
	})
	return s
}

// exampleCall calls the tool and prints the result.
func exampleCall(s *server.Server, path string, opts *client.Options) {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	text, err := client.CallAs[string](ctx, session, "delete", deleteIn{path}, nil)
	fmt.Println(text, err)
}

// A person decides about calls for which the policy says ask.
func ExampleGuard() {
	rules, err := policy.Parse([]byte(`{"rules": [
		{"effect": "ask", "names": ["delete"], "unless": [{"arguments": [{"path": "/path", "prefix": ["/tmp/"]}]}]},
		{"effect": "allow"}
	]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		fmt.Println(err)
		return
	}
	person := approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
		fmt.Println("asked:", r)
		return approval.Answer{Reason: "keep that", By: "anna"}, nil
	})
	s := exampleServer(approval.Guard(compiled, person, &approval.Options{Logger: slog.New(slog.DiscardHandler)}))
	defer s.Shutdown(context.Background())
	for _, path := range []string{"/tmp/a", "/etc/passwd"} {
		session, err := client.Connect(context.Background(), transport.Pipe(s), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		result, err := session.CallTool(context.Background(), "delete", json.RawMessage(`{"path":"`+path+`"}`), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.IsError, result.Text())
		session.Close()
	}
	// Output:
	// false deleted /tmp/a
	// asked: delete(path='/etc/passwd')
	// true Approval request for delete rejected: keep that
	// The tool was not called. Do not repeat the call unless the user asks for it.
}

// The user of the client is asked, whatever protocol version the client speaks.
func ExampleElicitation() {
	s := exampleServer(approval.Guard(approvaltests.Asking(), approval.Elicitation(), &approval.Options{Logger: slog.New(slog.DiscardHandler)}))
	defer s.Shutdown(context.Background())
	session, err := client.Connect(context.Background(), transport.Pipe(s), &client.Options{
		Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			fmt.Println(p.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"decision":"approve"}`)}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	fmt.Println(client.CallAs[string](context.Background(), session, "delete", json.RawMessage(`{"path":"/etc/passwd"}`), nil))
	// Output:
	// Allow this call of delete?
	// Effect: may delete or overwrite data
	// {"path":"/etc/passwd"}
	// deleted /etc/passwd <nil>
}

// exampleRequest returns a request as a guard makes it.
func exampleRequest() *approval.Request {
	return &approval.Request{
		ID:        "1",
		Target:    approval.Target{Server: "files", Tool: "delete"},
		Arguments: json.RawMessage(`{"path":"/etc/passwd"}`),
		Deadline:  time.Date(2026, 7, 28, 12, 5, 0, 0, time.UTC),
	}
}

// The function returns, and the answer is given later.
func ExampleCallback() {
	inbox := make(chan *approval.Prompt, 1)
	approver := approval.Callback(func(_ context.Context, p *approval.Prompt) { inbox <- p })
	decided := make(chan struct{})
	go func() {
		defer close(decided)
		p := <-inbox
		fmt.Println("decided:", p.Accept(context.Background()))
		fmt.Println("decided again:", p.Reject(context.Background(), ""))
	}()
	a, err := approver.Approve(context.Background(), exampleRequest())
	<-decided
	fmt.Println(a.Approved, err)
	// Output:
	// decided: <nil>
	// decided again: approval: the prompt has been answered
	// true <nil>
}

// An approver of one's own passes prompts to people, and counts the first answer only.
func ExampleNewPrompt() {
	p := approval.NewPrompt(exampleRequest(), func(_ context.Context, a approval.Answer) error {
		fmt.Println("sent:", a.Approved, a.Reason)
		return nil
	})
	fmt.Println(p)
	fmt.Println(p.Reject(context.Background(), "keep that"))
	fmt.Println(p.Accept(context.Background()))
	// Output:
	// files.delete(path='/etc/passwd')
	// sent: false keep that
	// <nil>
	// approval: the prompt has been answered
}

// Two of three must agree.
func ExampleQuorum() {
	says := func(by string, approved bool) approval.Approver {
		return approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			return approval.Answer{Approved: approved, By: by}, nil
		})
	}
	away := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		return approval.Answer{}, approval.Lost
	})
	a, err := approval.Quorum(2, says("anna", true), away, says("anna", true)).Approve(context.Background(), exampleRequest())
	fmt.Println(a.Approved, a.By, err)
	_, err = approval.Quorum(3, says("anna", true), away, says("anna", true)).Approve(context.Background(), exampleRequest())
	fmt.Println(err)
	// Output:
	// true anna, anna <nil>
	// the approver disconnected
}

// Only the code approves.
func ExampleTerminal() {
	typed, keyboard := io.Pipe()
	defer keyboard.Close()
	var screen strings.Builder
	terminal := approval.Terminal(typed, io.MultiWriter(&screen, writerFunc(func(text string) {
		if strings.HasSuffix(text, "refuse: ") {
			go io.WriteString(keyboard, "yes\n")
		}
	})))
	a, err := terminal.Approve(context.Background(), exampleRequest())
	fmt.Println(screen.String())
	fmt.Println(a.Approved, a.Reason, err)
	// Output:
	// Approval needed
	//   server    files
	//   tool      delete
	//   effect    may delete or overwrite data
	//   arguments 1 of 1 lines, 22 bytes
	//   | {"path":"/etc/passwd"}
	//   server    files
	//   tool      delete
	//   until     2026-07-28T12:05:00.000Z
	// Type 37ba to approve, anything else to refuse: Refused.
	//
	// false yes <nil>
}

type writerFunc func(text string)

func (f writerFunc) Write(p []byte) (int, error) {
	f(string(p))
	return len(p), nil
}

// The journal has an approval on disk before the call runs, and can be verified.
func ExampleOpenJournal() {
	folder, err := os.MkdirTemp("", "approvals")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "approvals.jsonl")
	logger := slog.New(slog.DiscardHandler)
	journal, err := approval.OpenJournal(path, logger)
	if err != nil {
		fmt.Println(err)
		return
	}
	yes := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		return approval.Answer{Approved: true, By: "anna"}, nil
	})
	s := exampleServer(approval.Guard(approvaltests.Asking(), yes, &approval.Options{Journal: journal, Logger: logger}))
	defer s.Shutdown(context.Background())
	exampleCall(s, "/tmp/a", nil)
	fmt.Println(journal.Close())
	summary, err := approval.Verify(path)
	fmt.Println(summary.Entries, summary.Torn, summary.Open, err)
	if err := os.Truncate(path, 10); err != nil {
		fmt.Println(err)
	}
	summary, err = approval.Verify(path)
	fmt.Println(summary.Entries, summary.Torn, err)
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		fmt.Println(err)
	}
	_, err = approval.OpenJournal(path, logger)
	fmt.Println(errors.Is(err, approval.ErrBroken))
	// Output:
	// deleted /tmp/a <nil>
	// <nil>
	// 4 0 [] <nil>
	// 0 10 <nil>
	// true
}
