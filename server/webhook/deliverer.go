package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/netguard"
	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
	"github.com/dovetail-go/dovetail/transport/store"
	"golang.org/x/sync/errgroup"
)

const (
	// keepAlive is how long an idle connection to an endpoint is kept.
	keepAlive = 30 * time.Second
	// wakeCalls is how many subscriptions Wake changes at a time.
	wakeCalls = 32
	// pushAgain is how long a job may be in the queue after it may run, before Wake adds it again, in
	// case that a replica ended before it had added the job. The queue ignores it if it has the job.
	pushAgain = 5 * time.Second
	// queuedDue is how long a job may be in the queue after it may run, before it counts as lost.
	queuedDue = 5 * time.Minute
	// dropAfter is how long a subscription without expiry may be suspended.
	dropAfter = 7 * 24 * time.Hour
)

// A deliverer keeps webhook subscriptions and delivers events to their callback URLs.
type deliverer struct {
	options    Options
	own        store.Store // if Options.Store is nil
	store      store.Store
	records    records
	guard      *netguard.Guard
	client     *http.Client // of guard
	index      *index
	principals *limiter
	hosts      *limiter
	pairs      *limiter        // of a principal and a host; bounds verifications only
	source     delivery.Source // set by Run
	worker     state.Worker    // set by Run
}

var _ delivery.Deliverer = (*deliverer)(nil)

// New returns a [delivery.Deliverer], which keeps webhook subscriptions and delivers events to their callback URLs. The
// server calls its methods, concurrently. opts may be nil. It returns an error for an invalid option.
func New(opts *Options) (delivery.Deliverer, error) {
	options, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &deliverer{
		options: options, store: options.Store, index: newIndex(),
		principals: newLimiter((options.Deliveries+1)/2, principalVerifications),
		hosts:      newLimiter(options.DeliveriesPerHost, hostVerifications),
		pairs:      newLimiter(0, sharedVerifications),
	}
	if d.store == nil {
		if d.own, err = store.NewMemory(nil); err != nil {
			return nil, err
		}
		d.store = d.own
	}
	var key *state.Key // nil for the store in memory, which needs none
	if len(options.Keys) > 0 {
		ring, err := token.NewRing(options.Keys...)
		if err != nil {
			return nil, fmt.Errorf("webhook: Options.Keys: %w", err)
		}
		key = state.FixedKey(ring)
	}
	d.records = newRecords(d.store, key)
	d.guard = netguard.New(&netguard.Options{
		AllowLoopback: options.AllowLoopback, Allow: options.Allow, Resolver: options.Resolver, TLS: options.TLS,
		Timeout: options.Timeout, KeepAlive: keepAlive,
		MaxBody: math.MaxInt64 - 1, // a long response is cut, and its status counts
	})
	d.client = d.guard.Client()
	d.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return d, nil
}

// Retain counts the subscriptions of all replicas, which each replica keeps in memory, among what clients leave behind.
// The server calls it before all other methods.
func (d *deliverer) Retain(r *quota.Retained) { d.index.retained = r }

// Run delivers until ctx ends, and waits for the deliveries in progress, each of which may take
// [Options].Timeout. While the store cannot be reached, it tries again. It is called once, and
// returns nil.
func (d *deliverer) Run(ctx context.Context, source delivery.Source) error {
	d.source = source
	d.worker = state.Worker{
		Queue: d.store, Name: queueName, Max: d.options.Deliveries,
		Do: func(job *store.Job) { d.work(ctx, job) }, Logger: d.options.Logger,
	}
	var running errgroup.Group
	running.Go(func() error { d.watch(ctx); return nil })
	running.Go(func() error { d.sweepRegularly(ctx); return nil })
	running.Go(func() error { d.worker.Work(ctx); return nil })
	err := running.Wait()
	d.guard.Close()
	if d.own != nil {
		err = errors.Join(err, d.own.Close())
	}
	return err
}

// A jobData says which subscription a job is for. Its id is in the data too, since an
// implementation of the store may change ids.
type jobData struct {
	Subscription string `json:"subscription"`
	Job          string `json:"job"`
}

// Wake makes the source read for the subscriptions to an event for which match returns true. match
// may be nil, which matches all. Call it after the event can be read from the source. It returns
// an error if a subscription could not be woken; that one is read at the next sweep.
func (d *deliverer) Wake(ctx context.Context, event string, match func(*delivery.Subscription) bool) error {
	var calls errgroup.Group
	calls.SetLimit(wakeCalls)
	for _, sub := range d.index.of(event, time.Now()) {
		if match == nil || match(sub) {
			calls.Go(func() error { return d.wake(ctx, sub) })
		}
	}
	return calls.Wait()
}

