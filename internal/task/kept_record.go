package task

import (
	"context"
	"maps"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/internal/state"
)

// keptPrefix is the prefix of the keys of what tasks keep: taskkept/<id>.
const keptPrefix = "taskkept"

// A keptRecord tells other replicas, and later processes, what a task keeps.
type keptRecord struct {
	Replica   string           `json:"replica"` // that has written it
	Principal string           `json:"principal,omitempty"`
	Network   string           `json:"network,omitempty"` // of a client without Principal
	Parts     map[string]int64 `json:"parts"`             // size in bytes by name
}

func keptKey(id string) string { return keptPrefix + "/" + id }

// storeKept tells other replicas what a task keeps. It writes nothing if they know that, apart from a small difference.
func (e *Engine) storeKept(ctx context.Context, id string) error {
	known := e.kept.stored(id)
	if !e.config.Shared || known == nil {
		return nil
	}
	stored, err := e.keptRecords.UpdateFrom(ctx, keptKey(id), known, func(rec *state.Record[keptRecord]) error {
		return e.kept.describe(id, e.replica, rec)
	})
	if err == nil {
		e.kept.setStored(id, stored)
	}
	return err
}

// forgetKept stops to count a task that was not created. What remains in the store after an error expires.
func (e *Engine) forgetKept(ctx context.Context, id string) {
	e.kept.forget(id)
	if e.config.Shared {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTimeout)
		defer cancel()
		_ = e.keptRecords.Delete(ctx, keptKey(id), nil)
	}
}

// watchKept counts what the tasks of other replicas and of earlier processes keep, until the engine stops.
func (e *Engine) watchKept() {
	var pause backoff.Backoff
	logged := false
	for e.pulling.Err() == nil {
		for change, err := range e.keptRecords.Watch(e.pulling, keptPrefix) {
			if err != nil {
				if !logged && e.pulling.Err() == nil {
					e.config.Logger.Warn("what tasks of other replicas keep is not counted", "error", err)
				}
				logged = true // the records that another key has sealed may be many
				continue
			}
			pause.Reset()
			e.kept.learn(change.Key[min(len(change.Key), len(keptPrefix)+1):], e.replica, &change)
		}
		_ = pause.Wait(e.pulling) // the loop ends with it
	}
}

// stored returns the record of a task as it was last read or written. It returns nil if the task is not counted.
func (k *kept) stored(id string) *state.Record[keptRecord] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.tasks[id]; t != nil {
		return t.stored
	}
	return nil
}

func (k *kept) setStored(id string, rec *state.Record[keptRecord]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tasks[id]
	if t == nil {
		return
	}
	t.stored = rec
	maps.DeleteFunc(t.unsaved, func(name string, _ bool) bool { return t.parts[name] == rec.Value.Parts[name] })
}

// describe sets the record of a task, unless it differs by at most the room for a small outcome.
func (k *kept) describe(id, replica string, rec *state.Record[keptRecord]) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.tasks[id]
	if t == nil {
		return state.ErrUnchanged
	}
	if rec.Stored() {
		k.merge(t, rec.Value.Parts)
	}
	if more := t.size() - sizeOf(rec.Value.Parts); rec.Stored() && -outcomeRoom <= more && more <= outcomeRoom {
		return state.ErrUnchanged
	}
	rec.Value = keptRecord{replica, t.principal, t.network, maps.Clone(t.parts)}
	rec.Until = t.until
	return nil
}

// learn counts what another replica has stored about a task.
func (k *kept) learn(id, replica string, change *state.Change[keptRecord]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t, rec := k.tasks[id], change.Record
	switch {
	case !k.expires || t != nil && change.Precedes(t.stored):
		return
	case rec == nil:
		if t != nil {
			k.remove(id, t)
		}
		return
	case t == nil:
		t = k.add(id, rec.Value.Principal, rec.Value.Network, rec.Until)
	case rec.Value.Replica == replica:
		return
	}
	k.merge(t, rec.Value.Parts)
	t.stored = rec
}

// setParts replaces the parts of a task. k.mu is held.
func (k *kept) setParts(t *keptTask, parts map[string]int64) {
	k.retained.Add(t.holder, sizeOf(parts)-t.size())
	t.parts = parts
}

// merge counts the parts in a record. Parts that this replica has written since its last record of the task are newer, and
// the parts of an ended task are final. k.mu is held.
func (k *kept) merge(t *keptTask, stored map[string]int64) {
	if len(t.parts) > 0 && !isOpen(t.parts) && isOpen(stored) {
		return
	}
	parts := make(map[string]int64, len(stored))
	maps.Copy(parts, stored)
	if isOpen(stored) {
		for name := range t.unsaved {
			parts[name] = t.parts[name]
		}
	}
	k.setParts(t, parts)
}

// isOpen reports whether parts are of a task that has not ended.
func isOpen(parts map[string]int64) bool {
	_, open := parts[partRoom]
	return open
}
