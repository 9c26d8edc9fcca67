// Package redis is a [store.Store] on a Redis or Valkey server, for those who run one already. It
// is a separate module, so that only its users depend on the client.
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
// It needs Redis 6.2 or later, or Valkey. The server must have the eviction policy noeviction,
// since any other deletes sessions and jobs when the memory is full. With noeviction, the store
// returns [store.ErrFull].
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
//     operations, whose maximum the pool_size of the URL sets.
//  4. The sum of the entries of all streams is not bounded: Limits.LogBytes has no effect. The
//     entries of one stream are bounded by age and number.
//  5. The times of leases and entries are those of the clock of the server.
//
// # Redis Cluster
//
// All keys of a store begin with the same hash tag, "{prefix}", so that they are in one slot, as
// scripts require. The store uses one address: it does not follow the redirections of a cluster,
// and it needs a new address after a failover unless the name of the host or a proxy leads to
// the new primary. [store.Bus].Request needs the subscribers on the same node.
package redis
