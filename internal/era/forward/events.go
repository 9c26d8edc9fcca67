package forward

import (
	"context"
	"sync"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/mcp"
)

// forwardStream forwards a call of events/stream. It relays the notifications of the stream, in
// order and unchanged except for what belongs to one hop. If the caller reads too slowly, the stream
// ends, and the caller continues it at its last position.
func (s *Session) forwardStream(ctx context.Context, call *mcp.Call, opts *Options) (mcp.Result, error) {
	params, err := s.paramsOf(call, opts, nil)
	if err != nil {
		return nil, notSent(call, err)
	}
	streaming, cancel := context.WithCancel(ctx)
	queue := era.NewEventQueue(maxQueued, maxQueuedBytes, cancel)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { queue.End(s.ExchangeStream(streaming, &params, queue.Add)) })
	for {
		waiting, ended, err := queue.Take()
		for _, n := range waiting {
			if err := call.Notify(ctx, n.Method, mcp.Raw(n.Params)); err != nil {
				return nil, err
			}
		}
		switch {
		case len(waiting) > 0:
			continue
		case ended:
			return mcp.Raw("{}"), err
		}
		select {
		case <-queue.Ready():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
