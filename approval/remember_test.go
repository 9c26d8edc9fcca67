package approval_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A rememberer is an approver that counts the requests and gives an answer.
type rememberer struct {
	answer approval.Answer
	asked  []*approval.Request
}

func (r *rememberer) Approve(_ context.Context, request *approval.Request) (approval.Answer, error) {
	r.asked = append(r.asked, request)
	return r.answer, nil
}

func yesFor(d time.Duration) approval.Answer {
	return approval.Answer{Approved: true, By: "anna", Remember: d}
}

// anotherExchange returns the responder of another call.
func anotherExchange() *exchange { return newExchange(rand.Text()) }

// definedTarget returns a tool with a definition.
func definedTarget(definition string, origin mcp.Origin) *mcp.Target {
	return &mcp.Target{Kind: mcp.KindTool, Name: origin.Name, Origin: origin, Definition: mcp.NewDefinition(json.RawMessage(definition))}
}

// rules returns a policy with a rule that asks.
func rules(name, reason string) *policy.Policy {
	return &policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask, Name: name, Reason: reason}}}
}

// A remembered yes is valid for equal calls only: any difference in the tool, the arguments, the caller
// or the rule asks again.
func TestRememberedForEqualCalls(t *testing.T) {
	const definition = `{"name":"write","description":"writes"}`
	origin := mcp.Origin{Server: "files", Name: "write", Launch: "npx files"}
	changed := func(change func(o *mcp.Origin)) mcp.Origin {
		o := origin
		change(&o)
		return o
	}
	type call struct {
		who, arguments string
		target         *mcp.Target
		policy         *policy.Policy
	}
	first := call{"anna", `{"a":1}`, definedTarget(definition, origin), rules("writes", "it writes")}
	for name, test := range map[string]struct {
		change func(c *call)
		asked  int
	}{
		"the same call":                 {func(*call) {}, 1},
		"the same definition once more": {func(c *call) { c.target = definedTarget(definition, origin) }, 1},
		"other bytes of the arguments":  {func(c *call) { c.arguments = `{"a":1 }` }, 2},
		"another caller":                {func(c *call) { c.who = "eve" }, 2},
		"a caller that is not known":    {func(c *call) { c.who = "" }, 2},
		"another description":           {func(c *call) { c.target = definedTarget(`{"name":"write","description":"deletes"}`, origin) }, 2},
		"other annotations": {func(c *call) {
			c.target = definedTarget(`{"name":"write","description":"writes","annotations":{"readOnlyHint":true}}`, origin)
		}, 2},
		"another launch command": {func(c *call) {
			c.target = definedTarget(definition, changed(func(o *mcp.Origin) { o.Launch = "npx evil" }))
		}, 2},
		"another server": {func(c *call) {
			c.target = definedTarget(definition, changed(func(o *mcp.Origin) { o.Server = "other" }))
		}, 2},
		"another tool":                 {func(c *call) { c.target = definedTarget(definition, changed(func(o *mcp.Origin) { o.Name = "writ" })) }, 2},
		"a server that is now trusted": {func(c *call) { c.target = definedTarget(definition, changed(func(o *mcp.Origin) { o.Trusted = true })) }, 2},
		"another rule of the policy":   {func(c *call) { c.policy = rules("dangerous", "it writes") }, 2},
		"another reason in the policy": {func(c *call) { c.policy = rules("writes", "it writes to a disk of others") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			shared, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer shared.Close()
			for _, inStore := range []bool{false, true} {
				o := options(nil)
				o.Remember = time.Minute
				if inStore {
					o.Store = shared
				}
				person := &rememberer{answer: yesFor(time.Minute)}
				var f tool
				current := first
				// One guard with two policies: with the store, a restart can change the policy.
				invoke := func(c call) {
					t.Helper()
					compiled, err := policy.Compile(c.policy)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := guarded(approval.Guard(compiled, person, o), f.invoke)(t.Context(), newCallOf(t, c.who, c.target, c.arguments, anotherExchange(), nil)); err != nil {
						t.Fatal(err)
					}
				}
				if inStore {
					invoke(current)
					test.change(&current)
					invoke(current)
				} else {
					test.change(&current)
					if current.policy != first.policy {
						continue // a guard in memory has one policy
					}
					compiled, err := policy.Compile(first.policy)
					if err != nil {
						t.Fatal(err)
					}
					guard := guarded(approval.Guard(compiled, person, o), f.invoke)
					for _, c := range []call{first, current} {
						if _, err := guard(t.Context(), newCallOf(t, c.who, c.target, c.arguments, anotherExchange(), nil)); err != nil {
							t.Fatal(err)
						}
					}
				}
				if len(person.asked) != test.asked || len(f.ran()) != 2 {
					t.Errorf("in a store: %t: %d questions and %d executions, want %d and 2", inStore, len(person.asked), len(f.ran()), test.asked)
				}
			}
		})
	}
}

