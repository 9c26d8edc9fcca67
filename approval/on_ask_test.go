package approval_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Options.OnAsk gets the beginning and the answer of each request, whoever answers, and changes neither who is asked nor how.
func TestOnAsk(t *testing.T) {
	yes := func(by string) approval.Approver {
		return approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			return approval.Answer{Approved: true, By: by}, nil
		})
	}
	fail := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
		return approval.Answer{}, errors.New("away")
	})
	for name, c := range map[string]struct {
		approver approval.Approver
		want     []string
	}{
		"a function":  {yes("ada"), []string{"asked write", `true by "ada"`}},
		"a failure":   {fail, []string{"asked write", "an error"}},
		"a quorum":    {approval.Quorum(2, yes("ada"), yes("ada")), []string{"asked write", `true by "ada, ada"`}},
		"the caller":  {approval.Elicitation(), []string{"asked write", "asks the caller", "asked write", `true by "the caller"`}},
		"no approver": {nil, nil},
		"remembered": {approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			return approval.Answer{Approved: true, By: "ada", Remember: time.Hour, Given: time.Unix(1, 0)}, nil
		}), []string{"asked write", `true by "ada"`, "asked write", `true by "ada", remembered`}},
	} {
		eachEra(t, func(t *testing.T, era client.Era) {
			t.Run(name, func(t *testing.T) {
				var seen []string
				opts := approvaltests.Options(nil)
				opts.Remember = time.Hour
				opts.OnAsk = func(_ context.Context, r *approval.Request) func(approval.Answer, error) {
					seen = append(seen, "asked "+r.Tool)
					return func(a approval.Answer, err error) {
						switch _, asks := mcp.AsInputRequired(err); {
						case asks:
							seen = append(seen, "asks the caller")
						case err != nil:
							seen = append(seen, "an error")
						default:
							seen = append(seen, fmt.Sprintf("%t by %q", a.Approved, a.By)+map[bool]string{false: ", remembered"}[a.Given.IsZero()])
						}
					}
				}
				s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{Logger: approvaltests.Quiet(), Guards: []mcp.Guard{approval.Guard(approvaltests.Asking(), c.approver, opts)}})
				server.AddTool(s, server.Tool{Name: "write"}, func(context.Context, *server.Request, writeIn) (string, error) { return "written", nil })
				session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"decision":"approve"}`)}, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Shutdown(t.Context())
				defer session.Close()
				for range map[bool]int{false: 1, true: 2}[name == "remembered"] {
					if _, err := session.CallTool(t.Context(), "write", map[string]string{"path": "/tmp/a"}, nil); err != nil {
						t.Error(err)
					}
				}
				if !slices.Equal(seen, c.want) {
					t.Errorf("OnAsk got %q, want %q", seen, c.want)
				}
			})
		})
	}
}
