// Package eratest has the peers for tests of package era: a [Peer] is a client and a [Host] a
// server. Tests see and send whole frames.
package eratest
