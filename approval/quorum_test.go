package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
)

// TestQuorum: y says yes, n no, e fails, p panics, and - waits until it is not needed.
func TestQuorum(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		count     int
		approvers string
		want      string // y, n, e, or t for a wait that ends with the deadline
	}{
		{1, "y", "y"}, {1, "n", "n"}, {1, "e", "e"}, {1, "p", "e"}, {1, "-", "t"},
		{1, "y-", "y"}, {1, "-y", "y"}, {1, "ey", "y"}, {1, "py", "y"}, {1, "ee", "e"}, {1, "e-", "e"},
		{2, "yy", "y"}, {2, "yy-", "y"}, {2, "y-", "t"}, {2, "yn", "n"}, {2, "-n", "n"}, {2, "ye", "e"}, {2, "eyy", "y"}, {2, "e-", "e"},
		{3, "yyy", "y"}, {3, "yye", "e"}, {3, "y-n", "n"}, {3, "yy-", "t"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var approvers []approval.Approver
			for _, a := range test.approvers {
				approvers = append(approvers, approval.ApproverFunc(func(ctx context.Context, _ *approval.Request) (approval.Answer, error) {
					switch a {
					case 'y':
						pass(time.Second)
						return yes, nil
					case 'n':
						return no, nil
					case 'e':
						return approval.Answer{Approved: true}, boom
					case 'p':
						panic("boom")
					}
					<-ctx.Done()
					return yes, context.Cause(ctx)
				}))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			a, err := approval.Quorum(test.count, approvers...).Approve(ctx, &approval.Request{})
			got := "e"
			switch {
			case err == nil && a.Approved:
				got = "y"
				if want := strings.TrimSuffix(strings.Repeat("anna, ", test.count), ", "); a.By != want {
					t.Errorf("%d of %s: by %q", test.count, test.approvers, a.By)
				}
			case err == nil:
				got = "n"
			case errors.Is(err, context.DeadlineExceeded):
				got = "t"
			}
			// A no that comes first, or after, wins unless the others were enough before.
			if got != test.want && (test.approvers != "yn" || got != "n") {
				t.Errorf("%d of %s: %s (%v), want %s", test.count, test.approvers, got, err, test.want)
			}
		})
	}
	for _, count := range []int{0, -1, 2} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a quorum of %d of 1 was made", count)
				}
			}()
			approval.Quorum(count, says(yes, nil))
		}()
	}
}

// TestQuorumWithTheCaller: the caller is asked first, and the others once.
func TestQuorumWithTheCaller(t *testing.T) {
	for action, approved := range map[string]bool{"accept": true, "decline": false} {
		prompts := 0
		var f tool
		invoke := gated(&f, approval.Quorum(2, approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			prompts++
			return yes, nil
		}), approval.Quorum(1, approval.ByCaller())), options(nil))
		e := newExchange("call")
		_, err := invoke(t.Context(), newCall(t, "", "write", `{}`, e))
		question, asks := mcp.AsInputRequired(err)
		if !asks || prompts != 0 {
			t.Fatalf("error %v, %d prompts", err, prompts)
		}
		for key := range question.Requests {
			e.answers[key] = json.RawMessage(`{"action":"` + action + `"}`)
		}
		_, err = invoke(t.Context(), newCall(t, "", "write", `{}`, e))
		if (err == nil) != approved || (len(f.ran()) == 1) != approved || (prompts == 1) != approved {
			t.Errorf("%s: error %v, %d executions, %d prompts", action, err, len(f.ran()), prompts)
		}
	}
}
