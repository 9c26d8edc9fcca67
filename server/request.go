package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// A Request is the call that a function answers, and the way back to its caller. It is
// valid until the function returns; its methods may be called concurrently.
type Request struct {
	call   *mcp.Call
	server *Server // nil if the function is registered with none
}

// Call returns the call as it came. Its Target says what is called.
func (r *Request) Call() *mcp.Call { return r.call }

// Caller describes the caller. It is shared: do not change it.
func (r *Request) Caller() *mcp.Caller { return r.call.Caller }

// Meta returns a member of the request's _meta, nil if there is none.
func (r *Request) Meta(key string) json.RawMessage { return r.call.Member("_meta", key) }

// Progress tells the caller how far the call is, if the caller wants to know.
// done must go up: a value that is not above the last is dropped. total is 0 when
// unknown; message may be empty and needs version 2025-03-26. The notification
// arrives before the result.
func (r *Request) Progress(ctx context.Context, done, total float64, message string) error {
	token := r.Meta(mcp.MetaProgressToken)
	if token == nil {
		return nil
	}
	p, ok := reports.Get().(*report)
	if !ok {
		p = new(report)
	}
	p.params = mcp.ProgressParams{ProgressToken: mcp.ProgressToken(token), Progress: done, Message: message}
	if total > 0 {
		p.total = total
		p.params.Total = &p.total
	}
	err := r.call.Notify(ctx, mcp.NotificationProgress, &p.params)
	p.params = mcp.ProgressParams{}
	reports.Put(p)
	return err
}

// A report is progress while it is sent.
type report struct {
	params mcp.ProgressParams
	total  float64
}

var reports sync.Pool // of *report

// Detach hangs up while the function goes on, so that a long call does not hold a
// connection open: the client comes back for what it missed, and for the result,
// after retry (0 leaves the pause to the client). Only a client over streamable
// HTTP that speaks 2025-11-25 can; for any other nothing happens. MCP 2025-11-25,
// basic/transports, "Sending Messages to the Server".
func (r *Request) Detach(retry time.Duration) { r.call.Detach(retry) }

// Logger returns a logger whose records go to the caller as log messages, from
// the level on that the caller wants, before the call's result. The name may be
// empty.
func (r *Request) Logger(name string) *slog.Logger {
	return slog.New(&logHandler{request: r, name: name})
}

// logger is that of the operator.
func (r *Request) logger() *slog.Logger {
	if r.server == nil {
		return slog.Default()
	}
	return r.server.options.Logger
}
