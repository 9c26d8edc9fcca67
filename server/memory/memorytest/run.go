package memorytest

import (
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
)

// Run tests what every store does, each property as a subtest. open returns an empty
// store; it is called once for each subtest and may use t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) memory.Store) {
	for _, property := range []struct {
		name string
		test func(f *fixture)
	}{
		{"Values", testValues},
		{"Keys", testKeys},
		{"Replacing", testReplacing},
		{"Missing", testMissing},
		{"Deleting", testDeleting},
		{"Order", testOrder},
		{"Prefixes", testPrefixes},
		{"Pages", testPages},
		{"Collections", testCollections},
		{"EndedContext", testEndedContext},
		{"Concurrency", testConcurrency},
		{"OneKey", testOneKey},
		{"OneDeletes", testOneDeletes},
	} {
		t.Run(property.name, func(t *testing.T) {
			f := newFixture(t)
			f.store = open(t)
			defer f.close()
			property.test(f)
		})
	}
}
