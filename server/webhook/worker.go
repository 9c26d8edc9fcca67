package webhook

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
	"github.com/dovetail-go/dovetail/server/webhook/delivery"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// sourceTimeouts times [Options].Timeout bounds one call of the source.
	sourceTimeouts = 2
	// runTimeouts times [Options].Timeout is how long a worker may need from one change of the progress to
	// the next, before it counts as lost. An attempt begins only if half of that is left: the other
	// half is for a call of the source, and for differences between the clocks of replicas.
	runTimeouts = 6
	// sourcePause is the pause after an error of the source, before jitter.
	sourcePause = 10 * time.Second
	// longestPause bounds the pause between attempts, before jitter.
	longestPause = 5 * time.Minute
	// busyWait is how long a job waits for a slot of its principal and one of its host, before another
	// job gets its turn.
	busyWait = 250 * time.Millisecond
	// maxRun is how long one subscription is delivered to, before others get their turn.
	maxRun = 10 * time.Second
	// extendAfter is how old the lease of a job may be. It is shorter than any lease by default.
	extendAfter = 5 * time.Second
	// maxBatch is how many events of a batch are delivered.
	maxBatch = 100
	// suspendAttempts is how many attempts must have failed before deliveries are suspended.
	suspendAttempts = 20
)

var (
	// errLost means that another worker has the subscription, or that it does not exist any more.
	errLost = errors.New("webhook: the subscription is delivered to by another worker")
	// errPaused means that the run has ended and the job was returned or acknowledged.
	errPaused = errors.New("webhook: the run has ended")
)

// A run delivers to one subscription.
type run struct {
	d        *deliverer
	job      *store.Job
	sub      *subscription
	id       string
	record   *state.Record[progress]
	extended time.Time // when the lease of the job began
	ended    time.Time // when other subscriptions get their turn
}

// work runs a job. What it has begun to send it finishes when ctx ends.
func (d *deliverer) work(stop context.Context, job *store.Job) {
	ctx := context.WithoutCancel(stop)
	var data jobData
	if err := json.Unmarshal(job.Data, &data); err != nil {
		d.options.Logger.Error("a delivery in the store is malformed")
		d.worker.Finish(job)
		return
	}
	now := time.Now()
	sub, err := d.records.subscription(ctx, data.Subscription)
	if err != nil {
		d.fail(stop, data.Subscription, err)
		return
	}
	if sub == nil {
		d.worker.Finish(job)
		return
	}
	r := &run{d: d, job: job, sub: &sub.Value, id: rand.Text(), extended: now, ended: now.Add(maxRun)}
	waiting, cancel := context.WithTimeout(stop, busyWait)
	release, ok := d.acquire(waiting, r.sub)
	cancel()
	if !ok {
		pause := backoff.Backoff{Min: busyWait}
		delay := pause.Next()
		d.worker.HandBack(job, delay)
		return
	}
	defer release()
	claimed, err := r.claim(ctx, data.Job)
	if err == nil && claimed {
		err = r.deliver(stop, ctx)
	}
	if err != nil && !errors.Is(err, errPaused) && !errors.Is(err, errLost) {
		d.fail(stop, data.Subscription, err)
	}
}

// acquire waits until ctx ends for a slot of the principal of a subscription and one of its host. If
// ok, the caller must call release.
func (d *deliverer) acquire(ctx context.Context, sub *subscription) (release func(), ok bool) {
	leavePrincipal, ok := d.principals.acquire(ctx, sub.Principal)
	if !ok {
		return nil, false
	}
	// A job that waits for a slot of its principal must not hold one of a host that others use.
	leaveHost, ok := d.hosts.acquire(ctx, hostOf(sub.URL))
	if !ok {
		leavePrincipal()
		return nil, false
	}
	return func() { leaveHost(); leavePrincipal() }, true
}

// fail reports that a job was left as it is. The store delivers it again after its lease.
func (d *deliverer) fail(stop context.Context, id string, err error) {
	if stop.Err() == nil {
		d.options.Logger.Error("a delivery is interrupted, and continues later", "subscription", id, "error", err)
	}
}

