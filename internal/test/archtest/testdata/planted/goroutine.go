// Package planted starts goroutines in every way there is.
package planted

import (
	"context"
	"sync"
	"time"
)

func start(ctx context.Context, f func()) {
	var group sync.WaitGroup
	go f()                    // want "go statement"
	group.Go(f)               // want "Go starts"
	time.AfterFunc(1, f)      // want "AfterFunc starts"
	context.AfterFunc(ctx, f) // want "AfterFunc starts"
}
