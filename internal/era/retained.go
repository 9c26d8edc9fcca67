package era

import (
	"bytes"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// Memory in bytes of what a client leaves behind, in addition to the bytes that it has sent.
const (
	sessionMemory = 2 << 10
	memberMemory  = 128 // of a member of an object
	watchMemory   = 512
	openMemory    = 4 << 10 // of a request that stays open
)

// paramsSize returns the size of decoded params. A colon in a string counts as a member.
func paramsSize(params []byte) int64 {
	return int64(len(params)) + memberMemory*int64(bytes.Count(params, []byte{':'}))
}

// retain counts a request that stays open. The caller calls release when it ends. The error is a *[jsonrpc.Error] with
// [jsonrpc.Busy].
func (b *binding) retain(req *jsonrpc.Request, caller *mcp.Caller, watches int) (release func(), err error) {
	retained, holder := b.server.retained, quota.HolderOf(caller.Principal, caller.Network)
	size := openMemory + paramsSize(req.Params) + 2*int64(len(req.Params)) + watchMemory*int64(watches) // with the body of the request, and what is decoded
	if err := retained.Take(holder, size); err != nil {
		return nil, err
	}
	return func() { retained.Return(holder, size) }, nil
}

// take counts bytes that the legacy session keeps until it ends. The error is as in retain. b.legacy.mu is held.
func (b *binding) take(size int64) error {
	if b.legacy.closed {
		return nil
	}
	if err := b.server.retained.Take(b.holder(), size); err != nil {
		return err
	}
	b.legacy.held += size
	return nil
}

// giveBack counts bytes no longer that were taken. b.legacy.mu is held.
func (b *binding) giveBack(size int64) {
	if !b.legacy.closed {
		b.server.retained.Return(b.holder(), size)
		b.legacy.held -= size
	}
}

// close gives back all bytes of the legacy session.
func (b *binding) close() {
	b.legacy.mu.Lock()
	defer b.legacy.mu.Unlock()
	b.giveBack(b.legacy.held)
	b.legacy.closed = true
}

func (b *binding) holder() quota.Holder { return quota.HolderOf(b.link.Principal, b.link.Network) }

// takeHandshake counts the handshake of a session in place of the last one.
func (b *binding) takeHandshake(params []byte) error {
	b.legacy.mu.Lock()
	defer b.legacy.mu.Unlock()
	size := sessionMemory + b.copies()*paramsSize(params)
	if err := b.take(size); err != nil {
		return err
	}
	b.giveBack(b.legacy.handshake)
	b.legacy.handshake = size
	return nil
}

// watchSize returns the size of a watch of the legacy session.
func (b *binding) watchSize(uri string) int64 { return watchMemory + b.copies()*int64(len(uri)) }

// copies is how often a session keeps what its client has sent: once itself, and once more in its state.
func (b *binding) copies() int64 {
	if b.link.State != nil {
		return 2
	}
	return 1
}
