package servertest

import (
	"context"

	"github.com/dovetail-go/dovetail/server/internal/effects"
)

// Effect marks a side effect of the function that runs with ctx, such as the payment in a test's fake of a bank. A
// function that asks runs again after each answer (server.Elicit), and what is before a question happens again. The
// test fails if a run of a call has an effect that an earlier run of the same call has had, by its name. What
// server.Once keeps happens once, and so does everything in a blocking tool.
//
// ctx is the context that the function gets, or one that is derived from it. With any other, and without [Connect],
// Effect does nothing. It may be called concurrently.
func Effect(ctx context.Context, name string) { effects.Add(ctx, name) }
