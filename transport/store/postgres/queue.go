package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	pushSQL = `
INSERT INTO {s}.jobs (queue, id, data, pushed, number, due, attempt, token)
VALUES ($1, $2, $3, now(), nextval('{s}.numbers'), now(), 0, 0)
ON CONFLICT (queue, id) DO UPDATE SET number = excluded.number, data = excluded.data, pushed = now(), due = now(), attempt = 0, token = 0
WHERE jobs.due IS NULL AND jobs.pushed <= now() - $4::interval`

	pullSQL = `
WITH next AS (
	SELECT queue, id FROM {s}.jobs WHERE queue = $1 AND due <= now() ORDER BY due, number LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE {s}.jobs j SET attempt = j.attempt + 1, token = nextval('{s}.numbers'), due = now() + $2::interval
FROM next WHERE j.queue = next.queue AND j.id = next.id
RETURNING j.id, j.data, j.attempt, j.token`

	dueSQL = `SELECT coalesce(extract(epoch FROM min(due) - now())::float8, $2) FROM {s}.jobs WHERE queue = $1 AND due IS NOT NULL`

	// holdSQL ends or changes a lease. Without a time, it is the end of the job.
	holdSQL = `
UPDATE {s}.jobs SET due = now() + $4::interval, token = CASE WHEN $5 THEN token ELSE 0 END,
	data = CASE WHEN $4 IS NULL THEN '' ELSE data END
WHERE queue = $1 AND id = $2 AND token = $3 AND due > now()`
)

// minPullPause is the shortest time between two attempts of a Pull while another worker has
// locked the job that is due.
const minPullPause = 20 * time.Millisecond

// errNone means that no job is due.
var errNone = errors.New("postgres: no job is due")

// A lease is the token of a delivery.
type lease int64

// Push implements [store.Queue]. It also ignores a job with the id of one that the queue
// contains.
func (s *Store) Push(ctx context.Context, queue, id string, data []byte) error {
	return s.do(ctx, func(ctx context.Context) error {
		data, err := checked(data)
		if err != nil {
			return err
		}
		rows, err := s.exec(ctx, pushSQL, queue, id, data, store.DuplicateWindow)
		if rows > 0 {
			s.changed(jobs, queue)
		}
		return err
	}, queue, id)
}

// Pull implements [store.Queue].
func (s *Store) Pull(ctx context.Context, queue string) (job *store.Job, err error) {
	err = s.repeat(ctx, jobs, queue, func([]string, bool) (pause time.Duration, done bool, err error) {
		err = s.do(ctx, func(ctx context.Context) error {
			next, token := store.Job{Queue: queue, HeldFor: s.limits.Lease}, lease(0)
			err := s.row(ctx, errNone, pullSQL, []any{queue, s.limits.Lease}, &next.ID, &next.Data, &next.Attempt, &token)
			if err == errNone {
				seconds := 0.0
				err = s.row(ctx, nil, dueSQL, []any{queue, pollPause.Seconds()}, &seconds)
				pause = time.Duration(min(seconds, pollPause.Seconds()) * float64(time.Second))
				return err
			}
			if err == nil {
				next.Lease = token
				job = &next
			}
			return err
		}, queue)
		return max(pause, minPullPause), job != nil, err
	})
	return job, err
}

// Extend implements [store.Queue].
func (s *Store) Extend(ctx context.Context, job *store.Job) error {
	return s.hold(ctx, job, s.limits.Lease, true)
}

// Ack implements [store.Queue].
func (s *Store) Ack(ctx context.Context, job *store.Job) error {
	return s.hold(ctx, job, nil, false)
}

// Nak implements [store.Queue].
func (s *Store) Nak(ctx context.Context, job *store.Job, delay time.Duration) error {
	err := s.hold(ctx, job, max(delay, 0), false)
	if err == nil {
		s.changed(jobs, job.Queue)
	}
	return err
}

// hold changes the lease of a job: it is due after a time, or done if that is nil. The worker
// keeps the job or not.
func (s *Store) hold(ctx context.Context, job *store.Job, due any, keep bool) error {
	return s.do(ctx, func(ctx context.Context) error {
		token, _ := job.Lease.(lease)
		rows, err := s.exec(ctx, holdSQL, job.Queue, job.ID, int64(token), due, keep)
		if err == nil && rows == 0 {
			return store.ErrLost
		}
		return err
	}, job.Queue, job.ID)
}
