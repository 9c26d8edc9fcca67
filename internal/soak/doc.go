// Package soak abuses and loads the transports and the bridge: far too big messages at
// every entrance, thousands of connections, clients that stop reading, many clients that
// use the same ids, thieves of session ids, processes that are killed under load. Times
// are printed; only behaviour and memory fail.
//
// What go test runs is small. With the build tag soak the counts are the full ones,
// or a part of them: a tenth with DOVETAIL_SOAK_PART=10.
package soak
