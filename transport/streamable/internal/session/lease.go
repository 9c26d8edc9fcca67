package session

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/store"
)

// A lease tells other replicas that this one has not ended. It is a key of the store that expires.
//
// Every call with a stream has one outcome: the first last entry of the stream, at which all readers of the
// stream stop. Another replica adds one, an error, only after it has seen that the lease does not
// exist. So a replica that has held its lease from the beginning of the stream until after it has added
// the last entry knows that its entry is the first. Otherwise it reads the stream, and sends the client
// the outcome that it finds there. A call thus needs no further operation of the store.
//
// This assumes that the store deletes no key before its time to live has passed on the clock of the
// replica.
type lease struct {
	mu     sync.Mutex
	until  time.Time // the lease exists until then, at least
	lapses int       // how often the lease has ceased to exist
}

// The id of a replica is a number in hexadecimal digits. The ids of its questions to clients begin with it.
const (
	replicaIDLength = 7
	// questionBits is how many bits of a question's id count the questions of one session. With the id
	// of the replica, they are the 53 bits that are exact in JavaScript. A replica can ask 2^25
	// questions in a session.
	questionBits = 53 - 4*replicaIDLength
)

func newReplicaID() string {
	var random [4]byte
	rand.Read(random[:]) // never fails
	return fmt.Sprintf("%07x", binary.BigEndian.Uint32(random[:])>>4)
}

// firstQuestion returns the id of the first question of a replica to the client of a session.
func firstQuestion(replica string) int64 {
	n, err := strconv.ParseInt(replica, 16, 64)
	if err != nil {
		panic(err) // newReplicaID has made it
	}
	return n<<questionBits + 1
}

// askedBy returns the id of the replica that has asked the question with an id, or "" if no replica
// makes such ids.
func askedBy(id jsonrpc.ID) string {
	n, err := strconv.ParseFloat(strings.Trim(id.String(), `"`), 64) // clients may write 4 as 4.0 or "4"
	if err != nil || !(0 <= n && n < 1<<53) {
		return ""
	}
	return fmt.Sprintf("%07x", int64(n)>>questionBits)
}

func leaseKey(replica string) string { return "replica/" + replica }

// createLease begins the lease of this replica, with a new id if another replica has the same.
func (r *replicas) createLease() error {
	ctx, cancel := context.WithTimeout(r.sessions.ctx, storeTimeout)
	defer cancel()
	for {
		begun := time.Now()
		_, err := r.sessions.store.Create(ctx, leaseKey(r.id), []byte(r.id), leaseTTL)
		if err == nil {
			r.lease.set(begun, true)
			return nil
		}
		r.id = newReplicaID()
		if !errors.Is(err, store.ErrExists) {
			return err
		}
	}
}

// keepLease refreshes the lease until the endpoint is closed.
func (r *replicas) keepLease() {
	ticker := time.NewTicker(leaseTTL / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-r.sessions.ctx.Done():
			return
		}
		if err := r.refreshLease(); err != nil && r.sessions.ctx.Err() == nil {
			r.sessions.config.Logger.Warn("streamable: the lease of this replica could not be refreshed", "error", err)
		}
	}
}

func (r *replicas) refreshLease() error {
	ctx, cancel := context.WithTimeout(r.sessions.ctx, leaseTTL/3)
	defer cancel()
	begun := time.Now()
	item, err := r.sessions.store.Get(ctx, leaseKey(r.id))
	switch lapsed := errors.Is(err, store.ErrNotFound); {
	case lapsed:
		r.lease.set(time.Time{}, true)
		_, err = r.sessions.store.Create(ctx, leaseKey(r.id), []byte(r.id), leaseTTL)
	case err == nil:
		_, err = r.sessions.store.Update(ctx, leaseKey(r.id), item.Value, item.Revision, leaseTTL)
	}
	if err == nil {
		r.lease.set(begun, false)
	}
	return err
}

// endLease tells other replicas that this one has ended.
func (r *replicas) endLease() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	_ = r.sessions.store.Delete(ctx, leaseKey(r.id), 0) // it also expires
}

// hasLease reports whether a replica has not ended.
func (r *replicas) hasLease(ctx context.Context, replica string) (bool, error) {
	_, err := r.sessions.store.Get(ctx, leaseKey(replica))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return true, err
}

// lapseCount returns how often the lease has ceased to exist.
func (r *replicas) lapseCount() int {
	r.lease.mu.Lock()
	defer r.lease.mu.Unlock()
	return r.lease.lapses
}

// holds reports whether the lease exists, and has existed since there were some lapses.
func (r *replicas) holds(lapses int) bool {
	if !r.sessions.shared {
		return true
	}
	r.lease.mu.Lock()
	defer r.lease.mu.Unlock()
	return r.lease.lapses == lapses && time.Now().Before(r.lease.until)
}

// set notes when the lease was begun or refreshed, and whether it has lapsed before.
func (l *lease) set(begun time.Time, lapsed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = begun.Add(leaseTTL)
	if lapsed {
		l.lapses++
	}
}
