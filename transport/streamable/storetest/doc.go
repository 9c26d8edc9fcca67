// Package storetest is a test kit for event stores: what [Run] asks of one, the
// streamable HTTP transport takes for granted.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) streamable.EventStore {
//			return mystore.Open(t.TempDir())
//		})
//	}
//
// A store may lose events at any time; so that there is something to test, it must
// here keep 1,000 events of 1 KiB each for a minute.
package storetest
