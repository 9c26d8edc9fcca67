// Package state keeps in a store what outlives a request. Features that have such state use it, so that they behave alike
// whether the store is shared by replicas or belongs to one process.
package state
