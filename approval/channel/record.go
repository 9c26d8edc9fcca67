package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/transport/store"
)

const (
	// maxEqual is how many open requests may have the same subject.
	maxEqual = 32
	// maxChanges is how often a change of a record is attempted while others change it.
	maxChanges = 8
	// cleanUpTimeout bounds what is done in the store after the call has ended.
	cleanUpTimeout = 5 * time.Second
)

// replicas is the part of a channel that shares open requests with other replicas.
//
// An open request is a record in the store. Its key is made of the request's subject and a small
// number. The record has one owner, the call that waits for the decision. The replica at which a
// person decides adds the decision to the record, and the owner takes it by deleting the record
// with that revision, so one call gets it. A replica that was killed leaves its records. The next
// call with the same subject becomes the owner of such a record.
type replicas struct {
	store store.Store
	name  string
}

// A record is an open request in the store.
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

func (r *record) json() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // impossible: all members are text, bytes and valid times
	}
	return text
}

// ttl returns the time to live of a record, never 0, which would mean no limit.
func (r *record) ttl() time.Duration { return max(time.Second, time.Until(r.Deadline)) }

// overdue reports whether the deadline of a record has passed.
func (r *record) overdue() bool { return !time.Now().Before(r.Deadline) }

func readRecord(item store.Item) (*record, error) {
	r := new(record)
	if err := json.Unmarshal(item.Value, r); err != nil {
		return nil, fmt.Errorf("channel: the record %s: %w", item.Key, err)
	}
	return r, nil
}

// unreachable is the error of a request whose record cannot be read or written.
func unreachable(err error) error {
	text := "the store of the approvals cannot be reached"
	if errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrTooLarge) {
		text = "the store of the approvals has no room for the request"
	}
	return fmt.Errorf("%w: %w", approval.Errorf(approval.Failed, "%s", text), err)
}

func (s *replicas) requests() string            { return "approval/request/" + s.name }
func (s *replicas) approvers() string           { return "approval/approver/" + s.name }
func (s *replicas) decisions() string           { return "approval/decided/" + s.name }
func (s *replicas) ownerOf(owner string) string { return "approval/owner/" + owner }
func (s *replicas) key(subject string, n int) string {
	return s.requests() + "/" + subject + "/" + strconv.Itoa(n)
}

// answersFor subscribes to questions whether this process still does something.
func (s *replicas) answersFor(ctx context.Context, subject string) (stop func(), err error) {
	return s.store.Subscribe(ctx, subject, func(ctx context.Context, m store.Message) {
		if m.Reply != nil {
			_ = m.Reply(ctx, []byte("yes")) // a request without a reply fails after a timeout
		}
	})
}

// exists reports whether a process answers for the subject.
func (s *replicas) exists(ctx context.Context, subject string) (bool, error) {
	_, err := s.store.Request(ctx, subject, nil)
	if errors.Is(err, store.ErrNoResponder) {
		return false, nil
	}
	return err == nil, err
}

// A claim is a record that a call owns.
type claim struct {
	*record
	key      string
	revision uint64
	adopted  bool // an earlier call has left it
}

var errPending = errors.New("channel: the request is already pending")

// open makes a record for a request, or takes one that an equal call has left.
func (s *replicas) open(ctx context.Context, own *record, subject string) (*claim, error) {
	for n := range maxEqual {
		c, err := s.openAt(ctx, own, s.key(subject, n))
		if c != nil || err != nil {
			return c, err
		}
	}
	return nil, approval.Errorf(approval.TooMany, "at most %d equal requests may be open", maxEqual)
}

