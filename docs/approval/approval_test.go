package approval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type PathIn struct {
	Path string `json:"path"`
}

const rules = `{
	"rules": [
		{"effect": "allow", "annotations": {"readOnlyHint": true}},
		{"effect": "ask", "names": ["delete"]},
		{"effect": "deny", "names": ["delete"], "arguments": [{"path": "/path", "prefix": ["/etc/"]}]}
	]
}`

// newServer returns a server whose calls an approver decides about.
func newServer(approver approval.Approver, journal approval.Journal) (*server.Server, error) {
	parsed, err := policy.Parse([]byte(rules))
	if err != nil {
		return nil, err
	}
	compiled, err := policy.Compile(parsed)
	if err != nil {
		return nil, err
	}
	guard := approval.Guard(compiled, approver, &approval.Options{Journal: journal, Logger: slog.New(slog.DiscardHandler)})
	s := server.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, &server.Options{
		Guards: []mcp.Guard{guard},
		Logger: slog.New(slog.DiscardHandler),
	})
	server.AddTool(s, server.Tool{Name: "read", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)}},
		func(ctx context.Context, r *server.Request, in PathIn) (string, error) {
			return "content of " + in.Path, nil
		})
	server.AddTool(s, server.Tool{Name: "delete"},
		func(ctx context.Context, r *server.Request, in PathIn) (string, error) {
			return "deleted " + in.Path, nil
		})
	return s, nil
}

// call calls a tool and prints the result.
func call(s *server.Server, tool, path string, opts *client.Options) {
	session, err := client.Connect(context.Background(), transport.Pipe(s), opts)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	fmt.Println(client.CallAs[string](context.Background(), session, tool, PathIn{Path: path}, nil))
}

func Example_approver() {
	approver := approval.ApproverFunc(func(ctx context.Context, request *approval.Request) (approval.Answer, error) {
		fmt.Println("asked:", request)
		return approval.Answer{Approved: true, By: "ada"}, nil
	})
	s, err := newServer(approver, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	call(s, "read", "/tmp/a", nil)
	call(s, "delete", "/tmp/a", nil)
	call(s, "delete", "/etc/passwd", nil)
	// Output:
	// content of /tmp/a <nil>
	// asked: delete(path='/tmp/a')
	// deleted /tmp/a <nil>
	//  tool "delete": The policy does not allow the tool "delete"
	// The tool was not called. Do not repeat the call: it would be refused again.
}

func Example_elicitation() {
	s, err := newServer(approval.Elicitation(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	call(s, "delete", "/tmp/a", &client.Options{
		Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			fmt.Println(p.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"decision":"approve"}`)}, nil
		},
	})
	// Output:
	// Allow this call of delete?
	// Effect: may delete or overwrite data
	// {"path":"/tmp/a"}
	// deleted /tmp/a <nil>
}

func Example_journal() {
	folder, err := os.MkdirTemp("", "journal")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "approvals.jsonl")
	journal, err := approval.OpenJournal(path, nil)
	if err != nil {
		log.Fatal(err)
	}
	s, err := newServer(approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		return approval.Answer{Approved: true, By: "ada"}, nil
	}), journal)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	call(s, "delete", "/tmp/a", nil)
	if err := journal.Close(); err != nil {
		log.Fatal(err)
	}
	summary, err := approval.Verify(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(summary.Entries, "entries,", len(summary.Open), "without an outcome")
	// Output:
	// deleted /tmp/a <nil>
	// 4 entries, 0 without an outcome
}

// newReplica returns a guard of one replica, and the channel of its page.
func newReplica(compiled *policy.Compiled, shared store.Store, token, host string) (mcp.Guard, *channel.Channel, error) {
	ch, err := channel.New(&channel.Options{Store: shared, Token: token, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return mcp.Guard{}, nil, err
	}
	guard := approval.Guard(compiled, ch, &approval.Options{Store: shared, Replica: host, Logger: slog.New(slog.DiscardHandler)})
	return guard, ch, nil
}

// A call at one replica is approved by a person who is connected to another.
func Example_replicas() {
	shared, err := store.NewMemory(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer shared.Close()
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask}}})
	if err != nil {
		log.Fatal(err)
	}
	const token = "a-token-of-all-replicas"
	guard, asking, err := newReplica(compiled, shared, token, "host-1")
	if err != nil {
		log.Fatal(err)
	}
	defer asking.Close()
	_, deciding, err := newReplica(compiled, shared, token, "host-2")
	if err != nil {
		log.Fatal(err)
	}
	defer deciding.Close()
	page := httptest.NewServer(deciding)
	defer page.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	person, err := channel.Dial(ctx, "ws"+strings.TrimPrefix(page.URL, "http"), func(ctx context.Context, p *approval.Prompt) {
		fmt.Println("asked:", p.Request)
		_ = p.Accept(ctx)
	}, &channel.ClientOptions{Token: token, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer person.Close()

	s := server.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, &server.Options{
		Guards: []mcp.Guard{guard}, Logger: slog.New(slog.DiscardHandler),
	})
	server.AddTool(s, server.Tool{Name: "delete"}, func(ctx context.Context, r *server.Request, in PathIn) (string, error) {
		return "deleted " + in.Path, nil
	})
	defer s.Shutdown(ctx)
	call(s, "delete", "/tmp/a", nil)
	// Output:
	// asked: delete(path='/tmp/a')
	// deleted /tmp/a <nil>
}

// A person remembers a yes for ten minutes. An equal call is not asked about again.
func Example_remember() {
	compiled, err := policy.Compile(&policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask}}})
	if err != nil {
		log.Fatal(err)
	}
	ch, err := channel.New(&channel.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer ch.Close()
	page := httptest.NewServer(ch)
	defer page.Close()
	person, err := channel.Dial(context.Background(), page.URL, func(ctx context.Context, p *approval.Prompt) {
		fmt.Println("asked:", p.Request, "may be remembered for", p.Remember)
		_ = p.Decide(ctx, approval.Answer{Approved: true, Remember: 10 * time.Minute})
	}, &channel.ClientOptions{Token: ch.Token(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	defer person.Close()

	guard := approval.Guard(compiled, ch, &approval.Options{Remember: 15 * time.Minute, Logger: slog.New(slog.DiscardHandler)})
	s := server.New(mcp.Implementation{Name: "files", Version: "1.0.0"}, &server.Options{
		Guards: []mcp.Guard{guard}, Logger: slog.New(slog.DiscardHandler),
	})
	server.AddTool(s, server.Tool{Name: "delete"}, func(ctx context.Context, r *server.Request, in PathIn) (string, error) {
		return "deleted " + in.Path, nil
	})
	defer s.Shutdown(context.Background())
	call(s, "delete", "/tmp/a", nil)
	call(s, "delete", "/tmp/a", nil)
	call(s, "delete", "/tmp/b", nil)
	// Output:
	// asked: delete(path='/tmp/a') may be remembered for 15m0s
	// deleted /tmp/a <nil>
	// deleted /tmp/a <nil>
	// asked: delete(path='/tmp/b') may be remembered for 15m0s
	// deleted /tmp/b <nil>
}
