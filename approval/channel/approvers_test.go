package channel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
	"github.com/dovetail-go/dovetail/transport/store"
)

const subprotocol = "dovetail.approval.v1"

// numberedApprovers names the approvers by the order in which they connect.
func numberedApprovers() func(*http.Request) (channel.Person, bool) {
	var last atomic.Int32
	return func(*http.Request) (channel.Person, bool) {
		return channel.Person{Name: fmt.Sprint("person ", last.Add(1)-1)}, true
	}
}

// lastWord returns the notification that a request has ended. If a store yields the end first, it is
// followed by one with the decision.
func (a *approver) lastWord(t *testing.T, id string) shown {
	t.Helper()
	got := a.asked(t)
	synctest.Wait()
	if got.Method == "withdrawn" && got.Params.ID == id && got.Params.Decision == "" && len(a.frames) > 0 {
		return a.asked(t)
	}
	return got
}

// wantDecided checks that an approver sees who decided a request, and how.
func (a *approver) wantDecided(t *testing.T, id, decision, by, why string, remember int) {
	t.Helper()
	got := a.lastWord(t, id)
	p := got.Params
	if got.Method != "withdrawn" || p.ID != id || p.Decision != decision || p.By != by || p.Why != why || p.Remember != remember {
		t.Errorf("the approver gets %+v, want %q, %s by %q because of %q", got, id, decision, by, why)
	}
	a.wantSilence(t)
}

// Several approvers see each request. The first answer decides, and the others see it immediately.
func TestSeveralApprovers(t *testing.T) {
	virtual(t, &channel.Options{Authenticate: numberedApprovers()}, func(t *testing.T, r *rig) {
		var persons []*approver
		for range 3 {
			persons = append(persons, r.connect(t, subprotocol))
		}
		for i, test := range []struct{ answer, decision, why string }{
			{`"result":true`, "approved", ""},
			{`"result":true,"remember":90`, "approved", ""},
			{`"result":false,"reason":"not \u001b today"`, "rejected", "not \x1b today"},
			{`"error":{"code":-1,"message":"no screen"}`, "failed", "no screen"},
		} {
			id := fmt.Sprint("request-", i)
			done := r.ask(t, id)
			for _, p := range persons {
				if q := p.asked(t); q.ID != id {
					t.Fatalf("an approver is asked %+v", q)
				}
			}
			decides := persons[i%3]
			decides.say(t, `{"jsonrpc":"2.0",`+test.answer+`,"id":"`+id+`"}`)
			name := fmt.Sprint("person ", i%3)
			switch v := <-done; test.decision {
			case "failed":
				if !errors.Is(v.err, approval.Failed) {
					t.Errorf("the request ended with %+v", v)
				}
			default:
				if v.err != nil || v.answer.Approved != (test.decision == "approved") || v.answer.By != name || v.answer.Reason != test.why {
					t.Errorf("the request ended with %+v", v)
				}
			}
			remember := 0
			if i == 1 {
				remember = 90
			}
			for _, p := range persons {
				if p == decides {
					p.wantSilence(t)
					continue
				}
				p.wantDecided(t, id, test.decision, name, test.why, remember)
				p.say(t, answerOf(id, true)) // too late
				if q := p.asked(t); q.Method != "refused" || q.Params.ID != id {
					t.Errorf("a late approver gets %+v", q)
				}
			}
		}
	})
}

// Without Options.Authenticate the name of the person is not known.
func TestUnidentifiedApprover(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		first, second := r.connect(t, subprotocol), r.connect(t, subprotocol)
		done := r.ask(t, "1")
		first.asked(t)
		second.asked(t)
		first.say(t, answerOf("1", true))
		if v := <-done; v.answer.By != "channel" {
			t.Errorf("the request ended with %+v", v)
		}
		second.wantDecided(t, "1", "approved", "", "", 0)
	})
}