// runTime is how long a worker may need from one change of the progress to the next.
func (d *deliverer) runTime() time.Duration { return runTimeouts * d.options.Timeout }

// Reasons for which a run does not become the worker of its subscription.
var (
	errObsolete = errors.New("webhook: the subscription has another job")
	errTooEarly = errors.New("webhook: the job must wait")
)

// claim makes the run the worker of its subscription. claimed is false if the job is obsolete or
// must wait. This worker then no longer owns the job.
func (r *run) claim(ctx context.Context, job string) (claimed bool, err error) {
	var wait time.Duration
	rec, err := r.d.records.states.Update(ctx, stateKey(r.sub.ID), func(rec *state.Record[progress]) error {
		st, now := &rec.Value, time.Now()
		if st.Job != job {
			return errObsolete
		}
		wait = st.NotBefore.Sub(now)
		if st.Run != "" {
			wait = st.Due.Sub(now)
		}
		if wait > 0 {
			return errTooEarly
		}
		st.Run, st.Again, st.Due = r.id, false, now.Add(r.d.runTime())
		rec.Extend(r.sub.Expires)
		return nil
	})
	switch {
	case errors.Is(err, errTooEarly):
		r.d.worker.HandBack(r.job, wait)
		return false, nil
	case errors.Is(err, errObsolete), errors.Is(err, store.ErrNotFound):
		r.d.worker.Finish(r.job)
		return false, nil
	}
	r.record = rec
	return err == nil, err
}

// change changes the progress, if the run is still the worker. The change may be called again with a
// newer one.
func (r *run) change(ctx context.Context, change func(st *progress, now time.Time)) error {
	rec, err := r.d.records.states.UpdateFrom(ctx, stateKey(r.sub.ID), r.record, func(rec *state.Record[progress]) error {
		if rec.Value.Run != r.id {
			return errLost
		}
		now := time.Now()
		rec.Value.Due = now.Add(r.d.runTime())
		rec.Extend(r.sub.Expires)
		change(&rec.Value, now)
		return nil
	})
	switch {
	case err == nil:
		r.record = rec
	case errors.Is(err, errLost), errors.Is(err, store.ErrNotFound):
		r.d.worker.Finish(r.job) // the other worker has a job of its own, or the same one
		err = errLost
	}
	return err
}

// pause ends the run; the job runs again after a delay.
func (r *run) pause(ctx context.Context, delay time.Duration) error {
	if err := r.change(ctx, func(st *progress, now time.Time) { st.park(now, delay) }); err != nil {
		return err
	}
	r.d.worker.HandBack(r.job, delay)
	return errPaused
}

// park records that the job runs again after a delay.
func (s *progress) park(now time.Time, delay time.Duration) {
	s.Run, s.Again = "", false
	s.NotBefore = now.Add(delay)
	s.Due = s.NotBefore.Add(queuedDue)
}

// deliver delivers until there is nothing more, or others get their turn. When stop ends, it
// returns after the message in progress.
func (r *run) deliver(stop, ctx context.Context) error {
	for {
		if stop.Err() != nil || time.Now().After(r.ended) {
			return r.pause(ctx, 0)
		}
		if r.record.Value.Message != nil {
			if err := r.deliverMessage(ctx); err != nil {
				return err
			}
			continue
		}
		batch, err := r.read(stop)
		if err != nil {
			if stop.Err() == nil {
				r.d.options.Logger.Error("the events of a subscription cannot be read", "subscription", r.sub.ID, "error", err)
			}
			pause := backoff.Backoff{Min: sourcePause}
			return r.pause(ctx, pause.Next())
		}
		if done, err := r.deliverBatch(stop, ctx, &batch); done || err != nil {
			return err
		}
	}
}

func (r *run) read(ctx context.Context) (delivery.Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceTimeouts*r.d.options.Timeout)
	defer cancel()
	return r.d.source(ctx, &r.sub.Subscription, r.record.Value.Position)
}

