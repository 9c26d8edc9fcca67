package channel

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// maxEqual is how many open requests may have the same subject.
	maxEqual = 32
	// cleanUpTimeout bounds what is done in the store after the call has ended.
	cleanUpTimeout = 5 * time.Second
)

// requests are the open requests of a channel and its replicas.
//
// An open request is a record in the store. Its key is made of the request's subject and a small
// number. The record has one owner, the call that waits for the decision. The replica at which a
// person decides adds the decision to the record, and the owner takes it by deleting the record
// with that revision, so one call gets it. A replica that was killed leaves its records. The next
// call with the same subject becomes the owner of such a record.
type requests struct {
	store   store.Store
	records state.Records[record]
	name    string
}

// A record is an open request in the store. It is stored for a minute after its deadline, since the clocks of replicas
// may differ, and the request belongs to its owner until the deadline has passed there.
type record struct {
	ID       string    `json:"id"`
	Frame    []byte    `json:"frame"` // as it is shown to approvers
	Deadline time.Time `json:"deadline"`
	Owner    string    `json:"owner"`
	Decision *decision `json:"decision,omitempty"`
}

type decision struct {
	Approved bool   `json:"approved,omitempty"`
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`
	Failed   bool   `json:"failed,omitempty"`   // the approver failed; Reason says why
	Remember int64  `json:"remember,omitempty"` // in seconds
}

// answer returns the answer to the request, or the error of an approver that has failed.
func (d *decision) answer() (approval.Answer, error) {
	if d.Failed {
		return approval.Answer{}, failed(d.Reason)
	}
	return approval.Answer{Approved: d.Approved, Reason: d.Reason, By: d.By, Remember: time.Duration(d.Remember) * time.Second}, nil
}

// outcome returns the decision in one word, as notifications have it.
func (d *decision) outcome() string {
	switch {
	case d.Failed:
		return "failed"
	case d.Approved:
		return "approved"
	}
	return "rejected"
}

// approverName returns the name of the person, "" if it is not known.
func (d *decision) approverName() string {
	if d.By == unidentified {
		return ""
	}
	return d.By
}

// An announcement informs the approvers of all replicas of a decision. A Watch may yield the decision
// and the deletion of its record as one change.
type announcement struct {
	ID       string    `json:"id"`
	Decision *decision `json:"decision"`
}

// overdue reports whether the deadline of a record has passed.
func (r *record) overdue() bool { return !time.Now().Before(r.Deadline) }

func (s *requests) prefix() string              { return "approval/requests/" + s.name }
func (s *requests) approvers() string           { return "approval/approver/" + s.name }
func (s *requests) decisions() string           { return "approval/decided/" + s.name }
func (s *requests) ownerOf(owner string) string { return "approval/owner/" + owner }
func (s *requests) key(subject string, n int) string {
	return s.prefix() + "/" + subject + "/" + strconv.Itoa(n)
}

// answersFor subscribes to questions whether this process still does something.
func (s *requests) answersFor(ctx context.Context, subject string) (stop func(), err error) {
	return s.store.Subscribe(ctx, subject, func(ctx context.Context, m store.Message) {
		if m.Reply != nil {
			_ = m.Reply(ctx, []byte("yes")) // a request without a reply fails after a timeout
		}
	})
}

// exists reports whether a process answers for the subject.
func (s *requests) exists(ctx context.Context, subject string) (bool, error) {
	_, err := s.store.Request(ctx, subject, nil)
	if errors.Is(err, store.ErrNoResponder) {
		return false, nil
	}
	return err == nil, err
}

// A claim is a record that a call owns.
type claim struct {
	*state.Record[record]
	key     string
	adopted bool // an earlier call has left it
}

var (
	errPending = errors.New("channel: the request is already pending")
	errOwned   = errors.New("channel: another call has the request")
)

// open makes a record for a request, or takes one that an equal call has left.
func (s *requests) open(ctx context.Context, own record, subject string) (*claim, error) {
	for n := range maxEqual {
		c, err := s.openAt(ctx, own, s.key(subject, n))
		if !errors.Is(err, errOwned) {
			return c, err
		}
	}
	return nil, approval.Errorf(approval.TooMany, "at most %d equal requests may be open", maxEqual)
}

// openAt is open for one key. The error is errOwned if another call owns the record with the key, or it cannot be read.
func (s *requests) openAt(ctx context.Context, own record, key string) (*claim, error) {
	if own.overdue() {
		return nil, approval.Expired
	}
	c := &claim{key: key}
	opened, err := s.records.Put(ctx, key, func(rec *state.Record[record]) error {
		if rec.Stored() {
			switch owned, err := s.exists(ctx, s.ownerOf(rec.Value.Owner)); {
			case err != nil:
				return err
			case owned && rec.Value.ID == own.ID:
				return errPending
			case owned:
				return errOwned
			}
		}
		if c.adopted = rec.Stored() && !rec.Value.overdue(); c.adopted {
			rec.Value.Owner = own.Owner
		} else {
			rec.Value, rec.Until = own, own.Deadline.Add(time.Minute)
		}
		return nil
	})
	c.Record = opened
	if errors.Is(err, state.ErrUnreadable) { // it is of another version, or was changed by something else
		return nil, errOwned
	}
	if err == nil || errors.Is(err, errPending) || errors.Is(err, errOwned) {
		return c, err
	}
	return nil, approval.StoreError(err)
}

// withdraw deletes the record of a call that has ended, unless another call owns it now.
func (s *requests) withdraw(ctx context.Context, c *claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	err := s.records.Delete(ctx, c.key, c.Record)
	if !errors.Is(err, store.ErrConflict) {
		return // deleted, or left to the next equal call or its expiry
	}
	// It was decided, which happens once, or another call owns it.
	if found, err := s.records.Load(ctx, c.key); err == nil && found.Value.Owner == c.Value.Owner {
		_ = s.records.Delete(ctx, c.key, found) // otherwise it is left to its expiry
	}
}

// take returns the decision in a change of a record, and deletes the record. It returns nil if
// there is none yet.
func (s *requests) take(ctx context.Context, own *claim, change state.Change[record]) (*decision, error) {
	if change.Precedes(own.Record) {
		return nil, nil
	}
	return s.takeRecord(ctx, own, change.Record)
}

// takeNow returns the decision about a record, and deletes the record. It returns nil if there is no decision, or if the
// store fails.
func (s *requests) takeNow(ctx context.Context, own *claim) *decision {
	found, err := s.records.Load(ctx, own.key)
	if err != nil {
		return nil
	}
	d, err := s.takeRecord(ctx, own, found)
	if err != nil {
		return nil
	}
	return d
}

func (s *requests) takeRecord(ctx context.Context, own *claim, found *state.Record[record]) (*decision, error) {
	lost := approval.Errorf(approval.Lost, "another call has the request")
	if found == nil || found.Value.Owner != own.Value.Owner {
		return nil, lost
	}
	if own.Record = found; own.Value.Decision == nil {
		return nil, nil
	}
	switch err := s.records.Delete(ctx, own.key, own.Record); {
	case errors.Is(err, store.ErrConflict):
		return nil, lost
	case err != nil:
		return nil, approval.StoreError(err)
	}
	return own.Value.Decision, nil
}

// A change is an item of a Watch, or the error that ended it.
type change struct {
	state.Change[record]
	err error
}

// watch watches the records with a prefix until end is called.
func (s *requests) watch(ctx context.Context, prefix string) (changes <-chan change, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	yielded := make(chan change)
	var watching sync.WaitGroup
	watching.Go(func() {
		for c, err := range s.records.Watch(ctx, prefix) {
			if c.Key != "" {
				err = nil // a record that cannot be read is none
			}
			select {
			case yielded <- change{c, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	return yielded, func() {
		cancel()
		watching.Wait()
	}
}

// errDecided means that a request has been decided or withdrawn.
var errDecided = errors.New("the request is not pending")

// decide writes a decision into the record of a request, and announces it. Only the first decision
// counts: for any other, the error is errDecided, and earlier is the first one if it is known.
func (s *requests) decide(ctx context.Context, o *pendingRequest, d *decision) (earlier *decision, err error) {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	_, err = s.records.Update(ctx, o.key, func(rec *state.Record[record]) error {
		switch earlier = nil; {
		case rec.Value.ID != o.id, rec.Value.Decision == nil && rec.Value.overdue():
			return errDecided
		case rec.Value.Decision != nil:
			earlier = rec.Value.Decision
			return errDecided
		}
		rec.Value.Decision = d
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, errDecided
	case err == nil:
		s.announce(ctx, announcement{o.id, d})
	}
	return earlier, err
}

// announce informs the approvers of all replicas. Without it they only see that the request has ended.
func (s *requests) announce(ctx context.Context, a announcement) {
	if text, err := json.Marshal(a); err == nil {
		_ = s.store.Publish(ctx, s.decisions(), text) // it decides nothing
	}
}