// Of many answers at the same time one counts. All others are refused.
func TestOneOfManyAnswersCounts(t *testing.T) {
	virtual(t, &channel.Options{Authenticate: numberedApprovers()}, func(t *testing.T, r *rig) {
		const count = 10
		persons := make([]*approver, count)
		for i := range persons {
			persons[i] = r.connect(t, subprotocol)
		}
		for n := range 50 {
			id := fmt.Sprint("request-", n)
			done := r.ask(t, id)
			for _, p := range persons {
				p.asked(t)
			}
			var answering sync.WaitGroup
			for i, p := range persons {
				answering.Go(func() { _ = p.WriteMessage(websocket.TextMessage, []byte(answerOf(id, i%2 == 0))) }) // if it fails, an answer is missing
			}
			answering.Wait()
			v := <-done
			synctest.Wait()
			refused := 0
			for i, p := range persons {
				won := v.answer.By == fmt.Sprint("person ", i)
				if won {
					p.wantSilence(t)
					if v.answer.Approved != (i%2 == 0) {
						t.Errorf("%s is said to have decided %t", v.answer.By, v.answer.Approved)
					}
					continue
				}
				for len(p.frames) > 0 { // the request may be withdrawn before the answer arrives, and its decision announced after
					if p.asked(t).Method == "refused" {
						refused++
					}
				}
			}
			if v.err != nil || refused != count-1 {
				t.Fatalf("the request ended with %+v, and %d answers were refused", v, refused)
			}
		}
	})
}

// An answer counts if the approver disconnects, or the channel is closed, immediately afterwards.
func TestAnswerBeforeTheEnd(t *testing.T) {
	for i := range 40 {
		virtual(t, &channel.Options{FailOnDisconnect: true}, func(t *testing.T, r *rig) {
			a := r.connect(t)
			done := r.ask(t, "1")
			a.asked(t)
			if err := a.WriteMessage(websocket.TextMessage, []byte(answerOf("1", true))); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				synctest.Wait()
				r.Close()
			}
			a.Close()
			wantApproved(t, done, true)
		})
	}
}

// Requests stay with the approvers that remain. The last one that disconnects fails them, with
// FailOnDisconnect.
func TestApproversThatRemain(t *testing.T) {
	virtual(t, &channel.Options{FailOnDisconnect: true}, func(t *testing.T, r *rig) {
		first, second := r.connect(t, subprotocol), r.connect(t, subprotocol)
		done := r.ask(t, "1")
		other := r.ask(t, "2")
		for range 2 {
			first.asked(t)
			second.asked(t)
		}
		first.Close()
		wantPending(t, done)
		if !r.Connected() {
			t.Error("no approver is said to be connected")
		}
		late := r.connect(t, subprotocol)
		late.asked(t)
		late.asked(t)
		second.say(t, answerOf("1", true))
		wantApproved(t, done, true)
		late.wantDecided(t, "1", "approved", "", "", 0)
		second.Close()
		wantPending(t, other)
		late.Close()
		wantError(t, other, approval.Lost, "Approval channel disconnected")
		synctest.Wait()
		if r.Connected() {
			t.Error("an approver is said to be connected")
		}
	})
}

// An approver without the subprotocol takes part. There is one of that kind.
func TestApproverWithoutSubprotocol(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		plain, page := r.connect(t), r.connect(t, subprotocol)
		second := r.connect(t)
		second.wantClose(t, websocket.ClosePolicyViolation, "Timed out waiting for previous connection to close")
		done := r.ask(t, "1")
		plain.asked(t)
		page.asked(t)
		plain.say(t, answerOf("1", true))
		wantApproved(t, done, true)
		page.wantDecided(t, "1", "approved", "", "", 0)
		done = r.ask(t, "2")
		plain.asked(t)
		page.asked(t)
		page.say(t, answerOf("2", false))
		wantApproved(t, done, false)
		plain.say(t, answerOf("2", true)) // too late, and it gets no notifications
		plain.wantSilence(t)
	})
}

