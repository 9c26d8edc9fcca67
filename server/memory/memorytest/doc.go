// Package memorytest is a test kit for stores of a memory server: what it asks of
// one, the server takes for granted.
//
//	func TestStore(t *testing.T) {
//		memorytest.Run(t, func(t *testing.T) memory.Store { return mystore.Open(t.TempDir()) })
//	}
//
// [Run] is for every store, [RunLimits] for those that bound what they keep, and
// [RunReopen] for those that last longer than the process.
//
// So that there is something to test, a store must here have room for 300 records in
// a collection and 4 MiB in all. Stores that are an io.Closer are closed when
// a test is through with them.
package memorytest
