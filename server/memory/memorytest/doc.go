// Package memorytest tests implementations of memory.Store. The memory server relies on
// everything that these tests check.
//
//	func TestStore(t *testing.T) {
//		memorytest.Run(t, func(t *testing.T) memory.Store { return mystore.Open(t.TempDir()) })
//	}
//
// [Run] is for every store, [RunLimits] for stores that enforce [memory.Limits], and
// [RunReopen] for stores that outlast the process.
//
// A store must have room for 300 records per collection and 4 MiB in total during the tests.
// Each test closes its store if that implements io.Closer.
package memorytest
