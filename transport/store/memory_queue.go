package store

import (
	"bytes"
	"context"
	"strings"
	"time"
)

// Sizes of the bookkeeping in bytes, which count toward MemoryOptions.Bytes.
const (
	jobOverhead    = 224 // with the queue, if the job is the only one
	pushedOverhead = 160 // of an id that is remembered
)

// memoryQueues contains the queues of a memory, whose lock guards it.
type memoryQueues struct {
	queues map[string]*memoryQueue
	number uint64 // of the last job
	pushed map[jobID]struct{}
	order  []pushedJob // oldest first
}

// A jobID identifies a job by its queue and id.
type jobID struct{ queue, id string }

// A pushedJob is an id that is remembered, to refuse the job when it is added again.
type pushedJob struct {
	jobID
	until time.Duration
}

// A memoryQueue has at least one job or worker that waits.
type memoryQueue struct {
	name    string
	jobs    schedule[*memoryJob] // by when they are due
	waiting int                  // calls of Pull
	changed chan struct{}        // closed when a job may be due earlier; nil if no worker waits for it
}

// A memoryJob is due when it may be delivered: immediately, or after a delay, or when the lease
// ends. Its data are never modified.
type memoryJob struct {
	scheduled
	jobID
	data    []byte
	attempt int
	held    bool // by the worker of the last attempt, until the job is due
}

// A memoryLease is one delivery of a job.
type memoryLease struct {
	job     *memoryJob
	attempt int
}

func newMemoryQueues() memoryQueues {
	return memoryQueues{queues: map[string]*memoryQueue{}, pushed: map[jobID]struct{}{}}
}

func (j jobID) pushedSize() int64 { return int64(pushedOverhead + len(j.queue) + len(j.id)) }

func (p pushedJob) expired(now time.Duration) bool { return p.until <= now }

func (j *memoryJob) size() int64 { return int64(jobOverhead + len(j.queue) + len(j.id) + len(j.data)) }

// Push implements [Queue].
func (m *memory) Push(ctx context.Context, queue, id string, data []byte) error {
	if err := CheckName(id); err != nil {
		return err
	}
	// The names may be parts of long strings.
	job := &memoryJob{jobID: jobID{strings.Clone(queue), strings.Clone(id)}, data: bytes.Clone(data)}
	if err := m.lock(ctx, queue); err != nil {
		return err
	}
	defer m.mu.Unlock()
	now := m.now()
	for len(m.queues.order) > 0 && m.queues.order[0].expired(now) {
		m.forgetOldest()
	}
	if _, again := m.queues.pushed[job.jobID]; again {
		return nil
	}
	if err := m.reserve(now, job.size()+job.pushedSize(), 0); err != nil {
		return err
	}
	m.queues.pushed[job.jobID] = struct{}{}
	m.queues.order = append(m.queues.order, pushedJob{job.jobID, now + DuplicateWindow})
	m.queues.number++
	job.number, job.index = m.queues.number, -1
	m.queues.open(job.queue).schedule(job, now)
	return nil
}

// Pull implements [Queue].
func (m *memory) Pull(ctx context.Context, queue string) (*Job, error) {
	if err := m.lock(ctx, queue); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	q := m.queues.open(strings.Clone(queue))
	q.waiting++
	defer func() {
		q.waiting--
		m.queues.closeUnused(q)
	}()
	for {
		now := m.now()
		if len(q.jobs) > 0 && q.jobs[0].at <= now {
			delivered := q.deliver(q.jobs[0], later(now, m.limits.Lease))
			delivered.HeldFor = m.limits.Lease
			return delivered, nil
		}
		if err := m.waitForJob(ctx, q, now); err != nil {
			return nil, err
		}
	}
}

// deliver delivers a job to a worker.
func (q *memoryQueue) deliver(job *memoryJob, until time.Duration) *Job {
	job.attempt++
	job.held = true
	q.schedule(job, until)
	return &Job{
		Queue:   q.name,
		ID:      job.id,
		Data:    bytes.Clone(job.data),
		Attempt: job.attempt,
		Lease:   memoryLease{job, job.attempt},
	}
}

// waitForJob waits until a job may be due. It unlocks m.mu in the meantime.
func (m *memory) waitForJob(ctx context.Context, q *memoryQueue, now time.Duration) error {
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	changed := q.changed
	var due <-chan time.Time
	if len(q.jobs) > 0 {
		due = time.After(q.jobs[0].at - now)
	}
	m.mu.Unlock()
	defer m.mu.Lock()
	return m.wait(ctx, changed, due)
}

// Extend implements [Queue].
func (m *memory) Extend(ctx context.Context, job *Job) error {
	return m.withHeld(ctx, job, func(q *memoryQueue, held *memoryJob, now time.Duration) {
		q.schedule(held, later(now, m.limits.Lease))
	})
}

// Ack implements [Queue].
func (m *memory) Ack(ctx context.Context, job *Job) error {
	return m.withHeld(ctx, job, func(q *memoryQueue, held *memoryJob, _ time.Duration) {
		held.held = false
		q.jobs.drop(held)
		m.bytes -= held.size()
		m.queues.closeUnused(q)
	})
}

// Nak implements [Queue].
func (m *memory) Nak(ctx context.Context, job *Job, delay time.Duration) error {
	return m.withHeld(ctx, job, func(q *memoryQueue, held *memoryJob, now time.Duration) {
		held.held = false
		q.schedule(held, later(now, max(delay, 0)))
	})
}

// withHeld calls f if the worker holds a job.
func (m *memory) withHeld(ctx context.Context, job *Job, f func(q *memoryQueue, held *memoryJob, now time.Duration)) error {
	if err := m.lock(ctx, job.Queue); err != nil {
		return err
	}
	defer m.mu.Unlock()
	now := m.now()
	lease, ok := job.Lease.(memoryLease)
	if !ok || !lease.job.held || lease.attempt != lease.job.attempt || lease.job.at <= now {
		return ErrLost
	}
	f(m.queues.queues[lease.job.queue], lease.job, now)
	return nil
}

// forgetOldest forgets the oldest id that is remembered.
func (m *memory) forgetOldest() {
	q := &m.queues
	oldest := q.order[0].jobID
	delete(q.pushed, oldest)
	m.bytes -= oldest.pushedSize()
	q.order = q.order[1:]
	if len(q.order) == 0 {
		q.order, q.pushed = nil, map[jobID]struct{}{} // frees memory
	}
}

// open returns a queue. The caller must add a job or a worker that waits.
func (qs *memoryQueues) open(name string) *memoryQueue {
	q := qs.queues[name]
	if q == nil {
		q = &memoryQueue{name: name}
		qs.queues[name] = q
	}
	return q
}

// closeUnused removes a queue if it has neither jobs nor workers that wait.
func (qs *memoryQueues) closeUnused(q *memoryQueue) {
	if len(q.jobs) == 0 && q.waiting == 0 {
		delete(qs.queues, q.name)
	}
}

// schedule adds a job, or changes when it is due.
func (q *memoryQueue) schedule(job *memoryJob, at time.Duration) {
	job.at = at
	q.jobs.add(job)
	if q.jobs[0] == job && q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}
