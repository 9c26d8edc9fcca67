package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// leaseReserve is how much longer the lease is for the server than for the worker, so
	// that an acknowledgement at the end of the lease arrives in time.
	leaseReserve = 500 * time.Millisecond
	// pullExpiry is how long the server keeps a request for a job, at most.
	pullExpiry = 30 * time.Second
)

// Acknowledgements of jobs, in the protocol of JetStream.
const (
	acknowledge = "+ACK"
	inProgress  = "+WPI"
	negative    = "-NAK"
)

// Push implements [store.Queue].
func (s *Store) Push(ctx context.Context, queue, id string, data []byte) error {
	if err := errors.Join(store.CheckName(queue), store.CheckName(id)); err != nil {
		return err
	}
	_, err := s.publish(ctx, s.queueStream(), &nats.Msg{
		Subject: s.queueSubject(queue),
		Header:  nats.Header{jetstream.MsgIDHeader: {queue + " " + id}}, // one set of ids for all queues
		Data:    data,
	})
	return err
}

// Pull implements [store.Queue].
func (s *Store) Pull(ctx context.Context, queue string) (*store.Job, error) {
	if err := store.CheckName(queue); err != nil {
		return nil, err
	}
	running, cancel := s.until(ctx)
	defer cancel()
	for {
		job, err := s.pull(running, queue)
		if job != nil {
			return job, nil
		}
		if running.Err() != nil {
			return nil, s.failure(ctx, running.Err())
		}
		if err != nil && !wait(running, retryPause) {
			return nil, s.failure(ctx, running.Err())
		}
	}
}

// pull requests a job once. The lease of the job begins when the request is sent, because another worker may have a job
// that was on its way for long. So a request is kept for a third of a lease.
func (s *Store) pull(ctx context.Context, queue string) (*store.Job, error) {
	if err := s.createWorker(ctx, queue); err != nil {
		return nil, err
	}
	epoch := s.currentEpoch()
	worker := newReceiver(time.Now().Add(s.limits.Lease))
	inbox := s.conn.NewInbox()
	subscription, err := s.conn.Subscribe(inbox, worker.receive)
	if err != nil {
		return nil, err
	}
	// Messages on their way are still received.
	defer func() { worker.end(); _ = subscription.Drain() }() // fails only if the connection is closed

	expires := min(pullExpiry, s.limits.Lease/3)
	options := map[string]any{"batch": 1, "expires": expires}
	if expires >= 2*heartbeat { // which the server requires
		options["idle_heartbeat"] = heartbeat
	}
	request, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	if err := s.conn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+s.queueStream()+"."+workerName(queue), inbox, request); err != nil {
		return nil, err
	}
	missing := time.NewTimer(2 * heartbeat)
	defer missing.Stop()
	for {
		select {
		case message := <-worker.messages:
			switch status := message.Header.Get("Status"); status {
			case "": // a job
				return s.job(queue, message, worker.until)
			case "100": // a heartbeat
				missing.Reset(2 * heartbeat)
			case "404", "408": // no job
				return nil, nil
			default:
				s.forgetWorker(queue) // the consumer may have been deleted
				return nil, fmt.Errorf("the server answers %s %s", status, message.Header.Get("Description"))
			}
		case <-missing.C:
			s.forgetWorker(queue)
			return nil, errInterrupted
		case <-epoch.Done():
			return nil, errInterrupted
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A receiver passes the messages of a request on, which are at most one job and messages about
// the request, until it ends. Then it returns the job to the queue.
type receiver struct {
	until time.Time // end of the lease of the job

	mu       sync.Mutex
	messages chan *nats.Msg
	ended    bool
}

func newReceiver(until time.Time) *receiver {
	return &receiver{until: until, messages: make(chan *nats.Msg, 4)}
}

func (r *receiver) receive(message *nats.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		r.giveBack(message)
	case isJob(message) || len(r.messages) < cap(r.messages)-1: // one place is the job's
		r.messages <- message
	}
}

func (r *receiver) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for len(r.messages) > 0 {
		r.giveBack(<-r.messages)
	}
}