// The number of approvers is limited.
func TestMaxApprovers(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		var persons []*approver
		for range 64 {
			persons = append(persons, r.connect(t, subprotocol))
		}
		more, err := r.open(subprotocol)
		if err != nil {
			t.Fatal(err)
		}
		more.wantClose(t, websocket.ClosePolicyViolation, "too many approvers are connected")
		persons[7].Close()
		synctest.Wait()
		r.connect(t, subprotocol)
		if err := r.SetToken(strings.Repeat("x", 20)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r.Connected() {
			t.Error("an approver with the previous token is connected")
		}
	})
}

// A decision at one replica is shown at the pages of all, also at other pages of the same replica.
func TestDecisionIsShownAtAllReplicas(t *testing.T) {
	sharing(t, 2, func(t *testing.T, shared store.Store, replicas []*replica) {
		decides, same, other := replicas[0].connect(t, subprotocol), replicas[0].connect(t, subprotocol), replicas[1].connect(t, subprotocol)
		for i := range 50 {
			id := fmt.Sprint("request-", i)
			done := replicas[i%2].askWith(t.Context(), numbered(id, i))
			for _, p := range []*approver{decides, same, other} {
				p.asked(t)
			}
			decides.say(t, `{"jsonrpc":"2.0","result":true,"remember":60,"id":"`+id+`"}`)
			if v := <-done; v.err != nil || v.answer != (approval.Answer{Approved: true, By: "person 0", Remember: time.Minute}) {
				t.Fatalf("the request ended with %+v", v)
			}
			same.wantDecided(t, id, "approved", "person 0", "", 60)
			other.wantDecided(t, id, "approved", "person 0", "", 60)
			decides.wantSilence(t)
		}
		wantNoRecords(t, shared)
	})
}

// A terse store yields the decision and the deletion of a record as one change, to approvers.
type terseStore struct{ store.Store }

func (s terseStore) Watch(ctx context.Context, prefix string) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		for item, err := range s.Store.Watch(ctx, prefix) {
			if err == nil && strings.Count(prefix, "/") == 2 && strings.Contains(string(item.Value), `"decision"`) {
				continue
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// An approver sees how a request was decided even if it only sees its record disappear.
func TestDecisionOfARecordThatHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
		deciding, watching := startReplica(t, shared, "person 0"), startReplica(t, terseStore{shared}, "person 1")
		defer deciding.end(false)
		defer watching.end(false)
		decides, sees := deciding.connect(t, subprotocol), watching.connect(t, subprotocol)
		for i := range 100 { // more than are kept
			id := fmt.Sprint("request-", i)
			ctx, cancel := context.WithCancel(t.Context())
			done := deciding.askWith(ctx, numbered(id, i))
			decides.asked(t)
			sees.asked(t)
			decides.say(t, answerOf(id, i%2 == 0))
			wantApproved(t, done, i%2 == 0)
			synctest.Wait()
			got := sees.lastWord(t, id)
			if want := map[bool]string{true: "approved", false: "rejected"}[i%2 == 0]; got.Method != "withdrawn" || got.Params.ID != id || got.Params.Decision != want || got.Params.By != "person 0" {
				t.Fatalf("the approver gets %+v", got)
			}
			sees.wantSilence(t)

			done = deciding.askWith(ctx, numbered(id+"-withdrawn", i))
			decides.asked(t)
			sees.asked(t)
			cancel()
			<-done
			for _, p := range []*approver{decides, sees} {
				p.wantDecided(t, id+"-withdrawn", "", "", "", 0)
			}
		}
	})
}

