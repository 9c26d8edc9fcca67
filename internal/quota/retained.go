package quota

import (
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport"
)

// shares is how many clients can hold their whole share of a [Retained] at the same time.
const shares = 8

// Retained limits the bytes that the clients of a server leave behind: what is kept after a request has been
// answered. All clients together hold at most its maximum. While more than half of that is held, one client
// may not hold more than an eighth. Below, it may: behind a proxy, all clients may look like one. So one client that
// takes all that it gets leaves half of the bytes to others. Its methods may be called concurrently. A nil *Retained has no limit.
type Retained struct {
	max   int64
	whole *Retained // nil if it is no part

	mu       sync.Mutex
	held     int64
	byHolder map[Holder]int64
}

// NewRetained returns an empty Retained. It returns nil, which has no limit, if most is negative.
func NewRetained(most int64) *Retained {
	if most < 0 {
		return nil
	}
	return &Retained{max: most, byHolder: make(map[Holder]int64)}
}

// Part returns an empty Retained with a maximum of its own. What it holds is also held by r.
func (r *Retained) Part(most int64) *Retained {
	if r == nil {
		return nil
	}
	part := NewRetained(most)
	part.whole = r
	return part
}

// Take counts bytes that a client leaves behind. The error is a *[jsonrpc.Error] with [jsonrpc.Busy]: there is no
// room for them. The caller passes the same number to [Retained.Return] later.
func (r *Retained) Take(h Holder, bytes int64) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.max - r.held
	if r.held+bytes > r.max/2 && h.hasShare() {
		room = min(room, r.max/shares-r.byHolder[h])
	}
	if bytes > room {
		return r.full(bytes, max(0, room))
	}
	if err := r.whole.Take(h, bytes); err != nil {
		return err
	}
	r.add(h, bytes)
	return nil
}

// Add counts bytes that are kept already, such as those that another replica has stored. It has no limit.
func (r *Retained) Add(h Holder, bytes int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole.Add(h, bytes)
	r.add(h, bytes)
}

// add counts bytes, which are negative when they are given back. r.mu is held.
func (r *Retained) add(h Holder, bytes int64) {
	r.held += bytes
	if !h.hasShare() {
		return
	}
	if r.byHolder[h] += bytes; r.byHolder[h] <= 0 {
		delete(r.byHolder, h)
	}
}

// retryAfter is when a refused client may try again, in seconds. Over HTTP, it is in the header Retry-After too.
const retryAfter = 5

// full returns the error for bytes that have no room.
func (r *Retained) full(bytes, room int64) error {
	err := &jsonrpc.Error{
		Code:    jsonrpc.Busy,
		Message: fmt.Sprintf("the request leaves %d bytes behind in the server, which has room for %d from this client at this time", bytes, room),
	}
	if bytes <= r.max/2 { // it may have room later
		err.Message += fmt.Sprintf("; end what is open, or try again in %d seconds", retryAfter)
		err.Data = fmt.Appendf(nil, `{"retryAfterMs":%d}`, retryAfter*1000)
	}
	return err
}

// Return gives back bytes that were taken.
func (r *Retained) Return(h Holder, bytes int64) { r.Add(h, -bytes) }

// Usage returns how many bytes are held, of how many.
func (r *Retained) Usage() transport.Usage {
	if r == nil {
		return transport.Usage{}
	}
	return transport.Usage{Used: r.Held(), Max: r.max}
}

// Held returns how many bytes are held.
func (r *Retained) Held() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}