// The approver chooses to remember, at most as long as the operator allows.
func TestRememberedTime(t *testing.T) {
	for name, test := range map[string]struct {
		allowed time.Duration
		answer  approval.Answer
		after   time.Duration
		asked   int
	}{
		"a plain yes counts once":              {time.Hour, yes, 0, 2},
		"without permission of the operator":   {0, yesFor(time.Hour), 0, 2},
		"with a negative option":               {-time.Hour, yesFor(time.Hour), 0, 2},
		"with a negative answer":               {time.Hour, yesFor(-time.Hour), 0, 2},
		"more than a year":                     {1 << 62, yesFor(1 << 62), 365*24*time.Hour - time.Millisecond, 1},
		"a year":                               {1 << 62, yesFor(1 << 62), 365 * 24 * time.Hour, 2},
		"before the end":                       {time.Hour, yesFor(time.Minute), time.Minute - time.Millisecond, 1},
		"at the end":                           {time.Hour, yesFor(time.Minute), time.Minute, 2},
		"the operator's limit, before the end": {time.Minute, yesFor(time.Hour), time.Minute - time.Millisecond, 1},
		"the operator's limit":                 {time.Minute, yesFor(time.Hour), time.Minute, 2},
	} {
		for _, inStore := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/store=%t", name, inStore), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					shared, err := store.NewMemory(nil)
					if err != nil {
						t.Fatal(err)
					}
					defer shared.Close()
					o := options(nil)
					if o.Remember = test.allowed; inStore {
						o.Store = shared
					}
					person := &rememberer{answer: test.answer}
					var f tool
					invoke := gated(&f, person, o)
					for _, wait := range []time.Duration{test.after, 0} {
						if _, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, anotherExchange())); err != nil {
							t.Fatal(err)
						}
						sleep(wait)
					}
					if len(person.asked) != test.asked || len(f.ran()) != 2 {
						t.Errorf("%d questions and %d executions, want %d and 2", len(person.asked), len(f.ran()), test.asked)
					}
					if got, want := person.asked[0].Remember, min(max(0, test.allowed), 365*24*time.Hour); got != want {
						t.Errorf("the request allows %v, want %v", got, want)
					}
				})
			})
		}
	}
}

// A no is not remembered, even if the approver says so.
func TestNoIsNotRemembered(t *testing.T) {
	o := options(nil)
	o.Remember = time.Hour
	person := &rememberer{answer: approval.Answer{Remember: time.Hour}}
	var f tool
	invoke := gated(&f, person, o)
	for range 2 {
		_, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, anotherExchange()))
		wantCode(t, err, approval.Rejected)
	}
	if len(person.asked) != 2 || len(f.ran()) != 0 {
		t.Errorf("%d questions and %d executions", len(person.asked), len(f.ran()))
	}
}

// A no to an equal call ends a remembered yes.
func TestNoEndsRememberedYes(t *testing.T) {
	for _, inStore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shared, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer shared.Close()
			o := options(nil)
			if o.Remember = time.Hour; inStore {
				o.Store = shared
			}
			answers := make(chan approval.Answer)
			asked := 0
			person := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
				asked++
				return <-answers, nil
			})
			var f tool
			invoke := gated(&f, person, o)
			errs := make(chan error, 3)
			call := func() {
				_, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, anotherExchange()))
				errs <- err
			}
			for range 2 {
				go call()
				synctest.Wait()
			}
			answers <- yesFor(time.Hour)
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
			answers <- no
			wantCode(t, <-errs, approval.Rejected)
			go call()
			synctest.Wait()
			if asked != 3 || len(f.ran()) != 1 {
				t.Errorf("in a store: %t: %d questions and %d executions, want 3 and 1", inStore, asked, len(f.ran()))
				return
			}
			answers <- no
			wantCode(t, <-errs, approval.Rejected)
		})
	}
}

