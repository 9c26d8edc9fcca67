package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/approvaltests"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

type writeIn struct {
	Path string `json:"path"`
}

type seats struct {
	N int `json:"n"`
}

func eachEra(t *testing.T, run func(t *testing.T, era client.Era)) {
	t.Run("modern", func(t *testing.T) { run(t, client.Modern) })
	t.Run("legacy", func(t *testing.T) { run(t, client.Legacy) })
}

// connectTo opens a session with a server with a guard that always asks. The tool asks its
// caller twice.
func connectTo(t *testing.T, era client.Era, approver approval.Approver, d *approvaltests.MemoryJournal, answer func(message string) mcp.ElicitAction) (*client.Session, *[]string) {
	t.Helper()
	o := approvaltests.Options(d)
	s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{
		Logger: approvaltests.Quiet(), Guards: []mcp.Guard{approval.Guard(approvaltests.Asking(), approver, o)},
	})
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	written := new([]string)
	write, err := server.NewTool(server.Tool{Name: "write"}, func(_ context.Context, r *server.Request, in writeIn) (string, error) {
		for _, key := range []string{"first", "second"} {
			if _, err := server.Elicit[seats](r, key, key); err != nil {
				return "", err
			}
		}
		*written = append(*written, in.Path)
		return "done", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	write.Origin = mcp.Origin{Server: "files"}
	if err := s.Replace(write); err != nil {
		t.Fatal(err)
	}
	opts := &client.Options{Era: era}
	opts.Elicit = func(_ context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		action := answer(p.Message)
		if action != mcp.ElicitAccept {
			return &mcp.ElicitResult{Action: action}, nil
		}
		content := `{"n":1}`
		if strings.HasPrefix(p.Message, "Allow") {
			content = `{"decision":"approve"}`
		}
		return &mcp.ElicitResult{Action: action, Content: json.RawMessage(content)}, nil
	}
	session, err := client.Connect(t.Context(), transport.Pipe(s), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session, written
}

// TestElicitation: the user of the client is asked once, with the complete arguments, and the
// tool runs once.
func TestElicitation(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, action := range []mcp.ElicitAction{mcp.ElicitAccept, mcp.ElicitDecline, mcp.ElicitCancel} {
			var asked []string
			var d approvaltests.MemoryJournal
			session, written := connectTo(t, era, approval.Elicitation(), &d, func(message string) mcp.ElicitAction {
				asked = append(asked, message)
				if strings.HasPrefix(message, "Allow") {
					return action
				}
				return mcp.ElicitAccept
			})
			result, err := session.CallTool(t.Context(), "write", json.RawMessage(`{"path":"/tmp/\u202e\u001b[0m"}`), nil)
			if question := "Allow this call of write on files?\nEffect: may delete or overwrite data\n" + `{"path":"/tmp/\u202e\u001b[0m"}`; asked[0] != question {
				t.Errorf("the question is %q, want %q", asked[0], question)
			}
			if action == mcp.ElicitAccept {
				if err != nil || len(*written) != 1 || fmt.Sprint(asked[1:]) != "[first second]" {
					t.Errorf("%s: asked %q, wrote %q, error %v", action, asked, *written, err)
				}
				approvaltests.WantEvents(t, &d, "asked", "paused",
					"asked", "approved", "executing", "paused",
					"resumed", "paused", "resumed", "executed")
				continue
			}
			wantRefusal(t, result, err, approval.Rejected, "Approval request for files.write rejected")
			if len(*written) != 0 || len(asked) != 1 {
				t.Errorf("%s: asked %q, wrote %q, error %v", action, asked, *written, err)
			}
			approvaltests.WantEvents(t, &d, "asked", "paused", "asked", "rejected")
		}
	})
}

// TestAnotherApprover: an approver other than the caller is also asked once.
func TestAnotherApprover(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		prompts, questions := 0, 0
		var d approvaltests.MemoryJournal
		session, written := connectTo(t, era, approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			prompts++
			return yes, nil
		}), &d, func(string) mcp.ElicitAction { questions++; return mcp.ElicitAccept })
		if _, err := session.CallTool(t.Context(), "write", json.RawMessage(`{"path":"/tmp/a"}`), nil); err != nil {
			t.Fatal(err)
		}
		if prompts != 1 || questions != 2 || len(*written) != 1 {
			t.Errorf("%d prompts, %d questions, wrote %q", prompts, questions, *written)
		}
		approvaltests.WantEvents(t, &d, "asked", "approved", "executing", "paused",
			"resumed", "paused", "resumed", "executed")
	})
}

