package approval_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// A blocking tool is approved once and runs once, whether its call waits as a task or not.
func TestBlockingToolIsApprovedOnce(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for name, approver := range map[string]func(p *prompts) approval.Approver{
			"by the caller": func(*prompts) approval.Approver { return approval.Elicitation() },
			"by another":    (*prompts).approver,
		} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var journal approvaltests.MemoryJournal
					var runs atomic.Int32
					people := &prompts{}
					s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{
						Logger: approvaltests.Quiet(), Guards: []mcp.Guard{approval.Guard(approvaltests.Asking(), approver(people), approvaltests.Options(&journal))},
					})
					server.AddTool(s, server.Tool{Name: "write", Blocking: true}, func(_ context.Context, r *server.Request, _ writeIn) (string, error) {
						runs.Add(1)
						for range 2 {
							if _, err := server.Elicit[seats](r, "seats", "How many?"); err != nil {
								return "", err
							}
						}
						return "written", nil
					})
					allowed := 0
					session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era, Elicit: func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
						content := `{"n":1}`
						if strings.HasPrefix(p.Message, "Allow") {
							allowed++
							content = `{"decision":"approve"}`
						}
						return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(content)}, nil
					}})
					if err != nil {
						t.Fatal(err)
					}
					answered := make(chan string)
					go func() {
						result, err := session.CallTool(t.Context(), "write", map[string]string{"path": "/tmp/a"}, nil)
						if err != nil {
							answered <- err.Error()
							return
						}
						answered <- result.Text()
					}()
					synctest.Wait()
					if prompt, n := people.last(); n > 0 {
						allowed += n
						if err := prompt.Accept(t.Context()); err != nil {
							t.Error(err)
						}
					}
					if got := <-answered; got != "written" || runs.Load() != 1 || allowed != 1 {
						t.Errorf("the tool says %q after %d runs and %d approvals", got, runs.Load(), allowed)
					}
					session.Close()
					if err := s.Shutdown(t.Context()); err != nil {
						t.Error(err)
					}
					if got := fmt.Sprint(journal.Events()); strings.Count(got, "executed") != 1 {
						t.Errorf("the journal is %s", got)
					}
				})
			})
		}
	})
}