// The journal has the grant and each use. A use that cannot be recorded is refused, and a grant that
// cannot be recorded is not remembered.
func TestRememberedInTheJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	file, err := approval.OpenJournal(path, quiet())
	if err != nil {
		t.Fatal(err)
	}
	var d memoryJournal
	broken := false
	d.fails = func(e approval.Entry) error {
		if broken && e.Event == "approved" {
			return errors.New("the disk is full")
		}
		return file.Append(e)
	}
	o := options(&d)
	o.Remember = time.Hour
	person := &rememberer{answer: yesFor(time.Minute)}
	var f tool
	invoke := gated(&f, person, o)
	call := func() error {
		_, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, anotherExchange()))
		return err
	}
	broken = true
	wantCode(t, call(), approval.Failed)
	broken = false
	for range 2 {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	broken = true
	wantCode(t, call(), approval.Failed)
	if len(person.asked) != 2 || len(f.ran()) != 2 {
		t.Errorf("%d questions and %d executions, want 2 and 2", len(person.asked), len(f.ran()))
	}
	var approved []approval.Entry
	for _, e := range d.entries {
		if e.Event == "approved" {
			approved = append(approved, e)
		}
	}
	if len(approved) != 2 {
		t.Fatalf("the journal has %d approvals, want 2", len(approved))
	}
	grant, use := approved[0], approved[1]
	if grant.By != "anna" || !grant.RememberedUntil.Equal(grant.Time.Add(time.Minute)) || grant.RememberedFrom != "" {
		t.Errorf("the grant is %+v", grant)
	}
	if use.ID == grant.ID || use.RememberedFrom != grant.ID || !use.RememberedUntil.IsZero() || use.By != "" {
		t.Errorf("the use is %+v, of the grant %s", use, grant.ID)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if summary, err := approval.Verify(path); err != nil || len(summary.Open) != 0 {
		t.Errorf("the journal: %+v, %v", summary, err)
	}
}

// A tool that was removed or changed does not run, although its approval is remembered.
func TestRememberedToolIsLookedUp(t *testing.T) {
	o := options(nil)
	o.Remember = time.Hour
	person := &rememberer{answer: yesFor(time.Hour)}
	var f tool
	invoke := gated(&f, person, o)
	var gone error
	recheck := func(context.Context, *mcp.Target) error { return gone }
	call := func() error {
		_, err := invoke(t.Context(), newCallOf(t, "anna", target("write"), `{}`, anotherExchange(), recheck))
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	gone = errors.New("quarantined")
	wantCode(t, call(), approval.Changed)
	if len(person.asked) != 1 || len(f.ran()) != 1 {
		t.Errorf("%d questions and %d executions, want 1 and 1", len(person.asked), len(f.ran()))
	}
}

// All replicas use what one of them remembers. A guard of another name does not, nor one with a
// shorter limit when that is over. If the store cannot be reached, the approver is asked.
func TestRememberedByReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		person := &rememberer{answer: yesFor(10 * time.Minute)}
		var f tool
		replicas := newReplicas(t, 4, &f, person)
		for i, r := range replicas {
			r.options.Remember = time.Hour
			if i == 2 {
				r.options.Remember = time.Minute
			}
			if i == 3 {
				r.options.Name = "other"
			}
			r.invoke = gated(&f, person, r.options)
		}
		call := func(replica, asked int) {
			t.Helper()
			if err := replicas[replica].call(t, anotherExchange()); err != nil {
				t.Fatal(err)
			}
			if len(person.asked) != asked {
				t.Errorf("%d questions, want %d", len(person.asked), asked)
			}
		}
		call(0, 1)
		call(1, 1)
		call(2, 1)
		person.answer = yes
		call(3, 2)
		used := replicas[1].journal.entries[1]
		if used.Event != "approved" || used.RememberedFrom != person.asked[0].ID || used.Replica != "replica-1" {
			t.Errorf("the journal of the second replica has %+v", used)
		}
		sleep(time.Minute)
		call(2, 3)
		call(1, 3)
		replicas[1].store.down.Store(true)
		call(1, 4)
		replicas[1].store.down.Store(false)
		call(1, 4)
		sleep(9 * time.Minute)
		call(0, 5)
		call(1, 6)
	})
}

