package servertest

import (
	"context"
	"log/slog"
	"sync"
	"testing"
)

// Logger returns a logger for server.Options. It writes records to the log of the test, and a
// record of level Warn or higher fails the test: a panic, an internal error, an entry that is not
// offered, a question whose error the tool did not return. Records after the end of the test are
// dropped.
func Logger(tb testing.TB) *slog.Logger {
	output := &testOutput{tb: tb}
	tb.Cleanup(output.end)
	return slog.New(&testHandler{slog.NewTextHandler(output, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
			if len(groups) == 0 && attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		},
	}), output})
}

// testOutput writes lines to the log of a test that has not ended.
type testOutput struct {
	tb    testing.TB
	mu    sync.Mutex
	ended bool
}

func (o *testOutput) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

// Write logs a line.
func (o *testOutput) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.tb.Logf("%s", line)
	}
	return len(line), nil
}

func (o *testOutput) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.tb.Fail()
	}
}

// A testHandler fails the test for warnings and errors.
type testHandler struct {
	slog.Handler
	output *testOutput
}

// Handle logs a record.
func (h *testHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		h.output.fail()
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs returns a handler that adds attributes to records.
func (h *testHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &testHandler{h.Handler.WithAttrs(attrs), h.output}
}

// WithGroup returns a handler that qualifies attributes.
func (h *testHandler) WithGroup(name string) slog.Handler {
	return &testHandler{h.Handler.WithGroup(name), h.output}
}
