//go:build soak

package alerts

import (
	"context"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
)

func TestMain(m *testing.M) {
	if lacks := os.Getenv(asBehind); lacks != "" {
		if serveBehind(lacks) != nil {
			os.Exit(1)
		}
		return
	}
	if err := flag.Set("test.parallel", "4"); err != nil { // some tests wait for leases
		panic(err)
	}
	os.Exit(m.Run())
}

// A scenario is a fault, and the alerts that it fires.
type scenario struct {
	name  string
	store bool // replicas share one
	// prepare starts the replicas. fault returns when the fault has happened, and mend when it was mended; it may be nil if that is not
	// possible.
	prepare, fault, mend func(r *rig)
	// during is called before each round while the fault lasts, which is 12 minutes unless lasts says otherwise: the longest time
	// for which a condition must hold is 10 minutes.
	during func(r *rig, round int)
	lasts  time.Duration
	// fires are the alerts, each with a space and the instance if it has one.
	fires []string
	// after is called when all alerts have ended, and fires none.
	after func(r *rig)
}

const (
	// healthy is how long no alert may fire before the fault, and after the last one has ended.
	healthy = 3 * time.Minute
	// longest is how long the fault lasts by default.
	longest = 12 * time.Minute
	// ending is how long alerts may fire after the fault was mended. Some rules look at the last 30 minutes.
	ending = 45 * time.Minute
)

