// Package tasktest measures tasks on any store.
package tasktest

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/state"
	"github.com/dovetail-go/dovetail/internal/task"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/transport/store"
)

// BenchmarkStart creates one task after the other, and reports how long it takes from the end of Create,
// when the task is in the queue, to the start of its call: the median and the 99th percentile, in
// milliseconds.
func BenchmarkStart(b *testing.B, shared store.Store) {
	ring, err := token.NewRing()
	if err != nil {
		b.Fatal(err)
	}
	begun := make(chan time.Time, 1)
	engine := task.New(task.Config{
		Store: shared, Key: state.FixedKey(ring), Shared: true, Max: 100,
		Run: func(context.Context, *task.Run) task.Outcome {
			begun <- time.Now()
			return task.Outcome{Result: json.RawMessage(`{}`)}
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	delays := make([]time.Duration, 0, b.N)
	for b.Loop() {
		created, err := engine.Create(b.Context(), task.Spec{TaskRequest: mcp.TaskRequest{TTL: time.Hour}, Call: json.RawMessage(`{}`), State: json.RawMessage(`{}`)})
		queued := time.Now()
		if err != nil {
			b.Fatal(err)
		}
		delays = append(delays, max(0, (<-begun).Sub(queued))) // it may begin before Create returns
		for got := created; !got.Status.Ended(); {
			if got, err = engine.Get(b.Context(), created.TaskID, ""); err != nil {
				b.Fatal(err)
			}
		}
	}
	slices.Sort(delays)
	b.ReportMetric(milliseconds(delays[len(delays)/2]), "p50-ms")
	b.ReportMetric(milliseconds(delays[len(delays)*99/100]), "p99-ms")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := engine.Stop(ended); err != nil {
		b.Error(err)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
