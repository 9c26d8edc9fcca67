package main

import "context"

// A plainRig is a rig made of functions.
type plainRig struct {
	do func(ctx context.Context) error
	closers
}

// newRig makes a rig that closes the last one first.
func newRig(do func(ctx context.Context) error, closes ...func() error) Rig {
	return &plainRig{do, closes}
}

func (r *plainRig) Do(ctx context.Context) error { return r.do(ctx) }
func (r *plainRig) Close() error                 { return r.close() }
