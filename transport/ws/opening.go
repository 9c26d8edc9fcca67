package ws

import (
	"context"
	"errors"
	"net"
	"time"
)

// An opening bounds what gorilla/websocket does not: a handshake ends with its
// context, and is short.
type opening struct {
	ctx  context.Context // of one Dial
	conn *openingConn
	stop func() bool
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// watch makes a dial function whose connection is watched.
func (o *opening) watch(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		o.conn = &openingConn{Conn: conn, left: maxHandshake}
		o.stop = context.AfterFunc(o.ctx, func() {
			_ = conn.SetDeadline(time.Unix(1, 0)) // it fails when the handshake has failed
		})
		return o.conn, nil
	}
}

// finish leaves the connection alone from now on, unless the context has ended
// before.
func (o *opening) finish() bool {
	if o.conn == nil {
		return true
	}
	o.conn.opened = true
	return o.stop()
}

// classify marks what the network is to blame for: all that fails on a connection or
// in making one, but not, for example, a header that must not be set.
func (o *opening) classify(err error) error {
	var network net.Error
	if o.conn != nil || errors.As(err, &network) {
		return notReached{err}
	}
	return err
}

// An openingConn takes a bounded number of bytes until it is opened.
type openingConn struct {
	net.Conn
	opened bool
	left   int
}

func (c *openingConn) Read(p []byte) (int, error) {
	if c.opened {
		return c.Conn.Read(p)
	}
	if c.left <= 0 {
		return 0, errLongHandshake
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
