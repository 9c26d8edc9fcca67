// Package redis is a [store.Store] on a Redis or Valkey server, for operators who run one already. It is a separate
// module, so that only its users depend on the client.
//
//	s, err := redis.Connect(ctx, "rediss://user:password@redis.example:6379/0", nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer s.Close()
//
// rediss verifies the certificate of the server with the authorities of the operating system. On
// Linux, the environment variable SSL_CERT_FILE names a file of others.
//
// [New] takes a client of go-redis instead of a URL: for sentinels, for a cluster, or with options
// that a URL does not have.
//
// It needs Redis 6.2 or later, or Valkey. The server must have the eviction policy noeviction,
// since any other deletes sessions and jobs when the memory is full. With noeviction, the store
// returns [store.ErrFull]. When a store connects, it logs a warning if the server has another policy
// and a limit of memory. The page docs/replicas.md of the repository has the permissions (ACL) that
// the user needs.
//
// # What may be lost
//
//  1. With appendonly yes and appendfsync always, a write that has succeeded is on the disk of
//     the server.
//  2. With appendfsync everysec, the writes of about the last second are lost when the machine
//     ends. With appendfsync no, those since the operating system last wrote its buffers, often
//     30 seconds.
//  3. Without appendonly, the writes since the last snapshot are lost when the process ends.
//  4. Replicas of the server receive writes asynchronously. After a failover, the writes that
//     the new primary has not received are lost, with each of these settings.
//
// Lost writes include the counters of revisions and ids, so that a revision or id can be given
// out again.
//
// # Guarantees
//
//  1. Each change is one Lua script, which has effect completely or not at all. The client does
//     not try again. An operation that fails because the connection is lost may have had effect.
//  2. While the server cannot be reached, operations fail within Options.Timeout. Watch, Follow,
//     Pull and subscriptions go on when it can be reached again, by themselves.
//  3. A store has one connection for all subscriptions, and a pool of connections for
//     operations, whose maximum the pool_size of the URL or the PoolSize of the client sets.
//  4. The sum of the entries of all streams is not bounded: Limits.LogBytes has no effect. The
//     entries of one stream are bounded by age and number.
//  5. The times of leases and entries are read from the clock of the server.
//
// # Sentinel
//
// With a client for sentinels, see [New], operations fail while there is no primary. They succeed
// when the client knows the next one, and waits and subscriptions go on there. The warning of the
// eviction policy is about the first primary only.
//
// # Redis Cluster
//
// All keys of a store begin with the same hash tag, "{prefix}", so that they are in one slot, as
// scripts require. A store with a client for a cluster, see [New], sends all commands to the node that
// has this slot, and subscribes there. Stores with other prefixes may use other nodes.
//
//  1. An operation that the node refuses, because the slot has moved or is moving, fails. The store
//     then asks the cluster which node has it.
//  2. The nodes pass on messages of [store.Bus], also to subscribers that are connected to another
//     node because the slot has moved. A subscriber connects to the node with the slot within two
//     times Options.Timeout.
//  3. Request returns [store.ErrNoResponder] after a second, if no node has a subscriber.
//
// With [Connect], a store uses one address and does not follow the redirections of a cluster.
//
// # Requests after a failover
//
// For 5 seconds after the connection for subscriptions was replaced, Request returns another error
// than [store.ErrNoResponder] if there is no subscriber, since subscribers may not have connected
// again.
//
// # Logs
//
// Options.Logger receives what the store logs. go-redis has one logger for all clients in the
// process, which [SetClientLogger] sets.
package redis
