package approvaltests

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
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

// YesFor returns a yes that may be remembered.
func YesFor(d time.Duration) approval.Answer {
	return approval.Answer{Approved: true, By: "anna", Remember: d}
}

// AnotherExchange returns the responder of another call.
func AnotherExchange() *Exchange { return NewExchange(rand.Text()) }

// DefinedTarget returns a tool with a definition.
func DefinedTarget(definition string, origin mcp.Origin) *mcp.Target {
	return &mcp.Target{Kind: mcp.KindTool, Name: origin.Name, Origin: origin, Definition: mcp.NewDefinition(json.RawMessage(definition))}
}

// Rules returns a policy with a rule that asks.
func Rules(name, reason string) *policy.Policy {
	return &policy.Policy{Rules: []policy.Rule{{Effect: policy.Ask, Name: name, Reason: reason}}}
}

// A remembered yes is valid for equal calls only: any difference in the tool, the arguments, the caller
// or the rule asks again.
func (s Suite) TestRememberedForEqualCalls(t *testing.T) {
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
	first := call{"anna", `{"a":1,"b":2}`, DefinedTarget(definition, origin), Rules("writes", "it writes")}
	for name, test := range map[string]struct {
		change func(c *call)
		asked  int
	}{
		"the same call":                 {func(*call) {}, 1},
		"the same definition once more": {func(c *call) { c.target = DefinedTarget(definition, origin) }, 1},
		"another order of arguments":    {func(c *call) { c.arguments = `{"b":2,"a":1}` }, 2},
		"another caller":                {func(c *call) { c.who = "eve" }, 2},
		"a caller that is not known":    {func(c *call) { c.who = "" }, 2},
		"another description":           {func(c *call) { c.target = DefinedTarget(`{"name":"write","description":"deletes"}`, origin) }, 2},
		"other annotations": {func(c *call) {
			c.target = DefinedTarget(`{"name":"write","description":"writes","annotations":{"readOnlyHint":true}}`, origin)
		}, 2},
		"another launch command": {func(c *call) {
			c.target = DefinedTarget(definition, changed(func(o *mcp.Origin) { o.Launch = "npx evil" }))
		}, 2},
		"another server": {func(c *call) {
			c.target = DefinedTarget(definition, changed(func(o *mcp.Origin) { o.Server = "other" }))
		}, 2},
		"another tool":                 {func(c *call) { c.target = DefinedTarget(definition, changed(func(o *mcp.Origin) { o.Name = "writ" })) }, 2},
		"a server that is now trusted": {func(c *call) { c.target = DefinedTarget(definition, changed(func(o *mcp.Origin) { o.Trusted = true })) }, 2},
		"another rule of the policy":   {func(c *call) { c.policy = Rules("dangerous", "it writes") }, 2},
		"another reason in the policy": {func(c *call) { c.policy = Rules("writes", "it writes to a disk of others") }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			shared, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer shared.Close()
			for _, inStore := range []bool{false, true} {
				o := Options(nil)
				o.Remember = time.Minute
				if inStore {
					o.Store = shared
				}
				person := &rememberer{answer: YesFor(time.Minute)}
				var f Tool
				current := first
				// One guard with two policies: with the store, a restart can change the policy.
				invoke := func(c call) {
					t.Helper()
					compiled, err := policy.Compile(c.policy)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := s.Guarded(approval.Guard(compiled, person, o), f.Invoke)(t.Context(), NewCallOf(t, c.who, c.target, c.arguments, AnotherExchange(), nil)); err != nil {
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
					guard := s.Guarded(approval.Guard(compiled, person, o), f.Invoke)
					for _, c := range []call{first, current} {
						if _, err := guard(t.Context(), NewCallOf(t, c.who, c.target, c.arguments, AnotherExchange(), nil)); err != nil {
							t.Fatal(err)
						}
					}
				}
				if len(person.asked) != test.asked || len(f.Ran()) != 2 {
					t.Errorf("in a store: %t: %d questions and %d executions, want %d and 2", inStore, len(person.asked), len(f.Ran()), test.asked)
				}
			}
		})
	}
}

