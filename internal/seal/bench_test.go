package seal_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/seal"
)

func BenchmarkSeal(b *testing.B) {
	r := ring(b)
	for _, size := range []int{64, 4096} {
		plaintext := make([]byte, size)
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Seal(plaintext, binding, later); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	r := ring(b)
	for _, size := range []int{64, 4096} {
		token := sealed(b, r, strings.Repeat("a", size))
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Open(token, binding, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpenForged is the most that a client can make a server do for a token.
func BenchmarkOpenForged(b *testing.B) {
	var keys [][]byte
	for i := range seal.MaxKeys {
		keys = append(keys, key(byte(i)))
	}
	r := ring(b, keys...)
	token := "dt1." + strings.Repeat("A", (seal.MaxToken-4)/4*4)
	b.SetBytes(int64(len(token)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Open(token, binding, now); err == nil {
			b.Fatal("a forged token opened")
		}
	}
}