// wake adds a job for a subscription, unless there is one that has not begun to read.
func (d *deliverer) wake(ctx context.Context, sub *delivery.Subscription) error {
	push := ""
	found, err := d.records.changeProgress(ctx, sub.ID, sub.Expires, func(st *progress) (err error) {
		push, err = st.wake(time.Now())
		return err
	})
	if err != nil || push == "" {
		if err == nil && !found {
			d.index.remove(sub.ID)
		}
		return err
	}
	return d.push(ctx, sub.ID, push)
}

func (d *deliverer) push(ctx context.Context, id, job string) error {
	data, err := json.Marshal(jobData{Subscription: id, Job: job})
	if err != nil {
		return err
	}
	if err := d.store.Push(ctx, queueName, job, data); err != nil {
		return fmt.Errorf("webhook: adding a delivery: %w", err)
	}
	return nil
}

// wake records that there may be new events. It returns the id of a job to add to the queue, or
// [state.ErrUnchanged], or both.
func (s *progress) wake(now time.Time) (job string, err error) {
	lost := s.Job != "" && now.After(s.Due)
	switch {
	case !s.Suspended.IsZero():
		return "", state.ErrUnchanged
	case s.Job == "" || lost:
	case s.Run != "":
		if s.Again {
			return "", state.ErrUnchanged
		}
		s.Again = true
		return "", nil
	case s.Attempts > 0 || s.Ended || !now.Before(s.NotBefore):
		if now.After(s.Due.Add(pushAgain - queuedDue)) {
			job = s.Job
		}
		return job, state.ErrUnchanged // the job will run, or waits for the next attempt
	}
	s.Job, s.Run, s.Again = rand.Text(), "", false
	s.Due = now.Add(queuedDue)
	if s.Attempts == 0 {
		s.NotBefore = time.Time{}
	}
	return s.Job, nil
}

// sweepRegularly wakes all subscriptions from time to time. Of the replicas, one does it.
func (d *deliverer) sweepRegularly(ctx context.Context) {
	timer := time.NewTicker(d.options.Sweep)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		// The turn ends a little before the next tick, which may be early.
		_, err := d.store.Create(ctx, sweepKey, []byte{1}, d.options.Sweep*9/10)
		switch {
		case err == nil:
			d.sweep(ctx)
		case ctx.Err() == nil && !errors.Is(err, store.ErrExists):
			d.options.Logger.Error("subscriptions cannot be read from the store", "error", err)
		}
	}
}

func (d *deliverer) sweep(ctx context.Context) {
	var calls errgroup.Group
	calls.SetLimit(wakeCalls)
	for _, sub := range d.index.all(time.Now()) {
		calls.Go(func() error {
			err := d.wake(ctx, sub)
			if err == nil && sub.Expires.IsZero() {
				err = d.dropDead(ctx, sub)
			}
			if err != nil && ctx.Err() == nil {
				d.options.Logger.Error("a subscription cannot be read for delivery", "subscription", sub.ID, "error", err)
			}
			return nil
		})
	}
	_ = calls.Wait() // the functions return nil
}

// dropDead ends a subscription without expiry that was suspended for a long time.
func (d *deliverer) dropDead(ctx context.Context, sub *delivery.Subscription) error {
	rec, err := d.records.progress(ctx, sub.ID)
	if err != nil || rec == nil || rec.Value.Suspended.IsZero() || time.Since(rec.Value.Suspended) < dropAfter {
		return err
	}
	return d.Terminate(ctx, sub.ID, json.RawMessage(`{"code":-32027,"message":"The callback endpoint accepts no deliveries"}`))
}

// watch keeps the index up to date.
func (d *deliverer) watch(ctx context.Context) {
	pause := backoff.Backoff{}
	for ctx.Err() == nil {
		for change, err := range d.records.subscriptions.Watch(ctx, subscriptionsPrefix) {
			if err != nil {
				if ctx.Err() == nil {
					d.options.Logger.Error("subscriptions cannot be read from the store", "error", err)
				}
				continue
			}
			pause.Reset()
			id := change.Key[min(len(change.Key), len(subscriptionsPrefix)+1):]
			if change.Record == nil {
				d.index.remove(id)
			} else {
				d.index.add(&change.Record.Value.Subscription)
			}
		}
		_ = pause.Wait(ctx) // the loop ends with ctx
	}
}
