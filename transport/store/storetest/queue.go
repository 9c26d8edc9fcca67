package storetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

// push adds jobs whose data are their ids.
func (f *fixture) push(queue string, ids ...string) {
	f.Helper()
	for _, id := range ids {
		if err := f.store.Push(f.ctx, queue, id, []byte(id)); err != nil {
			f.Fatalf("Push(%q, %q): %v", queue, id, err)
		}
	}
}

// pull waits for a job.
func (f *fixture) pull(s store.Store, queue string) *store.Job {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, eventTimeout)
	defer cancel()
	job, err := s.Pull(ctx, queue)
	if err != nil {
		f.Fatalf("Pull(%.50q): %v", queue, err)
	}
	return job
}

// wantJob waits for a job and checks it.
func (f *fixture) wantJob(s store.Store, queue, id string, attempt int) *store.Job {
	f.Helper()
	job := f.pull(s, queue)
	if job.Queue != queue || job.ID != id || string(job.Data) != id || job.Attempt != attempt {
		f.Errorf("Pull(%q) returned %+v, want %q, attempt %d", queue, job, id, attempt)
	}
	return job
}

// wantLost checks that a worker no longer holds a job.
func (f *fixture) wantLost(when string, s store.Store, job *store.Job) {
	f.Helper()
	f.wantError("Extend "+when, s.Extend(f.ctx, job), store.ErrLost)
	f.wantError("Ack "+when, s.Ack(f.ctx, job), store.ErrLost)
	f.wantError("Nak "+when, s.Nak(f.ctx, job, 0), store.ErrLost)
}

// Jobs are delivered in the order in which they were added.
func testQueueOrder(f *fixture) {
	jobs := numbers(1, 50)
	f.push("a/b", "other")
	f.push("a", jobs...)
	for i, id := range jobs {
		job := f.wantJob(f.replicas()[i%2], "a", id, 1)
		if i%3 == 0 { // the other jobs are held
			f.ok(f.replicas()[i%2].Ack(f.ctx, job))
		}
	}
	f.wantJob(f.store, "a/b", "other", 1)
}

// A job is added once, even after it has been done.
func testQueueDuplicates(f *fixture) {
	f.push("a", "1")
	f.ok(f.other.Push(f.ctx, "a", "1", []byte("again")))
	f.push("a", "2", "1", "2")
	f.push("b", "1", "1")
	first := f.wantJob(f.store, "a", "1", 1)
	f.push("a", "1")
	f.ok(f.store.Ack(f.ctx, first))
	f.ok(f.other.Push(f.ctx, "a", "1", []byte("again")))
	f.push("a", "3")
	for _, id := range []string{"2", "3"} {
		f.ok(f.store.Ack(f.ctx, f.wantJob(f.store, "a", id, 1)))
	}
	f.wantJob(f.store, "b", "1", 1)
	for _, queue := range []string{"a", "b"} {
		ctx, cancel := context.WithTimeout(f.ctx, 300*time.Millisecond)
		if job, err := f.other.Pull(ctx, queue); !errors.Is(err, context.DeadlineExceeded) {
			f.Errorf("Pull(%q) of an empty queue: %+v, %v", queue, job, err)
		}
		cancel()
	}
}

// Pull waits until there is a job. Each job is returned to one waiting Pull.
func testPull(f *fixture) {
	jobs := make(chan *store.Job, 10)
	for i := range 6 {
		f.start(func(ctx context.Context) {
			job, err := f.replicas()[i%2].Pull(ctx, "a")
			if err != nil {
				f.Errorf("Pull: %v", err)
				return
			}
			jobs <- job
		})
	}
	seen := map[string]bool{}
	for _, id := range numbers(1, 6) {
		f.wait(100 * time.Millisecond) // until the others wait again
		f.push("a", id)
		job := await(f, "Pull", jobs)
		if job.ID != id || job.Attempt != 1 || seen[id] {
			f.Errorf("Pull returned %+v, want %q", job, id)
		}
		seen[id] = true
	}
}

// A job is delivered again after its lease, to any worker.
func testLease(f *fixture) {
	f.push("a", "1", "2")
	begin := time.Now()
	lost := f.wantJob(f.store, "a", "1", 1)
	f.ok(f.store.Ack(f.ctx, f.wantJob(f.store, "a", "2", 1)))
	job := f.wantJob(f.other, "a", "1", 2)
	if d := time.Since(begin); d < f.limits.Lease-tolerance {
		f.Errorf("the job was delivered again after %v, the lease is %v", d, f.limits.Lease)
	}
	f.wantLost("after the lease", f.store, lost)
	f.ok(f.other.Ack(f.ctx, job))
	f.wantLost("after Ack", f.other, job)
}

