// Package eratest plays the other side of a connection in tests of the protocol's eras,
// frame by frame: a [Peer] is a client, a [Host] is a server.
package eratest
