package client_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/everywhere"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type stepsIn struct {
	Steps int `json:"steps"`
}

// newStepper is a server with a tool that reports each of its steps.
func newStepper() *server.Server {
	s := newServer(nil)
	server.AddTool(s, server.Tool{Name: "step"}, func(ctx context.Context, r *server.Request, in stepsIn) (int, error) {
		for i := range in.Steps {
			if err := r.Progress(ctx, float64(i+1), float64(in.Steps), fmt.Sprintf("step %d", i+1)); err != nil {
				return 0, err
			}
		}
		return in.Steps, nil
	})
	return s
}

func TestProgressInOrderBeforeTheResult(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, everywhere.Dialer(t, newStepper()), client.Options{Era: era})
		const steps = 500
		var want, got []string
		for i := range steps {
			want = append(want, fmt.Sprintf("%d/%d step %d", i+1, steps, i+1))
		}
		returned := false
		opts := &client.CallOptions{Progress: func(p *mcp.ProgressParams) {
			if returned {
				t.Error("progress after the result")
			}
			got = append(got, fmt.Sprintf("%v/%v %s", p.Progress, *p.Total, p.Message))
		}}
		_, err := session.CallTool(t.Context(), "step", stepsIn{steps}, opts)
		returned = true
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A callback that waits holds up its own call and nothing else: other calls, and
// even calls that it makes itself, go on.
func TestSlowProgressBlocksNobody(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, everywhere.Dialer(t, newStepper()), client.Options{Era: era})
		inside, leave := make(chan struct{}), make(chan struct{})
		slow := make(chan error, 1)
		go func() {
			first := true
			_, err := session.CallTool(t.Context(), "step", stepsIn{200}, &client.CallOptions{Progress: func(*mcp.ProgressParams) {
				if first {
					first = false
					close(inside)
					<-leave
				}
			}})
			slow <- err
		}()
		<-inside
		nested := 0
		_, err := session.CallTool(t.Context(), "step", stepsIn{3}, &client.CallOptions{Progress: func(*mcp.ProgressParams) {
			if _, err := session.CallTool(t.Context(), "step", stepsIn{1}, nil); err != nil {
				t.Error(err)
			}
			nested++
		}})
		if err != nil || nested != 3 {
			t.Errorf("%d calls from callbacks, error %v", nested, err)
		}
		close(leave)
		if err := <-slow; err != nil {
			t.Error(err)
		}
	})
}

// Each call is told its own progress only, and a call that wants none is told
// nothing: nor does what the server makes up reach anybody.
func TestProgressOfOthers(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var held *jsonrpc.Request
		arrived := make(chan struct{})
		session := connect(t, script(func(req *jsonrpc.Request) []string {
			if req.Method != mcp.MethodToolsCall {
				return nil
			}
			if held == nil { // the first waits for the second
				held = req
				close(arrived)
				return []string{}
			}
			progress := func(token string) string {
				return notification(mcp.NotificationProgress, `{"progressToken":`+token+`,"progress":1}`)
			}
			return []string{
				progress(`"unknown"`), progress(`99`), progress(`null`), progress(`{}`), notification(mcp.NotificationProgress, `{}`),
				progress(string(held.Member("_meta", "progressToken"))),
				notification(mcp.NotificationProgress, `{"progressToken":`+string(held.Member("_meta", "progressToken"))+`,"progress":"much"}`),
				result(req, `{"resultType":"complete","content":[]}`),
				result(held, `{"resultType":"complete","content":[]}`),
			}
		}), client.Options{Era: era})
		first, told := make(chan error, 1), 0
		go func() {
			_, err := session.CallTool(t.Context(), "x", nil, &client.CallOptions{Progress: func(*mcp.ProgressParams) { told++ }})
			first <- err
		}()
		<-arrived
		forged := &client.CallOptions{Meta: mcp.Meta(`{"progressToken":1}`)}
		if _, err := session.CallTool(t.Context(), "x", nil, forged); err != nil {
			t.Error(err)
		}
		if err := <-first; err != nil || told != 1 {
			t.Errorf("the call was told %d times of its progress, want 1; error %v", told, err)
		}
	})
}