func scenarios() []scenario {
	return []scenario{
		{
			name: "none", store: true, lasts: 40 * time.Minute,
			prepare: func(r *rig) {
				r.start("a")
				r.start("b").approve("put")
			},
			fault: func(*rig) {},
			during: func(r *rig, round int) {
				a, b := r.replicas["a"], r.replicas["b"]
				for _, p := range []*replica{a, b} {
					if status, err := p.call(r.t.Context(), "look"); err != nil || status != http.StatusOK {
						r.t.Errorf("%s: the call gets %d %v", p.name, status, err)
					}
				}
				if round != 5 && round != 25 {
					return
				}
				for caller := range r.callers { // tasks that end, and one that a restart of its replica hands back
					a.begin(caller, "put", "put")
				}
				if round == 5 {
					a.begin(0, "stay", "stayed")
				}
				a.terminate()
				a.run()
			},
		},
		{
			name:    "a replica is killed",
			prepare: func(r *rig) { r.start("a"); r.start("b") },
			fault:   func(r *rig) { r.replicas["b"].kill() },
			mend:    func(r *rig) { r.replicas["b"].run() },
			fires:   []string{"DovetailDown b"},
		},
		{
			name:    "the key of Prometheus has ended",
			prepare: func(r *rig) { r.start("a") },
			fault: func(r *rig) {
				now := r.newKeys()
				waittest.Until(r.t, "the end of the key", func() bool {
					_, err := r.replicas["a"].metrics(r.t.Context(), r.scraper, scrapeTimeout)
					return err != nil
				})
				r.scraper = now
			},
			mend:  func(r *rig) { r.targets[0].token = r.scraper },
			fires: []string{"DovetailDown a"},
		},
		{
			name: "the log is not read",
			prepare: func(r *rig) {
				a := r.newReplica("a")
				a.unread = true
				a.run()
				r.scrapes("a", a, r.scraper)
			},
			fault: func(r *rig) {
				a := r.replicas["a"]
				waittest.Until(r.t, "a wedged program", func() bool {
					ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
					defer cancel()
					_, _ = a.call(ctx, "look") // each call writes lines, until one waits
					live, ok := a.value("dovetail_live")
					return ok && live == 0
				})
			},
			mend: func(r *rig) {
				r.replicas["a"].goOn()
				r.replicas["a"].until(1, "dovetail_live")
			},
			fires: []string{"DovetailWedged a"},
		},
		{
			name:    "a replica drains for too long",
			prepare: func(r *rig) { r.start("a", "-drain", "1h") },
			fault: func(r *rig) {
				r.replicas["a"].signal(syscall.SIGTERM)
				r.replicas["a"].until(1, "dovetail_draining")
			},
			mend: func(r *rig) { // the second signal ends it
				r.replicas["a"].terminate()
				r.replicas["a"].run()
			},
			fires: []string{"DovetailDraining a"},
		},
		{
			name: "the store is stopped", store: true,
			prepare: func(r *rig) { r.start("a"); r.start("b") },
			fault:   func(r *rig) { r.store.stop() },
			mend: func(r *rig) {
				r.store.start()
				for _, p := range r.replicas {
					p.until(1, "dovetail_store_usable")
				}
			},
			fires: []string{"DovetailStoreFailing a", "DovetailStoreFailing b", "DovetailStoreUnusable a", "DovetailStoreUnusable b"},
		},
		{
			name: "the store is slow", store: true,
			prepare: func(r *rig) { r.start("a") },
			fault:   func(r *rig) { r.store.proxy.delays(300 * time.Millisecond) },
			mend:    func(r *rig) { r.store.proxy.delays(0) },
			fires:   []string{"DovetailStoreSlow a"},
		},
		{
			name: "operations of the store fail", store: true,
			prepare: func(r *rig) { r.start("a") },
			fault:   func(r *rig) { r.store.proxy.cuts("kv:sessions/") },
			during: func(r *rig, _ int) {
				if status, err := r.replicas["a"].initialize(); err != nil || status != http.StatusServiceUnavailable {
					r.t.Errorf("a session is opened with %d %v", status, err)
				}
			},
			mend:  func(r *rig) { r.store.proxy.cuts("") },
			fires: []string{"DovetailStoreFailing a"},
		},
		{
			name: "the store is emptied", store: true,
			prepare: func(r *rig) { r.start("a"); r.start("b") },
			fault:   func(r *rig) { r.store.wipe() },
			mend: func(r *rig) { // all replicas start again, and make new tokens
				for _, p := range r.replicas {
					p.terminate()
				}
				for _, p := range r.replicas {
					p.run()
				}
			},
			fires: []string{"DovetailKeysDiffer a", "DovetailKeysDiffer b"},
		},
		{
			name: "the program of a server is missing",
			prepare: func(r *rig) {
				r.link("server")
				r.write("a.json", r.behind(r.path("server"), "no"))
				r.start("a")
			},
			fault: func(r *rig) {
				if err := os.Remove(r.path("server")); err != nil {
					r.t.Fatal(err)
				}
				r.replicas["a"].crash()
				r.replicas["a"].until(5, "dovetail_server_restarts_total")
			},
			mend: func(r *rig) {
				r.link("server")
				r.replicas["a"].untilState("ready")
			},
			fires: []string{"DovetailServerFailed a"},
		},
		{
			name: "a server ends again and again", lasts: 40 * time.Minute,
			prepare: func(r *rig) { r.start("a") },
			fault:   func(*rig) {},
			during: func(r *rig, round int) {
				if round%12 == 0 { // each 6 minutes
					r.replicas["a"].crash()
					r.replicas["a"].untilState("ready")
				}
			},
			fires: []string{"DovetailServerRestarts a"},
			mend:  func(*rig) {},
		},
		{
			name:    "nearly all workers wait for a person",
			prepare: func(r *rig) { r.start("a", "-max-tasks", "10") },
			fault: func(r *rig) {
				for i := range 10 {
					r.replicas["a"].begin(i%2, "put", "put")
				}
				r.replicas["a"].until(10, "dovetail_limit_used", "limit", "running_tasks")
			},
			mend: func(r *rig) {
				r.replicas["a"].approve()
				r.replicas["a"].untilNoTasks()
			},
			fires: []string{"DovetailLimitNear a"},
		},
		{
			name:    "a task waits for a worker",
			prepare: func(r *rig) { r.start("a", "-max-tasks", "2") },
			fault: func(r *rig) {
				for caller := range 3 {
					r.replicas["a"].begin(caller, "put", "put")
				}
				r.replicas["a"].until(1, "dovetail_tasks", "state", "waiting")
			},
			mend: func(r *rig) {
				r.replicas["a"].approve()
				r.replicas["a"].untilNoTasks()
			},
			fires: []string{"DovetailLimitNear a", "DovetailTasksWait"},
		},
		{
			name: "a replica is killed while it runs tasks", store: true,
			prepare: func(r *rig) {
				r.beginAt(r.start("a"), 12)
				r.start("b")
			},
			fault: func(r *rig) {
				r.replicas["a"].kill()
				r.replicas["b"].until(1, "dovetail_task_abandoned_total")
				r.replicas["b"].until(13, "dovetail_task_repeated_attempts_total")
			},
			mend: func(r *rig) {
				r.replicas["a"].run()
				r.replicas["b"].approve()
				r.replicas["b"].untilNoTasks()
			},
			fires: []string{"DovetailDown a", "DovetailLeasesLapse b", "DovetailTasksAbandoned b", "DovetailTasksRepeat b"},
		},
		{
			name: "a replica is stopped while it runs a task", store: true, lasts: 3 * time.Minute,
			prepare: func(r *rig) {
				r.timeout = 3 * time.Second // the replica does not answer
				r.beginAt(r.start("a"), 0)
				r.start("b")
			},
			fault: func(r *rig) {
				r.replicas["a"].signal(syscall.SIGSTOP)
				r.replicas["b"].until(1, "dovetail_task_abandoned_total")
			},
			mend: func(r *rig) {
				r.replicas["a"].signal(syscall.SIGCONT)
				r.timeout = scrapeTimeout
				r.replicas["a"].until(1, "dovetail_live")
			},
			fires: []string{"DovetailDown a", "DovetailLeasesLapse b", "DovetailTasksAbandoned b"},
		},
		{
			// The counters of the replica that finds the task have their values when it is scraped for the first time.
			name: "a replica is killed, and a new one finds its task", store: true,
			prepare: func(r *rig) { r.beginAt(r.start("a"), 0) },
			fault: func(r *rig) {
				r.replicas["a"].kill()
				r.forgets("a")
				b := r.newReplica("b")
				b.run()
				b.until(1, "dovetail_task_abandoned_total")
				r.scrapes("b", b, r.scraper)
			},
			mend:  func(*rig) {},
			fires: []string{"DovetailLeasesLapse b", "DovetailTasksAbandoned b"},
			after: func(r *rig) { // Prometheus does not reach the replica for a while, and takes nothing in it for new
				r.forgets("b")
				r.pass(10*time.Minute, nil)
				r.scrapes("b", r.replicas["b"], r.scraper)
				if fired, _ := r.pass(time.Hour, nil); len(fired) > 0 {
					r.t.Errorf("after a pause without scrapes, %v have fired", fired)
				}
			},
		},
		{
			name: "a restart interrupts a call", store: true,
			prepare: func(r *rig) {
				r.beginAt(r.start("a"), 0)
				r.start("b")
			},
			fault: func(r *rig) {
				a := r.replicas["a"]
				a.terminate()
				r.replicas["b"].until(1, "dovetail_task_abandoned_total")
				a.run()
			},
			mend:  func(*rig) {},
			fires: []string{"DovetailTasksAbandoned b"},
		},
		{
			name: "a replica lacks a tool", store: true,
			prepare: func(r *rig) {
				r.start("a").approve()
				r.write("b.json", r.behind(os.Args[0], "put"))
				r.start("b")
			},
			fault: func(r *rig) {
				a, b := r.replicas["a"], r.replicas["b"]
				a.await("attempts that b has handed back", func() bool {
					for i := range 12 {
						a.begin(i%len(r.callers), "put", "put")
					}
					a.untilNoTasks()
					atA, _ := a.value("dovetail_task_repeated_attempts_total")
					atB, _ := b.value("dovetail_task_repeated_attempts_total")
					return min(atA, atB) > 12
				})
			},
			mend: func(r *rig) {
				b := r.replicas["b"]
				r.write("b.json", r.behind(os.Args[0], "no"))
				b.terminate()
				b.run()
			},
			fires: []string{"DovetailTasksRepeat a", "DovetailTasksRepeat b"},
		},
	}
}

