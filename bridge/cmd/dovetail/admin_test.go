package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// operate runs dovetail admin, and returns what it prints and its exit status.
func (p *program) operate(t *testing.T, line ...string) (said string, status exitStatus) {
	t.Helper()
	t.Setenv(adminVariable, p.admin)
	var out, errors bytes.Buffer
	err := run(t.Context(), append([]string{"admin", "-url", "http://" + p.address}, line...), strings.NewReader(""), &out, &errors)
	if err != nil {
		printError(&errors, err)
	}
	return out.String() + errors.String(), statusOf(err)
}

// metric returns the values of a metric by its attributes.
func (p *program) metric(t *testing.T, name string) map[string]string {
	t.Helper()
	status, text, err := p.do(t.Context(), p.token, http.MethodGet, "/metrics", "")
	if err != nil || status != http.StatusOK {
		t.Fatalf("/metrics: %d %v", status, err)
	}
	values := make(map[string]string)
	for _, found := range regexp.MustCompile(`(?m)^`+name+`(?:\{(.*)\})? (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		values[found[1]] = found[2]
	}
	return values
}

// begin makes a call in a form that becomes a task, and returns its id. The caller leaves.
func (p *program) begin(t *testing.T, session *client.Session, form, tool string) string {
	t.Helper()
	called, with := formCalls[form](tool, encoded(t, line{Path: p.path("file"), Text: "x"}))
	tasks := make(chan string, 1)
	go func() {
		_, _ = session.CallTool(t.Context(), called, json.RawMessage(with), &client.CallOptions{
			OnTask: func(task *mcp.Task) { tasks <- task.TaskID },
		})
	}()
	return waittest.Receive(t, "a task", tasks)
}

// taskRig is two replicas that run one task each. Each task waits for approval, and there are several callers.
type taskRig struct {
	replicas []*program
	sessions []*client.Session // of callers
}

func newTaskRig(t *testing.T) *taskRig {
	t.Helper()
	keys, entries := make([]string, 3), make([]string, 3)
	for i := range keys {
		keys[i], entries[i] = newKey(t, fmt.Sprint("caller", i))
	}
	address, r := newStore(t), &taskRig{}
	for range 2 {
		p := &program{folder: t.TempDir(), said: &output{}}
		p.run(t, strings.NewReader(""), append(p.flags(t), "-store", address, "-max-tasks", "1", "-keys", p.write(t, "keys.json", keysOf(entries...))))
		p.token = keys[0]
		r.replicas = append(r.replicas, p)
	}
	for _, key := range keys {
		caller := *r.replicas[0]
		caller.token = key
		r.sessions = append(r.sessions, caller.connect(t, nil))
	}
	return r
}

// TestOperateTasks: an operator sees the tasks of all callers at any replica, and cancels and retries them.
func TestOperateTasks(t *testing.T) {
	r := newTaskRig(t)
	first, second := r.replicas[0], r.replicas[1]
	asked := first.decide(t, never)
	var ids []string
	for i, session := range r.sessions {
		ids = append(ids, first.begin(t, session, toolsForm, "put"))
		if i < 2 {
			isAsked(t, asked)
		}
	}
	for i, p := range r.replicas {
		waittest.Until(t, "the tasks", func() bool {
			counts := p.metric(t, "dovetail_tasks")
			return counts[`state="running"`] == "2" && counts[`state="waiting"`] == "1"
		})
		said, status := p.operate(t, "tasks", "list")
		for j, id := range ids {
			waits := strings.Contains(said, "waits for a worker")
			if !regexp.MustCompile(id+` +key:caller`+fmt.Sprint(j)+` +shelf__put `).MatchString(said) || !waits || status != succeeded {
				t.Errorf("replica %d lists %s", i, said)
			}
		}
	}
	said, status := second.operate(t, "tasks", "retry", ids[0])
	if status != failed || !strings.Contains(said, "does not wait for a worker") {
		t.Errorf("a task that runs is retried: %s", said)
	}
	for range 2 {
		if said, status := second.operate(t, "tasks", "retry", ids[2]); status != succeeded {
			t.Errorf("a task that waits: %s", said)
		}
	}
	isQuiet(t, asked)
	if said, status := second.operate(t, "tasks", "cancel", ids[0], ids[1]); status != succeeded {
		t.Errorf("cancelling says %s", said)
	}
	if request := isAsked(t, asked); request.Caller != "key:caller2" {
		t.Errorf("%+v is asked about", request.Caller)
	}
	waittest.Until(t, "the end of the tasks", func() bool {
		said, _ := first.operate(t, "tasks", "list")
		return !strings.Contains(said, ids[0]) && !strings.Contains(said, ids[1]) && strings.Contains(said, ids[2])
	})
	if said, _ := first.operate(t, "-ended", "tasks", "list"); !regexp.MustCompile(ids[0] + ` .* cancelled `).MatchString(said) {
		t.Errorf("the tasks that have ended are %s", said)
	}
	if said, status := first.operate(t, "tasks", "cancel", "NOTHING"); status != failed || !strings.Contains(said, "no task with this id") {
		t.Errorf("an unknown task: %s", said)
	}
	if attempts := first.metric(t, "dovetail_task_attempts_total"); attempts[""] == "0" {
		t.Errorf("the attempts are %v", attempts)
	}
	if waits := first.metric(t, "dovetail_tasks_waiting_age_seconds"); waits[""] != "0" {
		t.Errorf("a task waits %v", waits)
	}
}

// TestOperateSessions: an operator sees the sessions of a replica, and ends them at all.
func TestOperateSessions(t *testing.T) {
	address := newStore(t)
	first, second := start(t, "-store", address), start(t, "-store", address)
	session := first.connect(t, &client.Options{Era: client.Legacy})
	said, status := first.operate(t, "sessions", "list")
	found := regexp.MustCompile(`(?m)^(\S+) +client +2025-11-25 `).FindStringSubmatch(said)
	if found == nil || status != succeeded {
		t.Fatalf("the sessions are %s", said)
	}
	if used := first.metric(t, "dovetail_limit_used"); used[`form="tools",limit="sessions"`] != "1" {
		t.Errorf("in use are %v", used)
	}
	if said, status := second.operate(t, "sessions", "cancel", found[1]); status != succeeded {
		t.Errorf("ending a session of another replica says %s", said)
	}
	waittest.Until(t, "the end of the session", func() bool {
		return first.metric(t, "dovetail_limit_used")[`form="tools",limit="sessions"`] == "0"
	})
	if said, status := first.operate(t, "sessions", "cancel", found[1]); status != failed || !strings.Contains(said, "no session with this id") {
		t.Errorf("ending it again says %s", said)
	}
	session.Close()
}

// TestAdminStatus: an operator sees what works and what does not.
func TestAdminStatus(t *testing.T) {
	address, quiet := newStore(t), slog.New(slog.DiscardHandler)
	p := start(t, "-store", address)
	opened, err := openStore(t.Context(), address, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	waittest.Until(t, "the start", func() bool {
		_, status := p.operate(t, "status")
		return status == succeeded
	})
	said, _ := p.operate(t, "status")
	for _, want := range []string{`version +\(?\w`, `ready +true`, `draining +false`, `wedged +false`, `store +reachable`, `keys +agree`, `server +shelf ready since .*4 tools`} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("the status has no %s: %s", want, said)
		}
	}
	if got := p.metric(t, "dovetail_store_keys_agree")[""]; got != "1" {
		t.Errorf("the metric of the keys is %q", got)
	}
	records := state.NewRecords[tokens](opened, state.SharedKey(opened, "serve/key", 0, quiet))
	for _, test := range []struct {
		keys   string
		change func() error
	}{
		{"differ", func() error {
			_, err := records.Put(t.Context(), tokensName, func(r *state.Record[tokens]) error { r.Value = newTokens(); return nil })
			return err
		}},
		{"lost", func() error { return opened.Delete(t.Context(), tokensName, 0) }},
		{"differ", func() error {
			other := state.NewRecords[tokens](opened, state.SharedKey(opened, "other", 0, quiet))
			_, err := other.Create(t.Context(), tokensName, newTokens(), time.Time{})
			return err
		}},
	} {
		if err := test.change(); err != nil {
			t.Fatal(err)
		}
		said, status := p.operate(t, "-json", "status")
		var s programStatus
		if err := json.Unmarshal([]byte(said), &s); err != nil || s.Store.Keys != test.keys || s.Store.Error == "" || status != checkFailed {
			t.Errorf("want %s, the status is %s, %v", test.keys, said, err)
		}
		if got := p.metric(t, "dovetail_store_keys_agree")[""]; got != "0" {
			t.Errorf("the metric of the keys is %q", got)
		}
	}
}

// TestTasksOfAStoreThatIsAway: the list of tasks is an error, since an empty one would say that there are none.
func TestTasksOfAStoreThatIsAway(t *testing.T) {
	engine, err := nats.Embedded(t.TempDir(), &nats.Options{Listen: "127.0.0.1:0", Token: "secret-of-the-store"})
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "-store", strings.Replace(engine.URL(), "nats://", "nats://secret-of-the-store@", 1))
	waittest.Until(t, "the start", func() bool {
		_, status := p.operate(t, "status")
		return status == succeeded
	})
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	if said, status := p.operate(t, "tasks", "list"); status == succeeded || !strings.Contains(said, "the store cannot be read") {
		t.Errorf("the tasks are %q, with the status %v", said, status)
	}
}

// TestAdminWithoutStore: there is nothing that could be unreachable.
func TestAdminWithoutStore(t *testing.T) {
	p := start(t)
	waittest.Until(t, "the start", func() bool {
		said, status := p.operate(t, "status")
		return status == succeeded && strings.Contains(said, "store     none")
	})
	if said, status := p.operate(t, "tasks", "list"); status != succeeded || strings.Count(said, "\n") != 1 {
		t.Errorf("the tasks are %s", said)
	}
	if got := p.metric(t, "dovetail_store_usable"); len(got) > 0 {
		t.Errorf("the store is %v", got)
	}
}

// TestAdminNeedsItsToken: no other token opens the routes of operators, and theirs opens no other.
func TestAdminNeedsItsToken(t *testing.T) {
	p := start(t)
	for _, token := range append([]string{""}, p.printedTokens(t)[:3]...) {
		for _, path := range []string{"status", "tasks", "sessions", "nothing"} {
			if status, text, err := p.do(t.Context(), token, http.MethodGet, "/admin/"+path, ""); err != nil || status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s %v", path, status, text, err)
			}
		}
	}
	for _, r := range routes {
		if status, text, err := p.do(t.Context(), p.admin, r.method, r.path, r.body); err != nil || status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s %v", r.path, status, text, err)
		}
	}
	p.admin = p.token
	if said, status := p.operate(t, "status"); status != failed || !strings.Contains(said, "does not accept the token") {
		t.Errorf("with a wrong token: %s", said)
	}
	p.admin = ""
	if said, status := p.operate(t, "status"); status != misused || !strings.Contains(said, adminVariable) {
		t.Errorf("without a token: %s", said)
	}
	p.admin = "x"
	for _, line := range [][]string{nil, {"tasks"}, {"tasks", "cancel"}, {"tasks", "list", "x"}, {"sessions", "retry", "x"}, {"webhooks", "list"}, {"status", "x"}} {
		if said, status := p.operate(t, line...); status != misused {
			t.Errorf("%q: %s", line, said)
		}
	}
}

// TestMetricsOfServe: names and attributes are as documented, and have few values.
func TestMetricsOfServe(t *testing.T) {
	p := start(t, "-store", newStore(t))
	for metric, want := range map[string][]string{
		"dovetail_live":                         {""},
		"dovetail_draining":                     {""},
		"dovetail_server_state":                 {`dovetail_server="shelf",state="failed"`, `dovetail_server="shelf",state="idle"`, `dovetail_server="shelf",state="ready"`, `dovetail_server="shelf",state="starting"`, `dovetail_server="shelf",state="stopped"`},
		"dovetail_server_restarts_total":        {`dovetail_server="shelf"`},
		"dovetail_limit_used":                   {`form="tools",limit="calls"`, `form="tools",limit="held_bytes"`, `form="tools",limit="retained_bytes"`, `form="tools",limit="running_tasks"`, `form="tools",limit="sessions"`, `form="tools",limit="subscriptions"`, `form="tools",limit="task_bytes"`},
		"dovetail_limit_max":                    {`form="tools",limit="calls"`, `form="tools",limit="held_bytes"`, `form="tools",limit="retained_bytes"`, `form="tools",limit="running_tasks"`, `form="tools",limit="sessions"`, `form="tools",limit="subscriptions"`, `form="tools",limit="task_bytes"`},
		"dovetail_store_usable":                 {""},
		"dovetail_store_keys_agree":             {""},
		"dovetail_tasks":                        {`state="asking"`, `state="running"`, `state="waiting"`},
		"dovetail_tasks_waiting_age_seconds":    {""},
		"dovetail_task_attempts_total":          {""},
		"dovetail_task_repeated_attempts_total": {""},
		"dovetail_task_lapsed_leases_total":     {""},
		"dovetail_task_abandoned_total":         {""},
	} {
		var got []string
		waittest.Until(t, metric, func() bool {
			got = nil
			for attributes := range p.metric(t, metric) {
				got = append(got, attributes)
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		})
	}
	for attributes := range p.metric(t, "dovetail_store_operation_duration_seconds_count") {
		if !regexp.MustCompile(`^operation="\w+"$`).MatchString(attributes) {
			t.Errorf("the operations of the store have %s", attributes)
		}
	}
	if _, ok := p.metric(t, "dovetail_store_operation_duration_seconds_count")[`operation="create"`]; !ok {
		t.Error("the operations of the store are not counted")
	}
}
