package approval_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/client"
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

// connectTo opens a session with a server whose tools are asked about. The tool asks its
// caller twice itself.
func connectTo(t *testing.T, era client.Era, approver approval.Approver, d *diary, answer func(message string) mcp.ElicitAction) (*client.Session, *[]string) {
	t.Helper()
	o := options(d)
	s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{
		Logger: quiet(), Guards: []mcp.Guard{approval.Guard(asking(), approver, o)},
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
		return &mcp.ElicitResult{Action: action, Content: json.RawMessage(`{"n":1}`)}, nil
	}
	session, err := client.Connect(t.Context(), transport.Pipe(s), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session, written
}

// TestByCaller: the person behind the client is asked once, in full, and the call is made
// once, however often the tool asks.
func TestByCaller(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, action := range []mcp.ElicitAction{mcp.ElicitAccept, mcp.ElicitDecline, mcp.ElicitCancel} {
			var asked []string
			var d diary
			session, written := connectTo(t, era, approval.ByCaller(), &d, func(message string) mcp.ElicitAction {
				asked = append(asked, message)
				if strings.HasPrefix(message, "Allow") {
					return action
				}
				return mcp.ElicitAccept
			})
			_, err := session.CallTool(t.Context(), "write", json.RawMessage(`{"path":"/tmp/\u202e\u001b[0m"}`), nil)
			if question := "Allow this call of write on files?\n" + `{"path":"/tmp/\u202e\u001b[0m"}`; asked[0] != question {
				t.Errorf("the question is %q, want %q", asked[0], question)
			}
			if action == mcp.ElicitAccept {
				if err != nil || len(*written) != 1 || fmt.Sprint(asked[1:]) != "[first second]" {
					t.Errorf("%s: asked %q, wrote %q, error %v", action, asked, *written, err)
				}
				wantEvents(t, &d, approval.EventAsked, approval.EventApproved, approval.EventExecuting, approval.EventExecuted)
				continue
			}
			var told *jsonrpc.Error
			if !errors.As(err, &told) || string(told.Data) != `{"type":"REJECTED"}` || len(*written) != 0 || len(asked) != 1 {
				t.Errorf("%s: asked %q, wrote %q, error %v", action, asked, *written, err)
			}
			wantEvents(t, &d, approval.EventAsked, approval.EventRejected)
		}
	})
}

// TestAnotherApprover: who is not the caller is asked once, too.
func TestAnotherApprover(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		prompts, questions := 0, 0
		var d diary
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
		wantEvents(t, &d, approval.EventAsked, approval.EventApproved, approval.EventExecuting, approval.EventExecuted)
	})
}

// TestCallerThatCannotBeAsked: it is as if there were nobody.
func TestCallerThatCannotBeAsked(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := server.New(mcp.Implementation{Name: "files", Version: "1"}, &server.Options{
			Logger: quiet(), Guards: []mcp.Guard{approval.Guard(asking(), approval.ByCaller(), options(nil))},
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
		var told *jsonrpc.Error
		if !errors.As(err, &told) || string(told.Data) != `{"type":"NO_APPROVER"}` {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestByCallerAnswers: only an answer to a question that was asked counts, and only accept
// approves.
func TestByCallerAnswers(t *testing.T) {
	for answer, kind := range map[string]approval.Kind{
		`{"action":"accept"}`: "", `{"action":"accept","content":{}}`: "",
		`{"action":"decline"}`: approval.Rejected, `{"action":"cancel"}`: approval.Rejected,
		`{"action":"Accept"}`: approval.Failed, `{"action":true}`: approval.Failed, `{"action":""}`: approval.Failed,
		`{}`: approval.Failed, `true`: approval.Failed, `"accept"`: approval.Failed, `{"Action":"accept"}`: approval.Failed,
	} {
		var f tool
		invoke := gated(&f, approval.ByCaller(), options(nil))
		e := newExchange("call")
		_, err := invoke(t.Context(), newCall(t, "", "write", `{}`, e))
		question, asks := mcp.AsInputRequired(err)
		if !asks {
			t.Fatal(err)
		}
		for key := range question.Requests {
			e.answers[key] = json.RawMessage(answer)
		}
		replayed := e.copy()
		_, err = invoke(t.Context(), newCall(t, "", "write", `{}`, e))
		if kind != "" {
			wantKind(t, err, kind)
		}
		if (kind == "") != (err == nil && len(f.ran()) == 1) {
			t.Errorf("%s: error %v, %d executions", answer, err, len(f.ran()))
		}
		_, err = invoke(t.Context(), newCall(t, "", "write", `{}`, replayed))
		wantKind(t, err, approval.Spent)

		another := newExchange("another") // which brings the answers of the first along
		another.answers = replayed.answers
		_, err = invoke(t.Context(), newCall(t, "", "write", `{}`, another))
		if _, asks := mcp.AsInputRequired(err); !asks {
			t.Errorf("%s: the answer counted for another call: %v", answer, err)
		}
	}
	_, err := gated(&tool{}, approval.ByCaller(), options(nil))(t.Context(), newCall(t, "", "write", `{}`, nil))
	wantKind(t, err, approval.NoApprover) // as on a client's side
}
