// Package memnet is a network in memory for tests of servers and clients in virtual time.
package memnet
