// Package soak tests the transports and the bridge under abuse and load: oversized messages
// on every path, thousands of connections, clients that stop reading, concurrent clients
// with the same request IDs, session IDs of other clients, and processes that are killed
// during calls. The tests log times; only behaviour and memory can fail.
//
// Without a build tag the counts are small. With the build tag soak they are the full
// ones, or a part of them: a tenth with DOVETAIL_SOAK_PART=10.
package soak
