package client_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func BenchmarkCallTool(b *testing.B) {
	eachEra(b, func(b *testing.B, era client.Era) {
		session := connect(b, transport.Pipe(newSampler()), client.Options{Era: era})
		arguments := map[string]string{"word": "oak"}
		call := func(ctx context.Context, b *testing.B) {
			if _, err := session.CallTool(ctx, "say", arguments, nil); err != nil {
				b.Error(err)
			}
		}
		b.Run("sequential", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call(b.Context(), b)
			}
		})
		b.Run("parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call(b.Context(), b)
				}
			})
		})
	})
}

func BenchmarkTools1000(b *testing.B) {
	s := newServer(nil)
	for i := range 1000 {
		server.AddTool(s, server.Tool{Name: fmt.Sprintf("tool-%d", i), Description: "One of many."},
			func(context.Context, *server.Request, sumIn) (string, error) { return "", nil })
	}
	eachEra(b, func(b *testing.B, era client.Era) {
		session := connect(b, transport.Pipe(s), client.Options{Era: era})
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			for _, err := range session.Tools(b.Context()) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != 1000 {
				b.Fatalf("%d tools", n)
			}
		}
	})
}
