package memory

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// errStore is what callers see of a store's faults.
var errStore = errors.New("the memory cannot be reached now; nothing is known to have been saved or deleted")

// A screen stands before a store: it bounds the time of its operations and keeps its
// faults, which may tell of paths and addresses, for the operator's log.
type screen struct {
	store   Store
	timeout time.Duration // negative: none
	logger  *slog.Logger
}

// Save keeps a record.
func (s *screen) Save(ctx context.Context, in Collection, record Record) error {
	_, err := screened(ctx, s, "save", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, s.store.Save(ctx, in, record)
	})
	return err
}

// Load returns a record's value.
func (s *screen) Load(ctx context.Context, in Collection, key string) (string, error) {
	return screened(ctx, s, "load", func(ctx context.Context) (string, error) { return s.store.Load(ctx, in, key) })
}

// Delete drops a record.
func (s *screen) Delete(ctx context.Context, in Collection, key string) (bool, error) {
	return screened(ctx, s, "delete", func(ctx context.Context) (bool, error) { return s.store.Delete(ctx, in, key) })
}

// List returns the records that a query chooses.
func (s *screen) List(ctx context.Context, in Collection, query Query) ([]Record, error) {
	return screened(ctx, s, "list", func(ctx context.Context) ([]Record, error) { return s.store.List(ctx, in, query) })
}

func screened[T any](ctx context.Context, s *screen, operation string, run func(context.Context) (T, error)) (T, error) {
	within := ctx
	if s.timeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	result, err := run(within)
	if err == nil {
		return result, nil
	}
	if full, ok := errors.AsType[*FullError](err); ok {
		return result, full
	}
	switch {
	case errors.Is(err, ErrNotFound):
		return result, ErrNotFound
	case ctx.Err() != nil:
		return result, context.Cause(ctx) // the caller has gone, or has no more time
	}
	s.logger.Error("the memory's store failed", "operation", operation, "error", err)
	return result, errStore
}
