package nats_test

import (
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/task/tasktest"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// bench runs an operation with each setting of Sync.
func bench(b *testing.B, prepare func(b *testing.B, s *nats.Store) (operation func() error)) {
	for name, sync := range map[string]time.Duration{"always": 0, "every minute": time.Minute} {
		b.Run(name, func(b *testing.B) {
			operation := prepare(b, embedded(b, b.TempDir(), &nats.Options{Sync: sync}))
			b.ReportAllocs()
			for b.Loop() {
				if err := operation(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	bench(b, func(b *testing.B, s *nats.Store) func() error {
		if _, err := s.Create(b.Context(), "a", make([]byte, 1000), 0); err != nil {
			b.Fatal(err)
		}
		return func() error {
			_, err := s.Get(b.Context(), "a")
			return err
		}
	})
}

func BenchmarkUpdate(b *testing.B) {
	bench(b, func(b *testing.B, s *nats.Store) func() error {
		value := make([]byte, 1000)
		revision, err := s.Create(b.Context(), "a", value, 0)
		if err != nil {
			b.Fatal(err)
		}
		return func() error {
			revision, err = s.Update(b.Context(), "a", value, revision, time.Hour)
			return err
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	bench(b, func(b *testing.B, s *nats.Store) func() error {
		return func() error {
			_, err := s.Append(b.Context(), "a", make([]byte, 1000))
			return err
		}
	})
}

// BenchmarkRead reads 1,000 entries.
func BenchmarkRead(b *testing.B) {
	bench(b, func(b *testing.B, s *nats.Store) func() error {
		for range 1000 {
			if _, err := s.Append(b.Context(), "a", make([]byte, 1000)); err != nil {
				b.Fatal(err)
			}
		}
		return func() error {
			for _, err := range s.Read(b.Context(), "a", 0) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	bench(b, func(b *testing.B, s *nats.Store) func() error {
		return func() error { return s.Publish(b.Context(), "a", make([]byte, 1000)) }
	})
}

// BenchmarkTaskStart reports how long a task waits in the queue of an idle embedded server that syncs
// each write.
func BenchmarkTaskStart(b *testing.B) {
	tasktest.BenchmarkStart(b, embedded(b, b.TempDir(), &nats.Options{}))
}