// Extend begins the lease again.
func testExtend(f *fixture) {
	f.push("a", "1")
	held := f.wantJob(f.store, "a", "1", 1)
	again := make(chan *store.Job, 1)
	f.start(func(ctx context.Context) {
		if job, err := f.other.Pull(ctx, "a"); err == nil {
			again <- job
		}
	})
	var last time.Time // of an Extend, which begins the lease again before it returns
	for range 4 {
		f.wait(f.limits.Lease / 3)
		last = time.Now()
		f.ok(f.store.Extend(f.ctx, held))
	}
	select {
	case job := <-again:
		f.Fatalf("a job that was extended was delivered again: %+v", job)
	default:
	}
	job := await(f, "Pull", again)
	if job.ID != "1" || job.Attempt != 2 {
		f.Errorf("Pull returned %+v, want attempt 2", job)
	}
	if d := time.Since(last); d < f.limits.Lease-tolerance {
		f.Errorf("the job was delivered %v after Extend, the lease is %v", d, f.limits.Lease)
	}
	f.wantLost("after the lease", f.store, held)
	f.ok(f.other.Extend(f.ctx, job))
	f.ok(f.other.Ack(f.ctx, job))
}

// Nak returns a job to the queue, after a delay if there is one.
func testNak(f *fixture) {
	f.push("a", "1")
	for attempt := 1; attempt <= 3; attempt++ {
		job := f.wantJob(f.replicas()[attempt%2], "a", "1", attempt)
		f.ok(f.replicas()[attempt%2].Nak(f.ctx, job, 0))
		f.wantLost("after Nak", f.replicas()[attempt%2], job)
	}
	begin := time.Now()
	job := f.wantJob(f.store, "a", "1", 4)
	f.ok(f.store.Nak(f.ctx, job, 1500*time.Millisecond))
	f.push("a", "2")
	f.ok(f.store.Ack(f.ctx, f.wantJob(f.store, "a", "2", 1))) // does not wait for the other
	job = f.wantJob(f.other, "a", "1", 5)
	if d := time.Since(begin); d < 1500*time.Millisecond-tolerance {
		f.Errorf("the job was delivered after %v, the delay is 1.5s", d)
	}
	f.ok(f.other.Ack(f.ctx, job))
}

// A job whose lease has expired is lost, even if no other worker has it.
func testLost(f *fixture) {
	f.push("a", "1", "2")
	jobs := []*store.Job{f.wantJob(f.store, "a", "1", 1), f.wantJob(f.store, "a", "2", 1)}
	f.ok(f.store.Ack(f.ctx, jobs[1]))
	f.wantLost("after Ack", f.store, jobs[1])
	f.wait(f.limits.Lease + time.Second)
	f.wantLost("after the lease", f.store, jobs[0])
	f.ok(f.other.Ack(f.ctx, f.wantJob(f.other, "a", "1", 2)))
}

// Workers of all replicas do each job once, and one of them at a time.
func testQueueConcurrency(f *fixture) {
	const workers, jobs = 8, 80
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	var mu sync.Mutex
	working, attempts := map[string]bool{}, map[string]int{}
	isReturned := func(id string) bool { return len(id) == 1 } // by its first worker
	var done atomic.Int32
	work := func(s store.Store, job *store.Job) error {
		mu.Lock()
		if working[job.ID] {
			f.Errorf("two workers have job %s", job.ID)
		}
		working[job.ID] = true
		attempts[job.ID]++
		again := attempts[job.ID] == 1 && isReturned(job.ID)
		if job.Attempt != attempts[job.ID] {
			f.Errorf("attempt %d of job %s is %d", attempts[job.ID], job.ID, job.Attempt)
		}
		mu.Unlock()
		f.wait(time.Millisecond)
		mu.Lock()
		working[job.ID] = false
		mu.Unlock()
		if again {
			return s.Nak(ctx, job, 0)
		}
		if err := s.Ack(ctx, job); err != nil {
			return err
		}
		if done.Add(1) == jobs {
			cancel()
		}
		return nil
	}
	concurrently(workers+2, func(i int) {
		s := f.replicas()[i%2]
		if i >= workers {
			for _, id := range numbers(1, jobs) { // both add all jobs
				if err := s.Push(f.ctx, "a", id, []byte(id)); err != nil {
					f.Errorf("Push: %v", err)
					cancel()
				}
			}
			return
		}
		for {
			job, err := s.Pull(ctx, "a")
			if err == nil {
				err = work(s, job)
			}
			if err != nil {
				if ctx.Err() == nil {
					f.Errorf("worker %d: %v", i, err)
					cancel()
				}
				return
			}
		}
	})
	if done.Load() != jobs || len(attempts) != jobs {
		f.Errorf("%d of %d jobs are done, %d were delivered", done.Load(), jobs, len(attempts))
	}
	for id, n := range attempts {
		want := 1
		if isReturned(id) {
			want = 2
		}
		if n != want {
			f.Errorf("job %s was delivered %d times, want %d", id, n, want)
		}
	}
}
