package webclient

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// A Progress is how far one message got. The zero value is that of one that has not
// been sent.
type Progress struct {
	delivery atomic.Int32
	hooks    httptrace.ClientTrace
}

// Delivery says how far the message got, if there is no answer to it.
func (p *Progress) Delivery() jsonrpc.Delivery { return jsonrpc.Delivery(p.delivery.Load()) }

// trace has net/http tell of each attempt: it makes another one only when the
// connection had gone before anything was written to it.
func (p *Progress) trace(ctx context.Context) context.Context {
	p.left(httptrace.GotConnInfo{}) // a RoundTripper of another kind may tell nothing
	p.hooks.GetConn, p.hooks.GotConn = p.waits, p.left
	return httptrace.WithClientTrace(ctx, &p.hooks)
}

func (p *Progress) waits(string)               { p.delivery.Store(int32(jsonrpc.NotSent)) }
func (p *Progress) left(httptrace.GotConnInfo) { p.delivery.Store(int32(jsonrpc.MaybeExecuted)) }

// settle learns from an error that tells more than the network: whether the server has
// answered, or was not even asked.
func (p *Progress) settle(err error) {
	if _, redirected := err.(*RedirectError); redirected {
		p.delivery.Store(int32(jsonrpc.Rejected))
		return
	}
	denied, ok := errors.AsType[*notAdmittedError](err)
	switch {
	case ok && denied.refused:
		p.delivery.Store(int32(jsonrpc.Rejected))
	case ok:
		p.delivery.Store(int32(jsonrpc.NotSent))
	}
}
