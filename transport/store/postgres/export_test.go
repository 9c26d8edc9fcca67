package postgres

import "context"

// Sweep deletes what has expired, once.
func (s *Store) Sweep(ctx context.Context) (more bool, err error) { return s.sweep(ctx) }
