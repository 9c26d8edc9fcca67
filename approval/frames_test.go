package approval_test

import (
	"context"
	"encoding/json"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/internal/test/calltest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// The maximum number of stack frames, and of their source files, from the goroutine of an approved
// call to the function.
const (
	maxFrames = 17
	maxFiles  = 12
)

// A counting provider counts look-ups of an unlisted tool: each resolution and each recheck.
type counting struct {
	catalog *server.Catalog
	lookups atomic.Int32
}

func newCounting(f mcp.Handler) *counting {
	c := &counting{}
	definition := mcp.NewDefinition(json.RawMessage(`{"name":"write","inputSchema":{"type":"object"}}`))
	hidden := &server.Entry{Target: mcp.Target{Kind: mcp.KindTool, Name: "write", Definition: definition}, Handle: f}
	c.catalog = server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(context.Context, mcp.Kind, string) (*server.Entry, error) {
		c.lookups.Add(1)
		return hidden, nil
	}})
	return c
}

func (c *counting) Catalog() *server.Catalog { return c.catalog }

func (c *counting) Run(ctx context.Context, ready func(), _ func(mcp.Change)) error {
	ready()
	<-ctx.Done()
	return nil
}

// TestApprovedCall prints and bounds the stack of an approved call over a pipe. The policy and the
// approver decide once, and the tool is looked up once after the answer.
func TestApprovedCall(t *testing.T) {
	var frames []runtime.Frame
	provider := newCounting(func(context.Context, *mcp.Call) (mcp.Result, error) {
		frames = calltest.Callers()
		return mcp.Raw(`{"content":[]}`), nil
	})
	decided, asked, before := 0, 0, int32(0)
	person := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		asked++
		before = provider.lookups.Load()
		return yes, nil
	})
	var d approvaltests.MemoryJournal
	o := approvaltests.Options(&d)
	o.OnDecision = func(_ context.Context, _ *mcp.Call, q *policy.Request, decision policy.Decision) {
		decided++
		if decision.Effect != policy.Ask {
			t.Errorf("the decision is %v", decision)
		}
	}
	d.Fails = func(e approval.Entry) error {
		if n := provider.lookups.Load() - before; e.Event == "approved" && n != 1 {
			t.Errorf("the tool was looked up %d times between the answer and its record, want 1", n)
		}
		return nil
	}
	s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{
		Logger: approvaltests.Quiet(), Guards: []mcp.Guard{approval.Guard(approvaltests.Asking(), person, o)},
	})
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	if err := s.Mount(provider, nil); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: client.Modern, NoTasks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(t.Context(), "write", nil, nil); err != nil {
		t.Fatal(err)
	}
	if n := provider.lookups.Load() - before; decided != 1 || asked != 1 || n != 1 {
		t.Errorf("%d decisions, %d questions, %d look-ups after the answer, want one of each", decided, asked, n)
	}
	calltest.WantAtMost(t, frames, maxFrames, maxFiles)
}