// TestCallerThatCannotBeAsked: without elicitation the code is NoApprover.
func TestCallerThatCannotBeAsked(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{
			Logger: approvaltests.Quiet(), Guards: []mcp.Guard{approval.Guard(approvaltests.Asking(), approval.Elicitation(), approvaltests.Options(nil))},
		})
		t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
		server.AddTool(s, server.Tool{Name: "write"}, func(context.Context, *server.Request, writeIn) (string, error) {
			t.Error("it was executed")
			return "", nil
		})
		session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		result, err := session.CallTool(t.Context(), "write", json.RawMessage(`{"path":"/tmp/a"}`), nil)
		wantRefusal(t, result, err, approval.NoApprover, "Approval request for write failed: the caller cannot be asked")
	})
}

// TestProtocolErrors: with the option, a call that is not approved, or that the policy denies, has a
// JSON-RPC error.
func TestProtocolErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for effect, data := range map[string]string{"ask": `{"type":"REJECTED"}`, "deny": `{"type":"FORBIDDEN","guard":"policy"}`} {
			o := approvaltests.Options(nil)
			o.ProtocolErrors = true
			s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{
				Logger: approvaltests.Quiet(), Guards: []mcp.Guard{approval.Guard(approvaltests.Parsed(t, `{"rules":[{"effect":"`+effect+`"}]}`), approvaltests.Says(no, nil), o)},
			})
			t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
			server.AddTool(s, server.Tool{Name: "write"}, func(context.Context, *server.Request, writeIn) (string, error) {
				t.Error("it was executed")
				return "", nil
			})
			session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			_, err = session.CallTool(t.Context(), "write", json.RawMessage(`{"path":"/tmp/a"}`), nil)
			if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || string(wire.Data) != data {
				t.Errorf("%s: the error is %v", effect, err)
			}
		}
	})
}

// TestElicitationAnswers: only the answer to the question of this call counts, and only an
// accepted form with the decision to approve is a yes.
func TestElicitationAnswers(t *testing.T) {
	for answer, code := range map[string]approval.Code{
		`{"action":"accept","content":{"decision":"approve"}}`: "", `{"action":"accept","content":{"more":1,"decision":"approve"}}`: "",
		`{"action":"accept","content":{"decision":"reject"}}`:   approval.Rejected,
		`{"action":"decline","content":{"decision":"approve"}}`: approval.Rejected,
		`{"action":"accept"}`: approval.Failed, `{"action":"accept","content":null}`: approval.Failed,
		`{"action":"accept","content":{}}`: approval.Failed, `{"action":"accept","content":{"decision":true}}`: approval.Failed,
		`{"action":"accept","content":{"decision":"Approve"}}`: approval.Failed, `{"action":"accept","content":{"approve":true}}`: approval.Failed,
		`{"action":"accept","content":{"decision":"reject","decision":"approve"}}`: approval.Failed,
		`{"action":"decline"}`: approval.Rejected, `{"action":"cancel"}`: approval.Rejected,
		`{"action":"Accept"}`: approval.Failed, `{"action":true}`: approval.Failed, `{"action":""}`: approval.Failed,
		`{}`: approval.Failed, `true`: approval.Failed, `"accept"`: approval.Failed, `{"Action":"accept"}`: approval.Failed,
	} {
		var f approvaltests.Tool
		invoke := approvaltests.Gated(&f, approval.Elicitation(), approvaltests.Options(nil))
		e := approvaltests.NewExchange("call")
		_, err := invoke(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, e))
		question, asks := mcp.AsInputRequired(err)
		if !asks {
			t.Fatal(err)
		}
		for key, asked := range question.Requests {
			wantNoDefault(t, asked.Params)
			e.Answers[key] = json.RawMessage(answer)
		}
		replayed := e.Copy()
		_, err = invoke(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, e))
		if code != "" {
			approvaltests.WantCode(t, err, code)
		}
		if (code == "") != (err == nil && len(f.Ran()) == 1) {
			t.Errorf("%s: error %v, %d executions", answer, err, len(f.Ran()))
		}
		_, err = invoke(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, replayed))
		approvaltests.WantCode(t, err, approval.Spent)

		another := approvaltests.NewExchange("another") // with the answers of the first call
		another.Answers = replayed.Answers
		_, err = invoke(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, another))
		if _, asks := mcp.AsInputRequired(err); !asks {
			t.Errorf("%s: the answer counted for another call: %v", answer, err)
		}
	}
	_, err := approvaltests.Gated(&approvaltests.Tool{}, approval.Elicitation(), approvaltests.Options(nil))(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, nil))
	approvaltests.WantCode(t, err, approval.NoApprover) // as in a client
}