// openAt is open for one key. The claim is nil if another call owns the record with the key.
func (s *replicas) openAt(ctx context.Context, own *record, key string) (*claim, error) {
	for range maxChanges {
		if own.overdue() {
			return nil, approval.Expired
		}
		revision, err := s.store.Create(ctx, key, own.json(), own.ttl())
		if err == nil {
			return &claim{record: own, key: key, revision: revision}, nil
		}
		if !errors.Is(err, store.ErrExists) {
			return nil, unreachable(err)
		}
		item, err := s.store.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, unreachable(err)
		}
		found, err := readRecord(item)
		if err != nil {
			return nil, approval.Errorf(approval.Failed, "%v", err)
		}
		switch owned, err := s.exists(ctx, s.ownerOf(found.Owner)); {
		case err != nil:
			return nil, unreachable(err)
		case owned && found.ID == own.ID:
			return nil, errPending
		case owned:
			return nil, nil
		}
		if found.overdue() {
			if err := s.store.Delete(ctx, key, item.Revision); err != nil && !errors.Is(err, store.ErrConflict) {
				return nil, unreachable(err)
			}
			continue
		}
		found.Owner = own.Owner
		revision, err = s.store.Update(ctx, key, found.json(), item.Revision, found.ttl())
		if err == nil {
			return &claim{record: found, key: key, revision: revision, adopted: true}, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, unreachable(err)
		}
	}
	return nil, nil
}

// withdraw deletes the record of a call that has ended, unless another call owns it now.
func (s *replicas) withdraw(ctx context.Context, c *claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	for revision, n := c.revision, 0; n < maxChanges; n++ {
		err := s.store.Delete(ctx, c.key, revision)
		if !errors.Is(err, store.ErrConflict) {
			return // deleted, or left to the next equal call or its expiry
		}
		item, err := s.store.Get(ctx, c.key)
		if err != nil {
			return
		}
		if found, err := readRecord(item); err != nil || found.Owner != c.Owner {
			return
		}
		revision = item.Revision
	}
}

// take returns the decision in a change of a record, and deletes the record. It returns nil if
// there is none yet.
func (s *replicas) take(ctx context.Context, own *claim, item store.Item) (*decision, error) {
	if item.Revision < own.revision {
		return nil, nil
	}
	lost := approval.Errorf(approval.Lost, "another call has the request")
	if item.Deleted {
		return nil, lost
	}
	found, err := readRecord(item)
	if err != nil || found.Owner != own.Owner {
		return nil, lost
	}
	if own.revision = item.Revision; found.Decision == nil {
		return nil, nil
	}
	switch err := s.store.Delete(ctx, own.key, item.Revision); {
	case errors.Is(err, store.ErrConflict):
		return nil, lost
	case err != nil:
		return nil, unreachable(err)
	}
	return found.Decision, nil
}

// A change is an item of a Watch, or the error that ended it.
type change struct {
	item store.Item
	err  error
}

// watch watches the records with a prefix until end is called.
func (s *replicas) watch(ctx context.Context, prefix string) (changes <-chan change, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	yielded := make(chan change)
	var watching sync.WaitGroup
	watching.Go(func() {
		send := func(c change) bool {
			select {
			case yielded <- c:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for item, err := range s.store.Watch(ctx, prefix) {
			if !send(change{item, err}) {
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
func (s *replicas) decide(ctx context.Context, o *pendingRequest, d *decision) (earlier *decision, err error) {
	ctx, cancel := context.WithTimeout(ctx, cleanUpTimeout)
	defer cancel()
	for range maxChanges {
		item, err := s.store.Get(ctx, o.key)
		if errors.Is(err, store.ErrNotFound) {
			return nil, errDecided
		}
		if err != nil {
			return nil, err
		}
		found, err := readRecord(item)
		if err != nil {
			return nil, err
		}
		switch {
		case found.ID != o.id:
			return nil, errDecided
		case found.Decision != nil || found.overdue():
			return found.Decision, errDecided
		}
		found.Decision = d
		_, err = s.store.Update(ctx, o.key, found.json(), item.Revision, found.ttl())
		if err == nil {
			s.announce(ctx, announcement{o.id, d})
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
	}
	return nil, errDecided
}

// announce informs the approvers of all replicas. Without it they only see that the request has ended.
func (s *replicas) announce(ctx context.Context, a announcement) {
	if text, err := json.Marshal(a); err == nil {
		_ = s.store.Publish(ctx, s.decisions(), text) // it decides nothing
	}
}
