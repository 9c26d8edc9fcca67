package code_test

import (
	"fmt"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/code"
	"github.com/dovetail-go/dovetail/server/servertest"
)

// BenchmarkScript measures a script with 0, 1 and 50 calls, over a pipe.
func BenchmarkScript(b *testing.B) {
	session := connect(b, newTools(&ledger{}).Provider(), &code.Options{Engine: engine()}, &servertest.Options{})
	for _, calls := range []int{0, 1, 50} {
		b.Run(fmt.Sprintf("calls=%d", calls), func(b *testing.B) {
			script := fmt.Sprintf(`for (let i = 0; i < %d; i++) await tools.add({A: i, B: i})`, calls)
			b.ReportAllocs()
			for b.Loop() {
				if r, err := tryRun(b.Context(), session, script); err != nil || r.IsError {
					b.Fatal(r, err)
				}
			}
		})
	}
}
