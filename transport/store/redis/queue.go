package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/transport/store"
)

// A queue has four keys: ready is the list of the ids of jobs that are due; later is the sorted
// set of the ids of jobs that are held or delayed, by the time in milliseconds since 1970 at
// which they are due; jobs is the hash of their data; and workers is the hash of their number of
// deliveries and the token of the last one, as "number:token". One more key for each id lasts
// for the duplicate window.

// pushScript adds the job ARGV[1] with the data ARGV[2], unless KEYS[3] exists, which then
// lasts for ARGV[3] milliseconds, or the queue contains the job. It wakes the channel ARGV[4].
var pushScript = redis.NewScript(`
if not redis.call('SET', KEYS[3], '', 'NX', 'PX', ARGV[3]) then return 0 end
if redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PUBLISH', ARGV[4], '')
return 1
`)

// pullScript returns the id, the data, the number of deliveries and the token of the next job,
// and gives it a lease of ARGV[1] milliseconds. If no job is due, it returns the time in
// milliseconds until one is, or -1.
var pullScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now), 'LIMIT', 0, 100)) do
  redis.call('ZREM', KEYS[2], id)
  redis.call('RPUSH', KEYS[1], id)
end
local id = redis.call('LPOP', KEYS[1])
if not id then
  local next = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  return {next[2] and math.max(1, tonumber(next[2]) - now) or -1}
end
local last = redis.call('HGET', KEYS[4], id)
local attempt = (last and tonumber(string.match(last, '^%d+')) or 0) + 1
local token = string.format('%.0f', redis.call('INCR', KEYS[5]))
redis.call('HSET', KEYS[4], id, string.format('%.0f:', attempt) .. token)
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[1]), id)
return {id, redis.call('HGET', KEYS[3], id), attempt, token}
`)

// holdScript ends or changes the lease of the job ARGV[1] with the token ARGV[2]: "ack" deletes
// it, "extend" makes it due in ARGV[4] milliseconds, and "nak" also ends the lease and wakes the
// channel ARGV[5]. It returns 0 if the lease has ended.
var holdScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
local last = redis.call('HGET', KEYS[4], ARGV[1])
if not due or tonumber(due) <= now or not last then return 0 end
local attempt, token = string.match(last, '^(%d+):(.*)$')
if token ~= ARGV[2] then return 0 end
if ARGV[3] == 'ack' then
  redis.call('ZREM', KEYS[2], ARGV[1])
  redis.call('HDEL', KEYS[3], ARGV[1])
  redis.call('HDEL', KEYS[4], ARGV[1])
  return 1
end
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[4]), ARGV[1])
if ARGV[3] == 'nak' then
  redis.call('HSET', KEYS[4], ARGV[1], attempt .. ':')
  redis.call('PUBLISH', ARGV[5], '')
end
return 1
`)

// maxNak bounds a delay, so that times in milliseconds are exact in scripts.
const maxNak = 100 * 365 * 24 * time.Hour

// A lease is the token of a delivery.
type lease string

// queueKeys returns the keys of a queue: ready, later, jobs, workers and the counter.
func (s *Store) queueKeys(queue string) []string {
	return []string{s.key("ready", queue), s.key("later", queue), s.key("jobs", queue), s.key("workers", queue), s.counter()}
}

// Push implements [store.Queue]. It also ignores a job with the id of one that the queue
// contains.
func (s *Store) Push(ctx context.Context, queue, id string, data []byte) error {
	return s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		if err := checkSize(data); err != nil {
			return err
		}
		keys := []string{s.key("ready", queue), s.key("jobs", queue), s.key("pushed", queue) + ":" + id}
		return pushScript.Run(ctx, c, keys, id, data, store.DuplicateWindow.Milliseconds(), s.key("ready", queue)).Err()
	}, queue, id)
}

// Pull implements [store.Queue].
func (s *Store) Pull(ctx context.Context, queue string) (*store.Job, error) {
	if err := store.CheckName(queue); err != nil {
		return nil, err
	}
	job, _, err := s.pull(ctx, queue)
	if job != nil || err != nil && (s.ended(ctx) != nil || !isTemporary(err)) {
		return job, err
	}
	w := make(worker, 1)
	channel := s.key("ready", queue)
	if err := s.join(ctx, channel, w); err != nil {
		return nil, err
	}
	defer s.hub.leave(ctx, channel, w)
	for {
		job, next, err := s.pull(ctx, queue)
		switch {
		case job != nil:
			return job, nil
		case err != nil && (s.ended(ctx) != nil || !isTemporary(err)):
			return nil, err
		case err != nil:
			err = s.retry(ctx, nil, retryDelay)
		default:
			err = s.wait(ctx, w, next)
		}
		if err != nil {
			return nil, err
		}
	}
}

// pull returns a job, or the time until one is due, or 0 if no time is known.
func (s *Store) pull(ctx context.Context, queue string) (job *store.Job, next time.Duration, err error) {
	err = s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		reply, err := pullScript.Run(ctx, c, s.queueKeys(queue), s.limits.Lease.Milliseconds()).Slice()
		if err != nil {
			return err
		}
		if len(reply) == 1 {
			ms, _ := reply[0].(int64)
			next = time.Duration(max(ms, 0)) * time.Millisecond
			return nil
		}
		if len(reply) != 4 {
			return fmt.Errorf("%w: a reply has %d parts, expected 4", errFormat, len(reply))
		}
		id, _ := reply[0].(string)
		data, _ := reply[1].(string)
		attempt, _ := reply[2].(int64)
		token, _ := reply[3].(string)
		job = &store.Job{Queue: queue, ID: id, Data: []byte(data), Attempt: int(attempt), Lease: lease(token), HeldFor: s.limits.Lease}
		return nil
	}, queue)
	return job, next, err
}

// Extend implements [store.Queue].
func (s *Store) Extend(ctx context.Context, job *store.Job) error {
	return s.hold(ctx, job, "extend", s.limits.Lease)
}

// Ack implements [store.Queue].
func (s *Store) Ack(ctx context.Context, job *store.Job) error { return s.hold(ctx, job, "ack", 0) }

// Nak implements [store.Queue]. It delays by 100 years at most.
func (s *Store) Nak(ctx context.Context, job *store.Job, delay time.Duration) error {
	return s.hold(ctx, job, "nak", min(max(delay, 0), maxNak))
}

// hold changes the lease of a job.
func (s *Store) hold(ctx context.Context, job *store.Job, action string, delay time.Duration) error {
	return s.do(ctx, func(ctx context.Context, c *redis.Client) error {
		token, _ := job.Lease.(lease)
		held, err := holdScript.Run(ctx, c, s.queueKeys(job.Queue),
			job.ID, string(token), action, strconv.FormatInt(delay.Milliseconds(), 10), s.key("ready", job.Queue)).Bool()
		if err == nil && !held {
			return store.ErrLost
		}
		return err
	}, job.Queue, job.ID)
}

// A worker waits in one call of Pull.
type worker chan struct{}

func (w worker) message(string) { signal(w) }

func (w worker) interrupted(time.Time) { signal(w) }
