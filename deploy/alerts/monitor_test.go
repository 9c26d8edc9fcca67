//go:build soak

package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

const (
	// rulesFile has the rules.
	rulesFile = "../prometheus/rules.yaml"
	// interval is the time between two scrapes, and between two evaluations of the rules.
	interval = 30 * time.Second
	// scrapeTimeout is how long Prometheus waits for metrics by default.
	scrapeTimeout = 10 * time.Second
)

// A monitor scrapes targets and evaluates the rules as Prometheus does, with a clock of its own: a round is 30 seconds after the one
// before, however long that has taken. So half an hour passes in seconds.
type monitor struct {
	t       testing.TB
	storage *tsdb.DB
	group   *rules.Group
	now     time.Time
	targets []*target
	timeout time.Duration // of a scrape
}

// A target is a replica that is scraped.
type target struct {
	instance string
	replica  *replica
	token    string
	gone     bool                     // it is no target from the next round on
	series   map[uint64]labels.Labels // with a value in the last round
}

// loadRules loads the rules, which query storage.
func loadRules(t testing.TB, queryable storage.Queryable, appendable storage.Appendable) *rules.Group {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	engine := promql.NewEngine(promql.EngineOpts{Logger: logger, MaxSamples: 1_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true})
	t.Cleanup(func() { _ = engine.Close() })
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, queryable), Queryable: queryable, Appendable: appendable, Context: t.Context(), Logger: logger,
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, ExternalURL: &url.URL{},
	})
	groups, errs := manager.LoadGroups(interval, labels.EmptyLabels(), "", nil, false, rulesFile)
	if len(errs) > 0 || len(groups) != 1 {
		t.Fatalf("the rules are %d groups: %v", len(groups), errors.Join(errs...))
	}
	for _, group := range groups {
		return group
	}
	return nil
}

func newMonitor(t testing.TB) *monitor {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	db.DisableCompactions()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return &monitor{t: t, storage: db, group: loadRules(t, db, db), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), timeout: scrapeTimeout}
}

// scrapes makes a replica a target.
func (m *monitor) scrapes(instance string, r *replica, token string) {
	m.targets = append(m.targets, &target{instance: instance, replica: r, token: token})
}

// forgets makes a replica no target any more.
func (m *monitor) forgets(instance string) {
	for _, of := range m.targets {
		of.gone = of.gone || of.instance == instance
	}
}

// round scrapes all targets, evaluates the rules, and returns the alerts that fire.
func (m *monitor) round() map[string]*rules.Alert {
	m.t.Helper()
	m.now = m.now.Add(interval)
	app := m.storage.Appender(m.t.Context())
	for _, of := range m.targets {
		if of.gone {
			of.store(m, app, nil)
			continue
		}
		text, err := of.replica.metrics(m.t.Context(), of.token, m.timeout)
		if err != nil {
			text = ""
		}
		samples, err := parse(text)
		if err != nil {
			m.t.Fatalf("the metrics of %s: %v", of.instance, err)
		}
		up := 0.0
		if text != "" {
			up = 1
		}
		of.store(m, app, append(samples, sample{labels.FromStrings(labels.MetricName, "up"), up}))
	}
	m.targets = slices.DeleteFunc(m.targets, func(of *target) bool { return of.gone })
	if err := app.Commit(); err != nil {
		m.t.Fatal(err)
	}
	m.group.Eval(m.t.Context(), m.now)
	firing := make(map[string]*rules.Alert)
	for _, rule := range m.group.AlertingRules() {
		if err := rule.LastError(); err != nil {
			m.t.Fatalf("%s: %v", rule.Name(), err)
		}
		for _, alert := range rule.ActiveAlerts() {
			if alert.State != rules.StateFiring {
				continue
			}
			if summary := alert.Annotations.Get("summary"); summary == "" || strings.ContainsAny(summary, "<{") {
				m.t.Errorf("%s says %q", rule.Name(), summary)
			}
			firing[strings.TrimSpace(rule.Name()+" "+alert.Labels.Get("instance"))] = alert
		}
	}
	return firing
}

// pass lets a time pass and returns the alerts that have fired in it, with those that fire at its end.
func (m *monitor) pass(d time.Duration, each func(round int)) (fired, firing []string) {
	m.t.Helper()
	all := make(map[string]*rules.Alert)
	var last map[string]*rules.Alert
	for round := range int(d / interval) {
		if each != nil {
			each(round)
		}
		last = m.round()
		maps.Copy(all, last)
	}
	return slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(last))
}

// A sample is a series and its value.
type sample struct {
	metric labels.Labels
	value  float64
}

// parse reads metrics in the text format.
func parse(text string) (samples []sample, err error) {
	parser := textparse.NewPromParser([]byte(text), labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := parser.Series()
		var metric labels.Labels
		parser.Labels(&metric)
		samples = append(samples, sample{metric, v})
	}
}

// store stores the samples of a round, and marks the series that have ended as stale.
func (of *target) store(m *monitor, app storage.Appender, samples []sample) {
	m.t.Helper()
	put := func(metric labels.Labels, v float64) {
		if _, err := app.Append(0, metric, timestamp.FromTime(m.now), v); err != nil {
			m.t.Fatalf("%v of %s: %v", metric, of.instance, err)
		}
	}
	now := make(map[uint64]labels.Labels, len(samples))
	for _, s := range samples {
		metric := labels.NewBuilder(s.metric).Set("job", "dovetail").Set("instance", of.instance).Labels()
		put(metric, s.value)
		now[metric.Hash()] = metric
	}
	for hash, metric := range of.series {
		if _, ok := now[hash]; !ok {
			put(metric, math.Float64frombits(value.StaleNaN))
		}
	}
	of.series = now
}

// metrics returns the metrics of the replica as text.
func (r *replica) metrics(ctx context.Context, token string, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, text, err := r.do(ctx, token, http.MethodGet, "/metrics", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	return string(text), err
}

// value returns the sum of the series of a metric that have some labels, which are names and values, and false if there is none.
func (r *replica) value(name string, matching ...string) (sum float64, ok bool) {
	text, err := r.metrics(r.rig.t.Context(), r.rig.scraper, scrapeTimeout)
	if err != nil {
		return 0, false
	}
	samples, err := parse(text)
	if err != nil {
		r.rig.t.Fatal(err)
	}
	for _, s := range samples {
		matches := s.metric.Get(labels.MetricName) == name
		for i := 0; i < len(matching); i += 2 {
			matches = matches && s.metric.Get(matching[i]) == matching[i+1]
		}
		if matches {
			sum, ok = sum+s.value, true
		}
	}
	return sum, ok
}