// refresh reads the subscription again, and ends the run if it has ended. A delivery is signed with the
// secret that the client has given last, to any replica.
func (r *run) refresh(ctx context.Context) error {
	sub, err := r.d.records.subscription(ctx, r.sub.ID)
	if err != nil {
		return err
	}
	if sub == nil {
		r.d.worker.Finish(r.job)
		return errLost
	}
	r.sub = &sub.Value
	return nil
}

// deliverBatch delivers the events of a batch. done means that there are no more.
func (r *run) deliverBatch(stop, ctx context.Context, batch *delivery.Batch) (done bool, err error) {
	switch {
	case batch.Ended != nil:
		var invalid error
		err := r.change(ctx, func(st *progress, _ time.Time) { invalid = st.end(batch.Ended) })
		return false, errors.Join(invalid, err)
	case batch.Gap:
		body, err := json.Marshal(webhook.Control{Type: webhook.TypeGap, Cursor: batch.GapCursor})
		if err != nil {
			return false, err
		}
		gap := &message{ID: webhook.NewMessageID(webhook.TypeGap), Body: body}
		return false, r.change(ctx, func(st *progress, _ time.Time) { st.Message, st.Position = gap, batch.Position })
	}
	events := batch.Events[:min(len(batch.Events), maxBatch)]
	for i := range events {
		// A slow source still makes progress: its first event is delivered.
		if stop.Err() != nil || i > 0 && time.Now().After(r.ended) {
			return false, nil // deliver pauses
		}
		event := &events[i]
		if err := r.deliverOne(ctx, event.ID, event.Body, func(st *progress) { st.Position = event.Position }); err != nil {
			return false, err
		}
		if r.record.Value.Message != nil {
			return false, nil
		}
	}
	if batch.More || len(events) < len(batch.Events) {
		if len(events) == len(batch.Events) && batch.Position != r.record.Value.Position {
			return false, r.change(ctx, func(st *progress, _ time.Time) { st.Position = batch.Position })
		}
		return false, nil
	}
	return r.rest(ctx, batch)
}

// rest ends the run when the source has no more events.
func (r *run) rest(ctx context.Context, batch *delivery.Batch) (done bool, err error) {
	again := false
	err = r.change(ctx, func(st *progress, now time.Time) {
		st.Position = batch.Position
		again = st.Again || st.Message != nil
		switch {
		case again:
			st.Again = false
		case batch.Next > 0:
			st.park(now, batch.Next)
		default:
			st.Job, st.Run = "", ""
		}
	})
	if err != nil || again {
		return false, err
	}
	if batch.Next > 0 {
		r.d.worker.HandBack(r.job, batch.Next)
	} else {
		r.d.worker.Finish(r.job)
	}
	return true, nil
}

// deliverMessage delivers the control body of the progress. After the last one, it removes the
// subscription.
func (r *run) deliverMessage(ctx context.Context) error {
	message := r.record.Value.Message
	if err := r.deliverOne(ctx, message.ID, message.Body, func(st *progress) { st.Message = nil }); err != nil {
		return err
	}
	if !r.record.Value.Ended || r.record.Value.Message != nil {
		return nil
	}
	err := r.d.records.states.Delete(ctx, stateKey(r.sub.ID), r.record)
	if errors.Is(err, store.ErrConflict) {
		r.d.worker.Finish(r.job)
		return errLost // the client has subscribed again
	}
	if err == nil {
		err = r.removeSubscription(ctx)
	}
	if err != nil {
		return err
	}
	r.d.worker.Finish(r.job)
	return errPaused
}

// removeSubscription removes a subscription that has ended, unless the client has subscribed again.
func (r *run) removeSubscription(ctx context.Context) error {
	sub, err := r.d.records.subscription(ctx, r.sub.ID)
	if err != nil || sub == nil {
		return err
	}
	if newer, err := r.d.records.progress(ctx, r.sub.ID); err != nil || newer != nil {
		return err
	}
	err = r.d.records.subscriptions.Delete(ctx, subscriptionKey(r.sub.ID), sub)
	if errors.Is(err, store.ErrConflict) {
		return nil
	}
	r.d.index.remove(r.sub.ID)
	if err == nil {
		r.d.removeOwned(ctx, r.sub.Principal, r.sub.ID)
	}
	return err
}