// The approver chooses to remember, at most as long as the operator allows.
func (s Suite) TestRememberedTime(t *testing.T) {
	for name, test := range map[string]struct {
		allowed time.Duration
		answer  approval.Answer
		after   time.Duration
		asked   int
	}{
		"a plain yes counts once":              {time.Hour, yes, 0, 2},
		"without permission of the operator":   {0, YesFor(time.Hour), 0, 2},
		"with a negative option":               {-time.Hour, YesFor(time.Hour), 0, 2},
		"with a negative answer":               {time.Hour, YesFor(-time.Hour), 0, 2},
		"more than a year":                     {1 << 62, YesFor(1 << 62), 365*24*time.Hour - time.Millisecond, 1},
		"a year":                               {1 << 62, YesFor(1 << 62), 365 * 24 * time.Hour, 2},
		"before the end":                       {time.Hour, YesFor(time.Minute), time.Minute - time.Millisecond, 1},
		"at the end":                           {time.Hour, YesFor(time.Minute), time.Minute, 2},
		"the operator's limit, before the end": {time.Minute, YesFor(time.Hour), time.Minute - time.Millisecond, 1},
		"the operator's limit":                 {time.Minute, YesFor(time.Hour), time.Minute, 2},
	} {
		for _, inStore := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/store=%t", name, inStore), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					shared, err := store.NewMemory(nil)
					if err != nil {
						t.Fatal(err)
					}
					defer shared.Close()
					o := Options(nil)
					if o.Remember = test.allowed; inStore {
						o.Store = shared
					}
					person := &rememberer{answer: test.answer}
					var f Tool
					invoke := s.gated(&f, person, o)
					for _, wait := range []time.Duration{test.after, 0} {
						if _, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, AnotherExchange())); err != nil {
							t.Fatal(err)
						}
						sleep(wait)
					}
					if len(person.asked) != test.asked || len(f.Ran()) != 2 {
						t.Errorf("%d questions and %d executions, want %d and 2", len(person.asked), len(f.Ran()), test.asked)
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
func (s Suite) TestNoIsNotRemembered(t *testing.T) {
	o := Options(nil)
	o.Remember = time.Hour
	person := &rememberer{answer: approval.Answer{Remember: time.Hour}}
	var f Tool
	invoke := s.gated(&f, person, o)
	for range 2 {
		_, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, AnotherExchange()))
		WantCode(t, err, approval.Rejected)
	}
	if len(person.asked) != 2 || len(f.Ran()) != 0 {
		t.Errorf("%d questions and %d executions", len(person.asked), len(f.Ran()))
	}
}

// A no to an equal call ends a remembered yes.
func (s Suite) TestNoEndsRememberedYes(t *testing.T) {
	for _, inStore := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			shared, err := store.NewMemory(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer shared.Close()
			o := Options(nil)
			if o.Remember = time.Hour; inStore {
				o.Store = shared
			}
			answers := make(chan approval.Answer)
			asked := 0
			person := approval.ApproverFunc(func(context.Context, *approval.Request) (approval.Answer, error) {
				asked++
				return <-answers, nil
			})
			var f Tool
			invoke := s.gated(&f, person, o)
			errs := make(chan error, 3)
			call := func() {
				_, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, AnotherExchange()))
				errs <- err
			}
			for range 2 {
				go call()
				synctest.Wait()
			}
			answers <- YesFor(time.Hour)
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
			answers <- no
			WantCode(t, <-errs, approval.Rejected)
			go call()
			synctest.Wait()
			if asked != 3 || len(f.Ran()) != 1 {
				t.Errorf("in a store: %t: %d questions and %d executions, want 3 and 1", inStore, asked, len(f.Ran()))
				return
			}
			answers <- no
			WantCode(t, <-errs, approval.Rejected)
		})
	}
}

