package blocking

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// maxInline is the size of a message between replicas, in bytes. A larger one is stored in parts of this size.
	maxInline = 256 << 10
	// maxParts bounds the parts of one message.
	maxParts = 256
	// partTTL is how long a part is stored if nothing removes it.
	partTTL = 2 * time.Minute
	// replyTimeout bounds sending one reply.
	replyTimeout = 5 * time.Second
)

func subjectOf(replica string) string { return "blocking/" + replica }

// replicas answers the messages of other replicas.
type replicas struct {
	calls  *Calls
	parts  state.Records[[]byte] // of large messages
	ctx    context.Context       // ends when the replicas are closed
	cancel context.CancelCauseFunc

	mu          sync.Mutex
	joined      bool
	closed      bool
	unsubscribe func()            // nil until the subscription has effect
	visits      map[string]*visit // by id
	running     sync.WaitGroup    // no goroutine is added after closed is set
}

func (r *replicas) init(c *Calls) {
	r.calls, r.visits = c, make(map[string]*visit)
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	if c.config.Store != nil {
		r.parts = state.NewRecords[[]byte](c.config.Store, c.config.Key)
	}
}

// join begins to receive messages, in the background.
func (r *replicas) join() {
	if r.calls.config.Store == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.joined && !r.closed {
		r.joined = true
		r.running.Go(r.subscribe)
	}
}

// subscribe tries until it succeeds, or the store is closed.
func (r *replicas) subscribe() {
	var pause backoff.Backoff
	for {
		stop, err := r.calls.config.Store.Subscribe(r.ctx, subjectOf(r.calls.replica), r.handle)
		if err == nil {
			r.mu.Lock()
			r.unsubscribe = stop
			r.mu.Unlock()
			return
		}
		if r.ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		r.calls.config.Logger.Warn("other replicas cannot continue the calls of blocking tools here; it is tried again", "error", err)
		if pause.Wait(r.ctx) != nil {
			return
		}
	}
}

// close ends the subscription and all visits.
func (r *replicas) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel(errUnattended)
	r.running.Wait()
	r.mu.Lock()
	unsubscribe := r.unsubscribe
	r.unsubscribe = nil
	r.mu.Unlock()
	if unsubscribe != nil {
		unsubscribe()
	}
}

// begin runs f in the background. It returns false if the replicas are closed.
func (r *replicas) begin(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.running.Go(f)
	}
	return !r.closed
}

// handle answers a message in the background, since the answer may wait.
func (r *replicas) handle(_ context.Context, m store.Message) {
	if m.Reply == nil {
		return
	}
	r.begin(func() {
		if err := r.reply(m); err != nil && r.ctx.Err() == nil {
			r.calls.config.Logger.Warn("a message of another replica about a blocking tool was not answered", "error", err)
		}
	})
}

func (r *replicas) reply(m store.Message) error {
	var asked request
	if err := r.open(r.ctx, m.Data, requestBinding(r.calls.replica), &asked); err != nil {
		return err
	}
	answer := r.answer(&asked)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), replyTimeout)
	defer cancel()
	sealed, err := r.seal(ctx, answer, replyBinding(&asked))
	if err != nil {
		return err
	}
	return m.Reply(ctx, sealed.data)
}

func requestBinding(replica string) []byte {
	return token.Binding("request about a blocking tool", replica)
}

func replyBinding(r *request) []byte {
	return token.Binding("reply about a blocking tool", r.Visit, fmt.Sprint(r.After))
}

// A sealedMessage is a message between replicas, encrypted.
type sealedMessage struct {
	data  []byte
	parts []string // keys in the store
}

// An envelope contains a message, or says where its parts are.
type envelope struct {
	Message json.RawMessage `json:"message,omitempty"`
	Parts   []string        `json:"parts,omitempty"` // keys in the store
}

// seal encodes and encrypts a message. What is larger than a message may be is stored in parts.
func (r *replicas) seal(ctx context.Context, message any, binding []byte) (sealed sealedMessage, err error) {
	encoded, err := json.Marshal(message)
	if err != nil {
		return sealed, err
	}
	wrapped := envelope{Message: encoded}
	if len(encoded) > maxInline {
		if sealed.parts, err = r.writeParts(ctx, encoded); err != nil {
			r.remove(ctx, sealed.parts)
			return sealedMessage{}, err
		}
		wrapped = envelope{Parts: sealed.parts}
	}
	plain, err := json.Marshal(wrapped)
	if err != nil {
		return sealed, err
	}
	sealed.data, err = r.calls.config.Key.SealBytes(ctx, plain, binding)
	return sealed, err
}

func (r *replicas) writeParts(ctx context.Context, encoded []byte) (keys []string, err error) {
	if len(encoded) > maxParts*maxInline {
		return nil, fmt.Errorf("%w: a message to another replica has %d bytes, at most %d are possible", store.ErrTooLarge, len(encoded), maxParts*maxInline)
	}
	id, until := rand.Text(), time.Now().Add(partTTL)
	for len(encoded) > 0 {
		part := encoded[:min(len(encoded), maxInline)]
		encoded = encoded[len(part):]
		key := fmt.Sprintf("blocking/%s/%d", id, len(keys))
		keys = append(keys, key)
		if _, err := r.parts.Create(ctx, key, part, until); err != nil {
			return keys, err
		}
	}
	return keys, nil
}

// open decrypts and decodes a message.
func (r *replicas) open(ctx context.Context, data, binding []byte, into any) error {
	plain, err := r.calls.config.Key.OpenBytes(ctx, data, binding)
	if err != nil {
		return err
	}
	var wrapped envelope
	if err := json.Unmarshal(plain, &wrapped); err != nil {
		return err
	}
	encoded := []byte(wrapped.Message)
	for _, key := range wrapped.Parts {
		part, err := r.parts.Load(ctx, key)
		if err != nil {
			return err
		}
		encoded = append(encoded, part.Value...)
	}
	if reply, ok := into.(*reply); ok {
		reply.parts = wrapped.Parts
	}
	return json.Unmarshal(encoded, into)
}

// remove removes parts that are not needed any more. A part that cannot be removed expires.
func (r *replicas) remove(ctx context.Context, parts []string) {
	for _, key := range parts {
		_ = r.parts.Delete(ctx, key, nil)
	}
}
