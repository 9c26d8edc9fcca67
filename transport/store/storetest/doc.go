// Package storetest tests implementations of [store.Store]. Each sentence of its contracts has
// a subtest.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T, limits store.Limits) storetest.Engine {
//			server := startServer(t)
//			return storetest.Engine{
//				Connect: func() store.Store { return connect(t, server, limits) },
//				Stop:    server.Stop,
//				Start:   server.Start,
//			}
//		})
//	}
//
// [Run] takes about 10 seconds, since values and leases expire. [RunVirtual] tests a store that
// has no sockets in virtual time.
//
// An operation that does not wait for its context must take at most 5 seconds. If a store
// implements [io.Closer], its operations must return [store.ErrClosed] after Close, and Close
// may be called again.
package storetest
