package task

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// taskSize is the size in bytes of a task without its parts.
	taskSize = 2 << 10
	// These are names of parts. An ended task keeps only its outcome.
	partCall    = "call"
	partState   = "state"
	partRoom    = "room" // for a small outcome
	partOutcome = "outcome"
	partAnswer  = "answer to " // and the key of a question
)

// kept counts what the tasks of all replicas keep in the store until they expire, for each client. Its methods may be
// called concurrently.
type kept struct {
	retained *quota.Retained
	mostOpen int // tasks of one client that have not ended

	mu      sync.Mutex
	expires bool // expire runs, or begins
	tasks   map[string]*keptTask
	open    map[quota.Holder]int // tasks that this replica has created and that have not ended
}

type keptTask struct {
	principal, network string // of the client
	holder             quota.Holder
	isOpen             bool
	parts              map[string]int64 // size in bytes by name
	unsaved            map[string]bool  // parts that are not in stored
	result             int64            // size in bytes of the outcome
	until              time.Time        // when it expires; its parts are stored for keptLonger
	stored             *state.Record[keptRecord]
}

func newKept(retained *quota.Retained, mostOpen int) *kept {
	return &kept{retained: retained, mostOpen: mostOpen, tasks: make(map[string]*keptTask), open: make(map[quota.Holder]int)}
}

// create counts a new task with its call and its state. isOpen says that it counts among the tasks of its client that
// have not ended. The error is a *[jsonrpc.Error].
func (k *kept) create(id string, rec *record, call, state int, isOpen bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	holder := rec.holder()
	if isOpen && k.open[holder] >= k.mostOpen {
		k.removeExpired(time.Now())
	}
	if n := k.open[holder]; isOpen && n >= k.mostOpen {
		return &jsonrpc.Error{Code: jsonrpc.Busy, Message: fmt.Sprintf("the caller has %d tasks that have not ended; cancel some, or try again later", n)}
	}
	size := int64(taskSize + outcomeRoom + call + state)
	if err := k.take(holder, size); err != nil {
		return err
	}
	t := k.add(id, rec.Principal, rec.Network, rec.until())
	t.parts[""], t.parts[partRoom], t.parts[partCall], t.parts[partState] = taskSize, outcomeRoom, int64(call), int64(state)
	if isOpen {
		t.isOpen = true
		k.open[holder]++
	}
	return nil
}

// know counts a task that another replica may have created, before parts of it are written.
func (k *kept) know(id string, rec *record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.expires || k.tasks[id] != nil {
		return
	}
	t := k.add(id, rec.Principal, rec.Network, rec.until())
	t.parts[""], t.parts[partRoom], t.parts[partCall], t.parts[partState] = taskSize, outcomeRoom, rec.Call.size(), rec.State.size()
	for key, answer := range rec.Answers {
		t.parts[partAnswer+key] = answer.size()
	}
	k.retained.Add(t.holder, t.size())
}

// add adds a task without parts. k.mu is held.
func (k *kept) add(id, principal, network string, until time.Time) *keptTask {
	t := &keptTask{
		principal: principal, network: network, holder: quota.HolderOf(principal, network),
		parts: make(map[string]int64), unsaved: make(map[string]bool), until: until, stored: &state.Record[keptRecord]{},
	}
	k.tasks[id] = t
	return t
}

// size returns the size of the parts in bytes.
func (t *keptTask) size() int64 { return sizeOf(t.parts) }

func sizeOf(parts map[string]int64) (size int64) {
	for _, part := range parts {
		size += part
	}
	return size
}

// setOutcome counts an outcome that is stored in the part with a name. A small one uses the room of its task. The error wraps
// [store.ErrFull].
func (k *kept) setOutcome(id, name string, size int) error {
	err := k.setPart(id, name, max(0, size-outcomeRoom))
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.tasks[id]; t != nil && err == nil && name == partOutcome {
		t.result = int64(size)
	}
	return err
}

// setPart counts a part in place of an earlier one with its name. The error wraps [store.ErrFull].
func (k *kept) setPart(id, name string, size int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tasks[id]
	if t == nil {
		return nil // it has expired
	}
	more := int64(size) - t.parts[name]
	if more < 0 {
		k.retained.Return(t.holder, -more)
	} else if k.take(t.holder, more) != nil {
		return fmt.Errorf("%w: the tasks of this client may keep no more", store.ErrFull)
	}
	if k.tasks[id] == nil { // it has expired meanwhile
		k.retained.Return(t.holder, more)
		return nil
	}
	t.parts[name], t.unsaved[name] = int64(size), true
	return nil
}

// take counts bytes. Tasks that have expired make room if there is none. k.mu is held.
func (k *kept) take(h quota.Holder, bytes int64) error {
	if k.retained.Take(h, bytes) == nil {
		return nil
	}
	k.removeExpired(time.Now())
	return k.retained.Take(h, bytes)
}

// end drops what an ended task does not keep.
func (k *kept) end(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tasks[id]
	if t == nil {
		return
	}
	k.close(t)
	if isOpen(t.parts) { // else another replica has said what it keeps
		k.setParts(t, map[string]int64{"": taskSize, partOutcome: t.result})
	}
}

func (k *kept) close(t *keptTask) {
	if !t.isOpen {
		return
	}
	t.isOpen = false
	if k.open[t.holder]--; k.open[t.holder] == 0 {
		delete(k.open, t.holder)
	}
}

// expiryInterval is the time between checks for tasks that have expired.
const expiryInterval = time.Minute

// begin must be called before tasks of other replicas are counted, and before expire.
func (k *kept) begin() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expires = true
}

// expire stops to count tasks when they expire, until ctx ends. Then it counts none.
func (k *kept) expire(ctx context.Context) {
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			k.mu.Lock()
			k.removeExpired(now)
			k.mu.Unlock()
		case <-ctx.Done():
			k.mu.Lock()
			k.expires = false
			for id, t := range k.tasks {
				k.remove(id, t)
			}
			k.mu.Unlock()
			return
		}
	}
}

// removeExpired stops to count tasks that have expired. k.mu is held.
func (k *kept) removeExpired(now time.Time) {
	for id, t := range k.tasks {
		if !now.Before(t.until) {
			k.close(t)
		}
		if !now.Before(t.until.Add(keptLonger)) {
			k.remove(id, t)
		}
	}
}

// forget stops to count a task.
func (k *kept) forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.tasks[id]; t != nil {
		k.remove(id, t)
	}
}

// remove stops to count a task. k.mu is held.
func (k *kept) remove(id string, t *keptTask) {
	k.close(t)
	k.retained.Return(t.holder, t.size())
	delete(k.tasks, id)
}