// TestAlertsFire: each fault fires exactly its alerts, and they end after it was mended.
func TestAlertsFire(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal(err)
	}
	program := build(t)
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.test(newRig(t, program, s.store))
		})
	}
}

func (s *scenario) test(r *rig) {
	t := r.t
	s.prepare(r)
	if fired, _ := r.pass(healthy, nil); len(fired) > 0 {
		t.Fatalf("without a fault, %v have fired", fired)
	}
	s.fault(r)
	lasts := s.lasts
	if lasts == 0 {
		lasts = longest
	}
	fired, firing := r.pass(lasts, func(round int) {
		if s.during != nil {
			s.during(r, round)
		}
	})
	if !slices.Equal(fired, s.fires) || !slices.Equal(firing, s.fires) {
		t.Fatalf("%v have fired, and %v fire at the end, want %v", fired, firing, s.fires)
	}
	if s.mend == nil {
		return
	}
	s.mend(r)
	end := r.now.Add(ending)
	for firing := s.fires; len(firing) > 0; {
		if fired, firing = r.pass(interval, nil); r.now.After(end) {
			t.Fatalf("%v after it was mended, %v fire", ending, firing)
		}
		for _, alert := range fired {
			if !slices.Contains(s.fires, alert) {
				t.Fatalf("after it was mended, %s has fired", alert)
			}
		}
	}
	if fired, _ := r.pass(ending, nil); len(fired) > 0 {
		t.Errorf("after all alerts had ended, %v have fired", fired)
	}
	if s.after != nil {
		s.after(r)
	}
}

// TestEachRuleIsFired: there is a scenario for each rule.
func TestEachRuleIsFired(t *testing.T) {
	var fired []string
	for _, s := range scenarios() {
		for _, alert := range s.fires {
			name, _, _ := strings.Cut(alert, " ")
			fired = append(fired, name)
		}
		if !slices.IsSorted(s.fires) {
			t.Errorf("the alerts of %q are not sorted", s.name)
		}
	}
	m := newMonitor(t)
	if len(m.group.AlertingRules()) == 0 {
		t.Error("there are no rules")
	}
	for _, rule := range m.group.AlertingRules() {
		if !slices.Contains(fired, rule.Name()) {
			t.Errorf("no scenario fires %s", rule.Name())
		}
	}
}

// build builds dovetail.
func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dovetail")
	command := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, ".")
	command.Dir = "../../bridge/cmd/dovetail"
	command.Env = append(os.Environ(), "GOWORK=")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return path
}

// link makes the test binary a program of the folder.
func (r *rig) link(name string) {
	r.t.Helper()
	if err := os.Symlink(os.Args[0], r.path(name)); err != nil {
		r.t.Fatal(err)
	}
}

// beginAt creates tasks at p, which is the only replica then. The function of one runs. The others wait for approval.
func (r *rig) beginAt(p *replica, waiting int) {
	r.t.Helper()
	for i := range waiting {
		p.begin(i%len(r.callers), "put", "put")
	}
	p.begin(0, "stay", "stayed")
	stop := p.approve("stay")
	defer stop()
	r.untilStayed("stayed")
	p.until(float64(waiting+1), "dovetail_tasks", "state", "running")
}