// wantNoDefault checks that a form has one choice, which is required and has no default. A client
// that fills in the first option rejects.
func wantNoDefault(t *testing.T, params json.RawMessage) {
	t.Helper()
	var p mcp.ElicitParams
	if err := p.UnmarshalJSON(params); err != nil {
		t.Fatal(err)
	}
	form, err := mcp.ParseElicitSchema(p.RequestedSchema)
	if err != nil {
		t.Fatal(err)
	}
	choice, ok := form.Fields[0].Schema.(*mcp.EnumSchema)
	if !ok || len(form.Fields) != 1 || !form.Fields[0].Required || len(choice.Default) != 0 || choice.Multiple || choice.Options[0].Value != "reject" {
		t.Errorf("the form is %s", p.RequestedSchema)
	}
}

// TestQuorum: y approves, n rejects, e fails, p panics, and - waits for its context.
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
						sleep(time.Second)
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
			// A yes takes a second, so a no may come first.
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
			approval.Quorum(count, approvaltests.Says(yes, nil))
		}()
	}
}

// TestQuorumWithTheCaller: the caller is asked first, and each other approver once.
func TestQuorumWithTheCaller(t *testing.T) {
	for action, approved := range map[string]bool{"accept": true, "decline": false} {
		prompts := 0
		var f approvaltests.Tool
		invoke := approvaltests.Gated(&f, approval.Quorum(2, approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			prompts++
			return yes, nil
		}), approval.Quorum(1, approval.Elicitation())), approvaltests.Options(nil))
		e := approvaltests.NewExchange("call")
		_, err := invoke(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, e))
		question, asks := mcp.AsInputRequired(err)
		if !asks || prompts != 0 {
			t.Fatalf("error %v, %d prompts", err, prompts)
		}
		for key := range question.Requests {
			e.Answers[key] = json.RawMessage(`{"action":"` + action + `","content":{"decision":"approve"}}`)
		}
		_, err = invoke(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, e))
		if (err == nil) != approved || (len(f.Ran()) == 1) != approved || (prompts == 1) != approved {
			t.Errorf("%s: error %v, %d executions, %d prompts", action, err, len(f.Ran()), prompts)
		}
	}
}

// An approver that gives up because of the request's deadline has let it expire. With another
// error, or before the deadline, it has failed.
func TestErrorsOfApproversAtTheDeadline(t *testing.T) {
	errOther := errors.New("no connection")
	for _, test := range []struct {
		name string
		late bool
		err  error
		want approval.Code
	}{
		{"late", true, context.DeadlineExceeded, approval.Expired},
		{"late with another error", true, errOther, approval.Failed},
		{"a timeout of its own", false, context.DeadlineExceeded, approval.Failed},
		{"another error", false, errOther, approval.Failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				approver := approval.ApproverFunc(func(_ context.Context, r *approval.Request) (approval.Answer, error) {
					if test.late {
						<-time.After(time.Until(r.Deadline))
					}
					return approval.Answer{}, test.err
				})
				_, err := approvaltests.Gated(&approvaltests.Tool{}, approver, approvaltests.Options(nil))(t.Context(), approvaltests.NewCall(t, "", "write", `{}`, nil))
				approvaltests.WantCode(t, err, test.want)
			})
		})
	}
}

// A quorum remembers a yes for the shortest time that its approvers gave.
func TestQuorumRemembers(t *testing.T) {
	for _, test := range []struct{ first, second, want time.Duration }{
		{time.Hour, time.Minute, time.Minute}, {time.Minute, time.Hour, time.Minute}, {time.Hour, 0, 0}, {0, time.Hour, 0}, {time.Hour, time.Hour, time.Hour},
	} {
		first, second := approvaltests.YesFor(test.first), approvaltests.YesFor(test.second)
		first.By, second.By = "", "" // unknown
		got, err := approval.Quorum(2, approvaltests.Says(first, nil), approvaltests.Says(second, nil)).Approve(t.Context(), writeRequest())
		if err != nil || !got.Approved || got.Remember != test.want {
			t.Errorf("%v and %v: %+v, %v; want %v", test.first, test.second, got, err, test.want)
		}
	}
}
