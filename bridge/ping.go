package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

const pingTimeout = 15 * time.Second

// pings asks a server for signs of life while its session lasts, and has the session
// ended when two in a row do not come. A server that does one thing at a time gives none
// while it works: it may be silent for as long as a call may take without progress.
func (p *pool) pings(ctx context.Context, s *slot, session *client.Session) error {
	if p.opts.PingInterval < 0 {
		return nil
	}
	patience := max(p.opts.CallTimeout, jsonrpc.DefaultCallTimeout) + p.opts.PingInterval
	ticker := time.NewTicker(p.opts.PingInterval)
	defer ticker.Stop()
	missed := 0
	s.hear()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if p.isAlive(ctx, session) {
			missed = 0
			s.hear()
			continue
		}
		if missed++; missed > 1 && !s.mayBeSilent(patience) {
			return errSilent
		}
	}
}

// isAlive says whether the server answers; an error is an answer.
func (p *pool) isAlive(ctx context.Context, session *client.Session) bool {
	ctx, cancel := context.WithTimeout(ctx, min(p.opts.PingInterval, pingTimeout))
	defer cancel()
	err := session.Ping(ctx)
	_, answered := errors.AsType[*jsonrpc.Error](err)
	return err == nil || answered
}
