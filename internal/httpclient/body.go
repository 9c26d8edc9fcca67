package httpclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/transport/httptransport"
)

// minPooled is the length in bytes from which a body keeps its pooled buffer. Copying a
// shorter body is cheaper than tracking who still reads it.
const minPooled = 64 << 10

// Body is a request body. net/http may read it after the request has returned, so its buffer
// is freed when its creator and all readers have released it. The zero value is empty and may
// be released.
type Body struct {
	mu     sync.Mutex
	bytes  []byte
	buffer *bufpool.Buffer // nil if bytes does not belong to a pool
	users  int
}

// Hold sets the content of the body, and takes ownership of the buffer. It is called once.
func (b *Body) Hold(buffer *bufpool.Buffer) {
	if len(buffer.Bytes) < minPooled {
		b.bytes = bytes.Clone(buffer.Bytes)
		buffer.Free()
		return
	}
	b.bytes, b.buffer, b.users = buffer.Bytes, buffer, 1
}

// Bytes returns the content, which is valid until Release.
func (b *Body) Bytes() []byte { return b.bytes }

// Retain adds a user, who must call Release.
func (b *Body) Retain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users++
}

// Release removes a user. The last one frees the buffer.
func (b *Body) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users--; b.users == 0 && b.buffer != nil {
		b.buffer.Free()
	}
}

var errReleased = errors.New("the request body has been released")

// open returns a reader of the whole body.
func (b *Body) open() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.buffer == nil:
		return io.NopCloser(bytes.NewReader(b.bytes)), nil // net/http does not wait for this type
	case b.users == 0:
		return nil, errReleased
	}
	b.users++
	return &bodyReader{body: b}, nil
}

// A bodyReader reads a body. net/http may close it on another goroutine than it reads it.
type bodyReader struct {
	mu   sync.Mutex
	body *Body // nil once the reader is closed
	read int
}

// Read copies the next bytes.
func (r *bodyReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.body == nil {
		return 0, errReleased
	}
	n := copy(p, r.body.bytes[r.read:])
	r.read += n
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close releases the body. It may be called more than once.
func (r *bodyReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.body != nil {
		r.body.Release()
		r.body = nil
	}
	return nil
}

// Progress records how far one message got. The zero value means that it was not sent.
type Progress struct {
	delivery atomic.Int32
	hooks    httptrace.ClientTrace
}

// Delivery returns how far the message got, if it has no response.
func (p *Progress) Delivery() jsonrpc.Delivery { return jsonrpc.Delivery(p.delivery.Load()) }

// trace returns a context in which net/http reports each attempt. net/http retries a request
// only if the connection was closed before anything was written to it.
func (p *Progress) trace(ctx context.Context) context.Context {
	p.gotConn(httptrace.GotConnInfo{}) // other RoundTrippers may report nothing
	p.hooks.GetConn, p.hooks.GotConn = p.getConn, p.gotConn
	return httptrace.WithClientTrace(ctx, &p.hooks)
}

func (p *Progress) getConn(string)                { p.delivery.Store(int32(jsonrpc.NotSent)) }
func (p *Progress) gotConn(httptrace.GotConnInfo) { p.delivery.Store(int32(jsonrpc.MaybeExecuted)) }

// record takes the delivery from an error that says more than the network: whether the server
// refused the request, or the request was not sent.
func (p *Progress) record(err error) {
	if _, redirected := err.(*httptransport.RedirectError); redirected {
		p.delivery.Store(int32(jsonrpc.Rejected))
		return
	}
	failed, ok := errors.AsType[*authorizeError](err)
	switch {
	case ok && failed.refused, isCertificateAlert(err):
		p.delivery.Store(int32(jsonrpc.Rejected))
	case ok:
		p.delivery.Store(int32(jsonrpc.NotSent))
	}
}

// isCertificateAlert reports whether the server has refused the client's certificate. In TLS
// 1.3, the client learns that after it has sent the request, which the server does not read
// (RFC 8446, sections 4.4.2.4 and 6.2).
func isCertificateAlert(err error) bool {
	remote, ok := errors.AsType[*net.OpError](err)
	if !ok || remote.Op != "remote error" { // the Op of alerts in crypto/tls
		return false
	}
	const badCertificate, certificateUnknown, unknownCA, accessDenied, certificateRequired = 42, 46, 48, 49, 116
	for code := tls.AlertError(badCertificate); code <= certificateUnknown; code++ {
		if remote.Err.Error() == code.Error() {
			return true
		}
	}
	switch remote.Err.Error() {
	case tls.AlertError(unknownCA).Error(), tls.AlertError(accessDenied).Error(), tls.AlertError(certificateRequired).Error():
		return true
	}
	return false
}
