package approval_test

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// The longest way that an approved call may take from its goroutine to the function, in
// frames and in files that a reader has to open.
const (
	maxFrames = 18
	maxFiles  = 13
)

// A counting provider counts how often it is looked at for something that it does not
// list, as it is for each resolution and each recheck.
type counting struct {
	catalog *server.Catalog
	looked  atomic.Int32
}

func newCounting(f mcp.Handler) *counting {
	c := &counting{}
	definition := mcp.NewDefinition(json.RawMessage(`{"name":"write","inputSchema":{"type":"object"}}`))
	hidden := &server.Entry{Target: mcp.Target{Kind: mcp.KindTool, Name: "write", Definition: definition}, Handle: f}
	c.catalog = server.NewCatalog(nil, &server.CatalogOptions{Resolve: func(context.Context, mcp.Kind, string) (*server.Entry, error) {
		c.looked.Add(1)
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

// TestApprovedCall prints the way of an approved call over a pipe, from the goroutine of
// the connection to the function, and bounds it. The policy decides once, the approver
// once, and the tool is looked up once more after the answer.
func TestApprovedCall(t *testing.T) {
	var frames []runtime.Frame
	provider := newCounting(func(context.Context, *mcp.Call) (mcp.Result, error) {
		frames = callers()
		return mcp.Raw(`{"content":[]}`), nil
	})
	decided, asked, before := 0, 0, int32(0)
	person := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		asked++
		before = provider.looked.Load()
		return yes, nil
	})
	var d diary
	o := options(&d)
	o.Decided = func(_ context.Context, _ *mcp.Call, q *policy.Request, decision policy.Decision) {
		decided++
		if decision.Effect != policy.Ask {
			t.Errorf("the decision is %v", decision)
		}
	}
	d.fails = func(e approval.Entry) error {
		if n := provider.looked.Load() - before; e.Event == approval.EventApproved && n != 1 {
			t.Errorf("the tool was looked up %d times between the answer and its record, want 1", n)
		}
		return nil
	}
	s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{
		Logger: quiet(), Guards: []mcp.Guard{approval.Guard(asking(), person, o)},
	})
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	if err := s.Mount(provider, nil); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: client.Modern})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(t.Context(), "write", nil, nil); err != nil {
		t.Fatal(err)
	}
	if n := provider.looked.Load() - before; decided != 1 || asked != 1 || n != 1 {
		t.Errorf("%d decisions, %d questions, %d look-ups after the answer, want one of each", decided, asked, n)
	}
	var files []string
	for _, frame := range slices.Backward(frames) {
		file := frame.File[strings.LastIndex(frame.File, "/dovetail/")+1:]
		t.Logf("%s (%s:%d)", frame.Function[strings.LastIndex(frame.Function, "/")+1:], file, frame.Line)
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	t.Logf("%d frames in %d files", len(frames), len(files))
	if len(frames) > maxFrames || len(files) > maxFiles {
		t.Errorf("the call passes %d frames in %d files, want at most %d in %d", len(frames), len(files), maxFrames, maxFiles)
	}
}

// callers are the frames of the function that calls it, without runtime.goexit.
func callers() []runtime.Frame {
	pcs := make([]uintptr, 100)
	pcs = pcs[:runtime.Callers(2, pcs)]
	var found []runtime.Frame
	for frames := runtime.CallersFrames(pcs); ; {
		frame, more := frames.Next()
		if frame.Function != "" && frame.Function != "runtime.goexit" {
			found = append(found, frame)
		}
		if !more {
			return found
		}
	}
}