// If an approval cannot be stored, it counts once. A later yes does not shorten an earlier one.
func TestRememberedAtMostAsLongAsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		person := &rememberer{answer: yesFor(time.Minute)}
		var f tool
		replicas := newReplicas(t, 2, &f, person)
		for _, r := range replicas {
			r.options.Remember = time.Hour
			r.invoke = gated(&f, person, r.options)
		}
		replicas[0].store.down.Store(true)
		for want := range 2 {
			if err := replicas[0].call(t, anotherExchange()); err != nil {
				t.Fatal(err)
			}
			if len(person.asked) != want+1 {
				t.Errorf("%d questions, want %d", len(person.asked), want+1)
			}
		}
		replicas[0].store.down.Store(false)
		// Both replicas ask about equal calls at the same time, and get different answers.
		both := make(chan time.Duration, 2)
		both <- time.Minute
		both <- time.Hour
		slow := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
			howLong := <-both
			sleep(time.Second + howLong/1000) // the longer time comes last
			return yesFor(howLong), nil
		})
		for _, r := range replicas {
			invoke := gated(&f, slow, r.options)
			go func() {
				_, _ = invoke(t.Context(), newCall(t, "anna", "write", `{"path":"/tmp/a"}`, anotherExchange()))
			}()
			synctest.Wait()
		}
		sleep(30 * time.Minute)
		if err := replicas[0].call(t, anotherExchange()); err != nil {
			t.Fatal(err)
		}
		if len(person.asked) != 2 {
			t.Error("the longer time is not remembered")
		}
	})
}

// The caller cannot extend its own approval: an answer by elicitation counts once.
func TestElicitationIsNotRemembered(t *testing.T) {
	f := &tool{}
	o := options(nil)
	o.Remember = time.Hour
	invoke := gated(f, approval.Elicitation(), o)
	for range 2 {
		e := anotherExchange()
		_, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, e))
		wantAsks(t, e, err, `{"action":"accept","content":{"decision":"approve","remember":3600000},"remember":3600}`)
		if _, err := invoke(t.Context(), newCall(t, "anna", "write", `{}`, e)); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.ran()) != 2 {
		t.Errorf("%d executions, want 2", len(f.ran()))
	}
}

// A quorum remembers a yes for the shortest time that its approvers gave.
func TestQuorumRemembers(t *testing.T) {
	for _, test := range []struct{ first, second, want time.Duration }{
		{time.Hour, time.Minute, time.Minute}, {time.Minute, time.Hour, time.Minute}, {time.Hour, 0, 0}, {0, time.Hour, 0}, {time.Hour, time.Hour, time.Hour},
	} {
		first, second := yesFor(test.first), yesFor(test.second)
		first.By, second.By = "", "" // unknown
		got, err := approval.Quorum(2, says(first, nil), says(second, nil)).Approve(t.Context(), writeRequest())
		if err != nil || !got.Approved || got.Remember != test.want {
			t.Errorf("%v and %v: %+v, %v; want %v", test.first, test.second, got, err, test.want)
		}
	}
}

// An approver is shown what the tool is, and why it is asked.
func TestRequestFacts(t *testing.T) {
	yes := true
	for name, test := range map[string]struct {
		definition string
		origin     mcp.Origin
		want       approval.Request
	}{
		"all": {
			`{"name":"a","title":"Read","description":"Reads.","annotations":{"title":"Other","readOnlyHint":true}}`,
			mcp.Origin{Server: "s", Name: "a", Trusted: true},
			approval.Request{Title: "Read", Description: "Reads.", Annotations: mcp.ToolAnnotations{Title: "Other", ReadOnlyHint: &yes}, Trusted: true},
		},
		"the title of the annotations": {`{"name":"a","annotations":{"title":"Other"}}`, mcp.Origin{Server: "s", Name: "a"}, approval.Request{Title: "Other", Annotations: mcp.ToolAnnotations{Title: "Other"}}},
		"a tool of this program":       {`{"name":"a"}`, mcp.Origin{}, approval.Request{Trusted: true}},
		"values of other types":        {`{"name":"a","title":1,"description":null}`, mcp.Origin{Server: "s"}, approval.Request{}},
	} {
		target := definedTarget(test.definition, test.origin)
		target.Name = "a"
		compiled, err := policy.Compile(rules("all", "to be sure"))
		if err != nil {
			t.Fatal(err)
		}
		person := &rememberer{}
		var f tool
		_, _ = guarded(approval.Guard(compiled, person, options(nil)), f.invoke)(t.Context(), newCallOf(t, "", target, `{}`, anotherExchange(), nil)) // it is refused
		r := person.asked[0]
		got := approval.Request{Title: r.Title, Description: r.Description, Annotations: r.Annotations, Trusted: r.Trusted, Rule: r.Rule, Reason: r.Reason}
		test.want.Rule, test.want.Reason = "all", "to be sure"
		a, errA := json.Marshal(got)
		b, errB := json.Marshal(test.want)
		if string(a) != string(b) || errA != nil || errB != nil {
			t.Errorf("%s: the request has\n%s, want\n%s", name, a, b)
		}
	}
}