// The journal has the grant and each use. A use that cannot be recorded is refused, and a grant that
// cannot be recorded is not remembered.
func (s Suite) TestRememberedInTheJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	file, err := approval.OpenJournal(path, Quiet())
	if err != nil {
		t.Fatal(err)
	}
	var d MemoryJournal
	broken := false
	d.Fails = func(e approval.Entry) error {
		if broken && e.Event == "approved" {
			return errors.New("the disk is full")
		}
		return file.Append(e)
	}
	o := Options(&d)
	o.Remember = time.Hour
	person := &rememberer{answer: YesFor(time.Minute)}
	var f Tool
	invoke := s.gated(&f, person, o)
	call := func() error {
		_, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, AnotherExchange()))
		return err
	}
	broken = true
	WantCode(t, call(), approval.Failed)
	broken = false
	for range 2 {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	broken = true
	WantCode(t, call(), approval.Failed)
	if len(person.asked) != 2 || len(f.Ran()) != 2 {
		t.Errorf("%d questions and %d executions, want 2 and 2", len(person.asked), len(f.Ran()))
	}
	var approved []approval.Entry
	for _, e := range d.Entries {
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
	if use.ID == grant.ID || use.RememberedFrom != grant.ID || !use.RememberedUntil.IsZero() || use.By != grant.By || use.Given.UnixMilli() != grant.Time.UnixMilli() {
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
func (s Suite) TestRememberedToolIsLookedUp(t *testing.T) {
	o := Options(nil)
	o.Remember = time.Hour
	person := &rememberer{answer: YesFor(time.Hour)}
	var f Tool
	invoke := s.gated(&f, person, o)
	var gone error
	recheck := func(context.Context, *mcp.Target) error { return gone }
	call := func() error {
		_, err := invoke(t.Context(), NewCallOf(t, "anna", target("write"), `{}`, AnotherExchange(), recheck))
		return err
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	gone = errors.New("quarantined")
	WantCode(t, call(), approval.Changed)
	if len(person.asked) != 1 || len(f.Ran()) != 1 {
		t.Errorf("%d questions and %d executions, want 1 and 1", len(person.asked), len(f.Ran()))
	}
}

// All replicas use what one of them remembers. A guard of another name does not, nor one with a
// shorter limit when that is over. If the store cannot be reached, the approver is asked.
func (s Suite) TestRememberedByReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		person := &rememberer{answer: YesFor(10 * time.Minute)}
		var f Tool
		replicas := s.newReplicas(t, 4, &f, person)
		for i, r := range replicas {
			r.options.Remember = time.Hour
			if i == 2 {
				r.options.Remember = time.Minute
			}
			if i == 3 {
				r.options.Name = "other"
			}
			r.invoke = s.gated(&f, person, r.options)
		}
		call := func(replica, asked int) {
			t.Helper()
			if err := replicas[replica].call(t, AnotherExchange()); err != nil {
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
		used := replicas[1].journal.Entries[1]
		if used.Event != "approved" || used.RememberedFrom != person.asked[0].ID || used.By != "anna" || used.Given.IsZero() || used.Replica != "replica-1" {
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
func (s Suite) TestRememberedAtMostAsLongAsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		person := &rememberer{answer: YesFor(time.Minute)}
		var f Tool
		replicas := s.newReplicas(t, 2, &f, person)
		for _, r := range replicas {
			r.options.Remember = time.Hour
			r.invoke = s.gated(&f, person, r.options)
		}
		replicas[0].store.down.Store(true)
		for want := range 2 {
			if err := replicas[0].call(t, AnotherExchange()); err != nil {
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
			return YesFor(howLong), nil
		})
		for _, r := range replicas {
			invoke := s.gated(&f, slow, r.options)
			go func() {
				_, _ = invoke(t.Context(), NewCall(t, "anna", "write", `{"path":"/tmp/a"}`, AnotherExchange()))
			}()
			synctest.Wait()
		}
		sleep(30 * time.Minute)
		if err := replicas[0].call(t, AnotherExchange()); err != nil {
			t.Fatal(err)
		}
		if len(person.asked) != 2 {
			t.Error("the longer time is not remembered")
		}
	})
}

// The caller cannot extend its own approval: an answer by elicitation counts once.
func (s Suite) TestElicitationIsNotRemembered(t *testing.T) {
	f := &Tool{}
	o := Options(nil)
	o.Remember = time.Hour
	invoke := s.gated(f, approval.Elicitation(), o)
	for range 2 {
		e := AnotherExchange()
		_, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, e))
		WantAsks(t, e, err, `{"action":"accept","content":{"decision":"approve","remember":3600000},"remember":3600}`)
		if _, err := invoke(t.Context(), NewCall(t, "anna", "write", `{}`, e)); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.Ran()) != 2 {
		t.Errorf("%d executions, want 2", len(f.Ran()))
	}
}

// An approver is shown what the tool is, and why it is asked.
func (s Suite) TestRequestFacts(t *testing.T) {
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
		"values of other types":        {`{"name":"a","title":1,"description":null}`, mcp.Origin{Server: "s", Name: "a"}, approval.Request{}},
	} {
		target := DefinedTarget(test.definition, test.origin)
		target.Name = "a"
		compiled, err := policy.Compile(Rules("all", "to be sure"))
		if err != nil {
			t.Fatal(err)
		}
		person := &rememberer{}
		var f Tool
		_, _ = s.Guarded(approval.Guard(compiled, person, Options(nil)), f.Invoke)(t.Context(), NewCallOf(t, "", target, `{}`, AnotherExchange(), nil)) // it is refused
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