func isJob(message *nats.Msg) bool { return message.Header.Get("Status") == "" }

// giveBack returns a job to its queue, unless its lease has expired. If that fails, its lease expires.
func (r *receiver) giveBack(message *nats.Msg) {
	if isJob(message) && time.Now().Before(r.until) {
		_ = message.Respond([]byte(negative))
	}
}

// createWorker creates the consumer of a queue, which all workers share.
func (s *Store) createWorker(ctx context.Context, queue string) error {
	s.mu.Lock()
	known := s.workers[queue]
	s.mu.Unlock()
	if known {
		return nil
	}
	err := s.doStream(ctx, s.queueStream(), func(ctx context.Context) error {
		_, err := s.js.CreateOrUpdateConsumer(ctx, s.queueStream(), jetstream.ConsumerConfig{
			Durable:       workerName(queue),
			FilterSubject: s.queueSubject(queue),
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       s.limits.Lease + leaseReserve,
			MaxAckPending: -1,
		})
		return err
	})
	if err == nil {
		s.mu.Lock()
		s.workers[queue] = true
		s.mu.Unlock()
	}
	return err
}

func (s *Store) forgetWorker(queue string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.workers, queue)
}

// workerName returns the name of the consumer of a queue, which cannot contain "/" or ".".
func workerName(queue string) string { return strings.ReplaceAll(queue, "/", "=") }

// A lease is the right of a worker to a job. The server knows no leases that have ended, and
// would accept acknowledgements of other workers.
type lease struct {
	reply string // the subject of acknowledgements

	mu    sync.Mutex
	until time.Time // zero after the job has been acknowledged or returned
}

// job returns the job in a message, or nil if its lease has expired.
func (s *Store) job(queue string, message *nats.Msg, until time.Time) (*store.Job, error) {
	data, err := message.Metadata()
	left := time.Until(until)
	if err != nil || left <= 0 {
		return nil, err
	}
	_, id, _ := strings.Cut(message.Header.Get(jetstream.MsgIDHeader), " ")
	return &store.Job{
		Queue:   queue,
		ID:      id,
		Data:    message.Data,
		Attempt: int(data.NumDelivered),
		Lease:   &lease{reply: message.Reply, until: until},
		HeldFor: left,
	}, nil
}

// Extend implements [store.Queue].
func (s *Store) Extend(ctx context.Context, job *store.Job) error {
	return s.acknowledge(ctx, job, inProgress)
}

// Ack implements [store.Queue].
func (s *Store) Ack(ctx context.Context, job *store.Job) error {
	return s.acknowledge(ctx, job, acknowledge)
}

// Nak implements [store.Queue].
func (s *Store) Nak(ctx context.Context, job *store.Job, delay time.Duration) error {
	if delay <= 0 {
		return s.acknowledge(ctx, job, negative)
	}
	return s.acknowledge(ctx, job, fmt.Sprintf(`%s {"delay": %d}`, negative, delay))
}

func (s *Store) acknowledge(ctx context.Context, job *store.Job, what string) error {
	l, ok := job.Lease.(*lease)
	if !ok {
		return store.ErrLost
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	begin := time.Now()
	if !begin.Before(l.until) {
		return store.ErrLost
	}
	// What arrives after the lease would concern another worker.
	ctx, cancel := context.WithDeadline(ctx, l.until)
	defer cancel()
	if err := s.do(ctx, func(ctx context.Context) error {
		_, err := s.conn.RequestWithContext(ctx, l.reply, []byte(what))
		if errors.Is(err, nats.ErrNoResponders) {
			if _, missing := s.js.Consumer(ctx, s.queueStream(), workerName(job.Queue)); isLost(missing) {
				return store.ErrLost
			}
		}
		return err
	}); err != nil {
		return err
	}
	l.until = time.Time{}
	if what == inProgress {
		l.until = begin.Add(s.limits.Lease)
	}
	return nil
}

// isLost reports whether a stream or a consumer does not exist.
func isLost(err error) bool {
	code := codeOf(err)
	return code == jetstream.JSErrCodeStreamNotFound || code == jetstream.JSErrCodeConsumerNotFound
}