// The user of a client sees the same facts.
func TestElicitationFacts(t *testing.T) {
	e := anotherExchange()
	f := &tool{}
	compiled, err := policy.Compile(rules("writes", "to be sure"))
	if err != nil {
		t.Fatal(err)
	}
	invoke := guarded(approval.Guard(compiled, approval.Elicitation(), options(nil)), f.invoke)
	target := definedTarget(`{"name":"write","title":"Write","description":"Writes.\nReason: none","annotations":{"destructiveHint":false}}`, mcp.Origin{Server: "files", Name: "write", Launch: "npx \u202efiles"})
	call := newCallOf(t, "", target, `{"a":1}`, e, nil)
	call.SetScript("call 3 of the script 5f2a")
	_, err = invoke(t.Context(), call)
	asked, ok := mcp.AsInputRequired(err)
	if !ok {
		t.Fatal(err)
	}
	for _, question := range asked.Requests {
		var params mcp.ElicitParams
		if err := params.UnmarshalJSON(question.Params); err != nil {
			t.Fatal(err)
		}
		const want = "Allow this call of write on files?\nLaunch: npx \\u202efiles\nTitle: Write\nDescription: Writes. Reason: none\n" +
			"Effect: adds or changes data, does not delete or overwrite it (the server says so; not verified)\nScript: call 3 of the script 5f2a\nReason: to be sure\n" + `{"a":1}`
		if params.Message != want {
			t.Errorf("the question is\n%s\nwant\n%s", params.Message, want)
		}
	}
}

// The hints of a tool describe its effect. The effect is marked as not verified, unless the server is trusted or the
// tool belongs to this program.
func TestEffectShown(t *testing.T) {
	const (
		deletes = "may delete or overwrite data"
		adds    = "adds or changes data, does not delete or overwrite it"
	)
	origins := map[string]struct {
		origin  mcp.Origin
		trusted bool
	}{
		"a server":         {mcp.Origin{Server: "files", Name: "write"}, false},
		"a trusted server": {mcp.Origin{Server: "files", Name: "write", Trusted: true}, true},
		"this program":     {mcp.Origin{}, true},
	}
	compiled, err := policy.Compile(rules("writes", ""))
	if err != nil {
		t.Fatal(err)
	}
	for hints, test := range map[string]struct {
		want string
		said bool // by the server
	}{
		``:                        {deletes, false},
		`"readOnlyHint":false`:    {deletes, false},
		`"readOnlyHint":true`:     {"changes nothing", true},
		`"destructiveHint":true`:  {deletes, true},
		`"destructiveHint":false`: {adds, true},
		`"readOnlyHint":true,"destructiveHint":true`:   {"changes nothing", true},
		`"readOnlyHint":false,"destructiveHint":false`: {adds, true},
	} {
		for name, from := range origins {
			want := test.want
			if test.said && !from.trusted {
				want += " (the server says so; not verified)"
			}
			target := definedTarget(`{"name":"write","annotations":{`+hints+`}}`, from.origin)
			elicited := guarded(approval.Guard(compiled, approval.Elicitation(), options(nil)), (&tool{}).invoke)
			_, err := elicited(t.Context(), newCallOf(t, "", target, `{}`, anotherExchange(), nil))
			asked, ok := mcp.AsInputRequired(err)
			if !ok {
				t.Fatal(err)
			}
			for _, question := range asked.Requests {
				var params mcp.ElicitParams
				if err := params.UnmarshalJSON(question.Params); err != nil || !strings.Contains(params.Message, "\nEffect: "+want+"\n") {
					t.Errorf("%s of %s: the question is %q, %v; want %s", hints, name, params.Message, err, want)
				}
			}

			d := newConsole(t)
			onTerminal := guarded(approval.Guard(compiled, d.Approver, options(nil)), (&tool{}).invoke)
			done := make(chan error, 1)
			go func() {
				_, err := onTerminal(t.Context(), newCallOf(t, "", target, `{}`, nil, nil))
				done <- err
			}()
			if shown := strings.ReplaceAll(<-d.screen, "\n  | ", ""); !strings.Contains(shown, "\n  effect    "+want+"\n") {
				t.Errorf("%s of %s: the terminal shows %s\nwant %s", hints, name, shown, want)
			}
			d.key(t, "\n")
			if err := <-done; err == nil {
				t.Error("a refused call has no error")
			}
		}
	}
}
