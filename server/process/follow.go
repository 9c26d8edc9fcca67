package process

import (
	"context"
	"time"
)

// Follow is [Process.Wait] that tells how the command gets on: whenever so much time has
// passed and something has been written, and at the end, how many bytes outputs have taken
// by now, and what last, as far as one of them keeps it. Nothing waits for tell but Follow
// itself.
func (p *Process) Follow(ctx context.Context, every time.Duration, tell func(written int64, last []byte), outputs ...*Output) (Exit, error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	seen := make([]int64, len(outputs))
	look := func() {
		var written int64
		var last []byte
		for i, output := range outputs {
			text, now, _ := output.Since(seen[i])
			if len(text) > 0 {
				last = text
			}
			seen[i] = now
			written += now
		}
		if last != nil {
			tell(written, last)
		}
	}
	for {
		select {
		case <-tick.C:
			look()
		case <-p.done:
			look()
			return p.Wait(ctx)
		case <-ctx.Done():
			return p.Wait(ctx)
		}
	}
}