// Programs connect like pages: each gets the request, and the first one decides.
func TestSeveralClients(t *testing.T) {
	virtual(t, &channel.Options{Authenticate: numberedApprovers()}, func(t *testing.T, r *rig) {
		prompts := make(chan *approval.Prompt, 2)
		ended := make(chan error, 2)
		handler := func(ctx context.Context, p *approval.Prompt) {
			prompts <- p
			select {
			case <-p.Decided():
			case <-ctx.Done():
				ended <- context.Cause(ctx)
			}
		}
		for range 2 {
			c := r.dial(t, handler, nil)
			defer c.Close()
		}
		done := r.ask(t, "1")
		first, second := <-prompts, <-prompts
		if err := first.Accept(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantApproved(t, done, true)
		if err := <-ended; !errors.Is(err, approval.ErrWithdrawn) { // its text has the decision, unless the end of the request is known first
			t.Errorf("the context of the other one ends with %v", err)
		}
		if err := second.Accept(t.Context()); !errors.Is(err, approval.ErrWithdrawn) {
			t.Errorf("the other one decides too: %v", err)
		}
	})
}

// A program sees all facts of a request, and can remember a yes.
func TestFacts(t *testing.T) {
	yes, no := true, false
	for name, facts := range map[string]func(r *approval.Request){
		"none": func(*approval.Request) {},
		"all": func(r *approval.Request) {
			r.Title, r.Description, r.Rule, r.Reason = "Write \x1b", "Writes\na file.", "rules[0]", `"to be sure"`
			r.Annotations.ReadOnlyHint, r.Annotations.DestructiveHint = &no, &yes
			r.Trusted, r.Remember = true, 10*time.Minute
		},
		"read-only": func(r *approval.Request) { r.Annotations.ReadOnlyHint = &yes },
	} {
		virtual(t, nil, func(t *testing.T, r *rig) {
			got := make(chan *approval.Request, 1)
			c := r.dial(t, func(ctx context.Context, p *approval.Prompt) {
				got <- p.Request
				_ = p.Decide(ctx, approval.Answer{Approved: true, Remember: 90*time.Second + 1})
			}, nil)
			defer c.Close()
			sent := request("1")
			facts(sent)
			done := r.askWith(t.Context(), sent)
			if diff := cmp.Diff(sent, <-got, cmpopts.IgnoreUnexported(approval.Request{}), cmpopts.EquateApproxTime(time.Millisecond)); diff != "" {
				t.Errorf("%s (-sent +got):\n%s", name, diff)
			}
			if v := <-done; v.err != nil || v.answer.Remember != 90*time.Second {
				t.Errorf("%s: the answer is %+v", name, v)
			}
		})
	}
}

// The time for which an approval is remembered is a whole number. A frame with anything else approves
// nothing, and a rejection remembers nothing.
func TestRememberInFrames(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t, subprotocol)
		for i, value := range []string{`-1`, `1.5`, `1e3`, `"60"`, `true`, `[60]`, `{}`, `1000000001`, `99999999999999999999`} {
			id := fmt.Sprint(i)
			done := r.ask(t, id)
			a.asked(t)
			a.say(t, `{"jsonrpc":"2.0","result":true,"remember":`+value+`,"id":"`+id+`"}`)
			wantPending(t, done)
			if q := a.asked(t); q.Method != "refused" || q.Params.ID != id || !strings.Contains(q.Params.Reason, "whole number") {
				t.Errorf("%s: the approver gets %+v", value, q)
			}
			a.say(t, `{"jsonrpc":"2.0","result":false,"remember":60,"id":"`+id+`"}`)
			if v := <-done; v.err != nil || v.answer.Approved || v.answer.Remember != 0 {
				t.Errorf("a rejection is %+v", v)
			}
		}
	})
}

// The facts are in the frame, for approvers in other languages.
func TestFactsFrame(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t, subprotocol)
		no := false
		q := request("1")
		q.Title, q.Description, q.Rule, q.Reason, q.Trusted, q.Remember = "T", "D", "R", "Y", true, 1500*time.Millisecond
		q.Annotations.DestructiveHint = &no
		r.askWith(t.Context(), q)
		var frame struct{ Params map[string]any }
		if err := json.Unmarshal([]byte(a.next(t)), &frame); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"title": "T", "description": "D", "rule": "R", "reason": "Y", "trusted": true, "remember": 1.0, "destructive": false}
		for name, value := range want {
			if got := frame.Params[name]; got != value {
				t.Errorf("%s is %v, want %v", name, got, value)
			}
		}
		if _, ok := frame.Params["read_only"]; ok {
			t.Error("a hint that is not known is sent")
		}
	})
}

