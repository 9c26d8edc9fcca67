// Package state seals what outlives a request with secrets that replicas share in a store.
package state