// deliverOne makes one attempt to deliver a message. It returns nil if the message was acknowledged
// or abandoned, after advance was applied to the progress. Otherwise the run has ended.
func (r *run) deliverOne(ctx context.Context, id string, body []byte, advance func(*progress)) error {
	log := r.d.options.Logger.With("subscription", r.sub.ID, "event", id)
	first := time.Now()
	sent := outcome{refused: true}
	if len(body) > webhook.MaxBody || !signature.IsID(id) {
		log.Error("an event is abandoned, because its body is too long or its id cannot be in a header", "bytes", len(body))
	} else {
		err := r.renew(ctx, first)
		if err == nil {
			err = r.refresh(ctx)
		}
		if err != nil {
			return err
		}
		if sent, err = r.d.post(ctx, r.sub, id, body); err != nil {
			return err
		}
	}
	var abandoned, suspended bool
	var delay time.Duration
	err := r.change(ctx, func(st *progress, now time.Time) {
		if st.Current != id {
			st.Current, st.Attempts, st.First = id, 0, first
		}
		st.Attempts++
		abandoned, suspended, delay = r.d.judge(st, &sent, now)
		switch {
		case suspended:
			st.Suspended, st.Job, st.Run = now, "", ""
		case delay > 0:
			st.park(now, delay)
		default:
			st.Current, st.Attempts, st.First = "", 0, time.Time{}
			advance(st)
		}
	})
	switch {
	case err != nil:
		return err
	case suspended:
		log.Warn("deliveries of a subscription are suspended", "reason", sent.reason)
		r.d.worker.Finish(r.job)
		return errPaused
	case delay > 0:
		r.d.worker.HandBack(r.job, delay)
		return errPaused
	case abandoned:
		log.Warn("an event is abandoned after too many attempts", "reason", sent.reason)
	}
	return nil
}

// renew makes sure that the run remains the worker for the time of an attempt.
func (r *run) renew(ctx context.Context, now time.Time) error {
	if r.record.Value.Due.Sub(now) < r.d.runTime()/2 {
		if err := r.change(ctx, func(*progress, time.Time) {}); err != nil {
			return err
		}
	}
	if now.Sub(r.extended) < extendAfter {
		return nil
	}
	r.extended = now
	err := r.d.store.Extend(ctx, r.job)
	if errors.Is(err, store.ErrLost) {
		return nil // the progress decides which worker delivers
	}
	return err
}

// judge records an outcome. If delay is not 0, the message is sent again after it.
func (d *deliverer) judge(st *progress, sent *outcome, now time.Time) (abandoned, suspended bool, delay time.Duration) {
	switch {
	case sent.accepted:
		st.LastDelivery, st.LastError, st.FailedSince, st.Failures = now, "", time.Time{}, 0
		return false, false, 0
	case sent.refused:
		st.Failures = 0 // the endpoint works
		return false, false, 0
	}
	if st.FailedSince.IsZero() {
		st.FailedSince = now
	}
	st.LastError = sent.reason
	st.Failures++
	if st.Failures >= suspendAttempts && now.Sub(st.FailedSince) >= d.options.SuspendAfter && !st.Ended {
		return false, true, 0
	}
	left := d.options.RetryWindow - now.Sub(st.First)
	if st.Attempts >= d.options.Attempts || left <= 0 || sent.retryAfter > left {
		return true, false, 0
	}
	pauses := backoff.Backoff{Min: d.options.RetryPause, Max: longestPause}
	for range st.Attempts {
		delay = pauses.Next()
	}
	// The last attempt is at the end of the window.
	return false, false, min(max(delay, sent.retryAfter, 1), left)
}
