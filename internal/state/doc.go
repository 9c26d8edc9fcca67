// Package state keeps in a store what replicas share and what outlives a request: sealed records, and the keys that
// seal them. Its workers take the jobs of a queue.
package state
