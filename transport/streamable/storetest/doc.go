// Package storetest tests implementations of [streamable.EventStore]. Package streamable relies
// on the properties that [Run] checks.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) streamable.EventStore {
//			return mystore.Open(t.TempDir())
//		})
//	}
//
// A store may lose events at any time. In these tests it must keep 1,000 events of 1 KiB each
// for a minute.
package storetest
