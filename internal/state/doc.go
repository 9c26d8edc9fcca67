// Package state keeps what replicas share in a store: sealed records, and the keys that seal them and what outlives a
// request.
package state
