package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/transport/store"
)

// benchmarkSize is the size in bytes of a short JSON-RPC message.
const benchmarkSize = 200

func BenchmarkAppend(b *testing.B) {
	for _, streams := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			m, data := newMemory(b, nil), make([]byte, benchmarkSize)
			names := make([]string, streams)
			for i := range names {
				names[i] = fmt.Sprintf("events/%d/%d", i/10, i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := m.Append(b.Context(), names[i%streams], data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	m := newMemory(b, nil)
	for i := range 10_000 {
		if _, err := m.Create(b.Context(), fmt.Sprint("key/", i), make([]byte, benchmarkSize), 0); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Get(b.Context(), "key/4242"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	m, data := newMemory(b, nil), make([]byte, benchmarkSize)
	received := make(chan struct{})
	stop, err := m.Subscribe(b.Context(), "subject", func(context.Context, store.Message) { received <- struct{}{} })
	if err != nil {
		b.Fatal(err)
	}
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Publish(b.Context(), "subject", data); err != nil {
			b.Fatal(err)
		}
		<-received
	}
}