// A person approves no call of their own, under whatever name they make it. They can reject it, and others can approve it.
func TestOwnCallsAreApprovedByOthers(t *testing.T) {
	people := map[string]channel.Person{
		"ann": {Name: "ann", Principals: []string{"ann", "console:ann"}},
		"bob": {Name: "bob", Principals: []string{"bob", "console:bob"}},
	}
	order := make(chan string, 2)
	authenticate := func(*http.Request) (channel.Person, bool) { who, ok := people[<-order]; return who, ok }
	for _, test := range []struct {
		caller, by string
		approves   bool
		refused    bool
	}{
		{"ann", "ann", true, true},
		{"console:ann", "ann", true, true},
		{"ann", "ann", false, false},
		{"ann", "bob", true, false},
		{"console:bob", "ann", true, false},
		{"anna", "ann", true, false},
		{"", "ann", true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, &channel.Options{Authenticate: authenticate, ReconnectTimeout: time.Hour})
			defer r.stop()
			connected := map[string]*approver{}
			for _, name := range []string{"ann", "bob"} {
				order <- name
				connected[name] = r.connect(t, subprotocol)
			}
			q := request("1")
			q.Caller = test.caller
			done := r.askWith(t.Context(), q)
			for _, a := range connected {
				a.asked(t)
			}
			connected[test.by].say(t, answerOf("1", test.approves))
			if !test.refused {
				if v := <-done; v.err != nil || v.answer.Approved != test.approves || v.answer.By != test.by {
					t.Errorf("%s decides about a call of %q: %+v", test.by, test.caller, v)
				}
				return
			}
			if q := connected[test.by].asked(t); q.Method != "refused" || q.Params.Decision != "" {
				t.Errorf("%s approves a call of %q: %+v", test.by, test.caller, q)
			}
			wantPending(t, done)
			connected["bob"].say(t, answerOf("1", true))
			if v := <-done; v.err != nil || v.answer.By != "bob" {
				t.Errorf("the other person approves: %+v", v)
			}
		})
	}
}

// An approver is disconnected when the login expires, and can then decide nothing.
func TestLoginOfApproverExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &channel.Options{ReconnectTimeout: time.Hour, Authenticate: func(*http.Request) (channel.Person, bool) {
			return channel.Person{Name: "ann", Expires: time.Now().Add(time.Minute)}, true
		}})
		defer r.stop()
		a := r.connect(t, subprotocol)
		q := request("1")
		q.Deadline = time.Now().Add(time.Hour)
		done := r.askWith(t.Context(), q)
		a.asked(t)
		pass(59 * time.Second)
		if !r.Connected() {
			t.Fatal("the approver was disconnected too early")
		}
		pass(2 * time.Second)
		if r.Connected() {
			t.Error("the approver is connected after the login has expired")
		}
		wantPending(t, done)
		for range a.frames {
		}
		if !websocket.IsCloseError(a.ended, websocket.ClosePolicyViolation) {
			t.Errorf("the connection ended with %v", a.ended)
		}
	})
}

// Options.Authenticate alone decides who is an approver.
func TestUnknownPersonIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &channel.Options{Authenticate: func(*http.Request) (channel.Person, bool) { return channel.Person{}, false }})
		defer r.stop()
		if _, err := r.open(subprotocol); err == nil || err.Error() != "401 Unauthorized" {
			t.Errorf("an unknown person with the token gets %v", err)
		}
	})
	for name, opts := range map[string]*channel.Options{
		"token":    {Token: "a-token-of-16-characters"},
		"no token": {InsecureNoToken: true},
	} {
		opts.Authenticate = numberedApprovers()
		if _, err := channel.New(opts); err == nil {
			t.Errorf("%s beside Authenticate is accepted", name)
		}
	}
}
