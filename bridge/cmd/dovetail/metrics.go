package main

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Attributes of metrics. Each has few values.
const (
	serverKey    = attribute.Key("dovetail.server") // the alias
	stateKey     = attribute.Key("state")
	limitKey     = attribute.Key("limit")
	formKey      = attribute.Key("form")
	operationKey = attribute.Key("operation")
	errorKey     = attribute.Key("error.type")
)

// serverStates are the values of [bridge.State].Status, and taskStates those of tasks that have not ended.
var (
	serverStates = []string{"idle", "starting", "ready", "failed", "stopped"}
	taskStates   = []string{"waiting", "running", "asking"}
)

// storeBuckets are the bounds of the durations of operations of a store in seconds.
var storeBuckets = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}

// newMeter returns the meter of the program, and the histogram of the operations of the store.
func newMeter(meters metric.MeterProvider) (metric.Meter, metric.Float64Histogram, error) {
	meter := meters.Meter("github.com/dovetail-go/dovetail/bridge/cmd/dovetail")
	operations, err := meter.Float64Histogram("dovetail.store.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Durations of the operations of the store. Those that have failed have an error_type."),
		metric.WithExplicitBucketBoundaries(storeBuckets...))
	return meter, operations, err
}

// observeOperation reports an operation of the store.
func (t *telemetry) observeOperation(ctx context.Context, o store.Operation) {
	attributes := []attribute.KeyValue{operationKey.String(o.Name)}
	if failure := o.Failure(); failure != "" {
		attributes = append(attributes, errorKey.String(failure))
	}
	t.operations.Record(ctx, o.Took.Seconds(), metric.WithAttributes(attributes...))
}

// An instruments makes instruments whose values are read when metrics are.
type instruments struct {
	meter metric.Meter
	all   []metric.Observable
	errs  []error
}

func (i *instruments) gauge(name, unit, description string) metric.Float64Observable {
	made, err := i.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	i.all, i.errs = append(i.all, made), append(i.errs, err)
	return made
}

func (i *instruments) counter(name, description string) metric.Float64Observable {
	made, err := i.meter.Float64ObservableCounter(name, metric.WithDescription(description))
	i.all, i.errs = append(i.all, made), append(i.errs, err)
	return made
}

// observe reports the state of the program whenever metrics are read.
func (t *telemetry) observe(h *hub) error {
	i := &instruments{meter: t.meter}
	live := i.gauge("dovetail.live", "", "1 if the program works, 0 if it does not answer within 5 seconds or cannot write its log.")
	draining := i.gauge("dovetail.draining", "", "1 if the program ends soon, 0 otherwise.")
	states := i.gauge("dovetail.server.state", "", "1 for the state of each server behind, 0 for its other states.")
	restarts := i.counter("dovetail.server.restarts", "How often a server behind was started again.")
	used := i.gauge("dovetail.limit.used", "", "How much of a limit is in use.")
	most := i.gauge("dovetail.limit.max", "", "What may be in use.")
	usable := i.gauge("dovetail.store.usable", "", "1 if the store can be used, 0 otherwise. Absent without a store.")
	agree := i.gauge("dovetail.store.keys.agree", "", "1 if this replica has the keys and tokens of the others, 0 otherwise. Absent if that is not known.")
	tasks := i.gauge("dovetail.tasks", "", "Tasks of all replicas that have not ended. At most 1,000 are counted. Absent if the store cannot be read.")
	waited := i.gauge("dovetail.tasks.waiting.age", "s", "How long the task has waited for a worker that has waited for the longest time; 0 if none waits.")
	attempts := i.counter("dovetail.task.attempts", "Attempts to run a task that were begun here.")
	repeated := i.counter("dovetail.task.repeated.attempts", "Attempts here after one that has ended without an outcome.")
	lapsed := i.counter("dovetail.task.lapsed.leases", "Leases of silent replicas that were found here.")
	abandoned := i.counter("dovetail.task.abandoned", "Tasks that have failed here without the outcome of their function.")
	if err := errors.Join(i.errs...); err != nil {
		return err
	}
	_, err := t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		is := func(of metric.Float64Observable, value bool, attributes ...attribute.KeyValue) {
			number := 0.0
			if value {
				number = 1
			}
			o.ObserveFloat64(of, number, metric.WithAttributes(attributes...))
		}
		is(live, !h.live.isWedged(ctx, scrapeTimeout))
		is(draining, h.draining.Load())
		for _, s := range h.bridge.States() {
			for _, state := range serverStates {
				is(states, s.Status == state, serverKey.String(s.Alias), stateKey.String(state))
			}
			o.ObserveFloat64(restarts, float64(s.Restarts), metric.WithAttributes(serverKey.String(s.Alias)))
		}
		var all server.Stats
		for _, form := range h.forms {
			ofEndpoint, ofServer := form.endpoint.Stats(), form.server.Stats()
			for name, usage := range map[string]transport.Usage{
				"sessions": ofEndpoint.Sessions, "calls": ofEndpoint.Calls, "subscriptions": ofEndpoint.Subscriptions, "held_bytes": ofEndpoint.HeldBytes,
				"retained_bytes": ofServer.Retained, "task_bytes": ofServer.TaskBytes, "running_tasks": ofServer.RunningTasks,
			} {
				if usage.Max == 0 { // there is no limit, or nothing that it limits yet
					continue
				}
				limit := metric.WithAttributes(limitKey.String(name), formKey.String(form.name))
				o.ObserveFloat64(used, float64(usage.Used), limit)
				o.ObserveFloat64(most, float64(usage.Max), limit)
			}
			all.TaskAttempts += ofServer.TaskAttempts
			all.RepeatedAttempts += ofServer.RepeatedAttempts
			all.LapsedLeases += ofServer.LapsedLeases
			all.AbandonedTasks += ofServer.AbandonedTasks
		}
		o.ObserveFloat64(attempts, float64(all.TaskAttempts))
		o.ObserveFloat64(repeated, float64(all.RepeatedAttempts))
		o.ObserveFloat64(lapsed, float64(all.LapsedLeases))
		o.ObserveFloat64(abandoned, float64(all.AbandonedTasks))
		if h.store != nil {
			checked := h.checkStore(ctx)
			is(usable, checked.Status == "reachable")
			if checked.Keys != "unknown" {
				is(agree, checked.Keys == "agree")
			}
			if checked.Status == "unreachable" {
				return nil
			}
		}
		counts, oldest, err := h.forms.countTasks(ctx)
		if err != nil { // the store has failed since
			return nil
		}
		for _, state := range taskStates {
			o.ObserveFloat64(tasks, float64(counts[state]), metric.WithAttributes(stateKey.String(state)))
		}
		o.ObserveFloat64(waited, oldest.Seconds())
		return nil
	}, i.all...)
	return err
}
