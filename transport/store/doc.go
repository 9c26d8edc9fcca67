// Package store is the state that the replicas of a server share, so that any replica can
// serve any request, and nothing is lost when one of them ends.
//
// A [Store] has four capabilities:
//
//  1. [KV]: values with keys, revisions and a time to live: sessions, open approvals, keys;
//  2. [Log]: streams of entries, to be read again after a lost connection;
//  3. [Queue]: jobs that are done at least once, by one worker at a time;
//  4. [Bus]: messages between the replicas that are running.
//
// [NewMemory] is a store for one process. The packages store/nats, store/redis and
// store/postgres, each a module of its own, are stores for several. [Sealed] encrypts what reaches such a store, if its
// operators are not trusted. Package storetest tests an implementation.
package store
