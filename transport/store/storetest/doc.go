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
// [Run] takes about 20 seconds with two processors, since values and leases expire; with
// -test.parallel=16 it takes half of that. [RunVirtual] tests a store that has no sockets in
// virtual time.
//
// An operation that does not wait for its context must take at most 5 seconds. If a store
// implements [io.Closer], its operations must return [store.ErrClosed] after Close, and Close
// may be called again.
package storetest
