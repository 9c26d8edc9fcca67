package forward

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A logLevel is the level that a legacy server has been told: one for all calls of a
// session.
type logLevel struct {
	turn chan struct{} // held by the call that changes the level
	told atomic.Pointer[mcp.LoggingLevel]
}

// set records the level that the server was told.
func (l *logLevel) set(level mcp.LoggingLevel) {
	if level != "" {
		l.told.Store(&level)
	}
}

// levelTimeout bounds how long a call waits until its server has taken a log level.
const levelTimeout = 5 * time.Second

// exceeds reports whether a level is more verbose than the one that the server was told.
func (l *logLevel) exceeds(level mcp.LoggingLevel) bool {
	told := l.told.Load()
	return level != "" && (told == nil || level.Severity() < told.Severity())
}

// setLevel has a legacy server log what a caller wants, unless it does already. The call
// is worth making without its log, so errors are ignored.
func (s *Session) setLevel(ctx context.Context, level mcp.LoggingLevel) {
	l := &s.level
	if s.Server().Capabilities.Logging == nil || !l.exceeds(level) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, levelTimeout)
	defer cancel()
	// One at a time, so that the last level that the server gets is the most verbose.
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-l.turn }()
	if !l.exceeds(level) {
		return
	}
	_, err := s.Do(ctx, mcp.MethodSetLevel, &mcp.SetLevelParams{Level: level}, nil)
	if failed, ok := errors.AsType[*jsonrpc.CallError](err); !ok || failed.Delivery != jsonrpc.NotSent {
		l.set(level)
	}
}
