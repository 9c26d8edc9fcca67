// Package postgres is a [store.Store] in a PostgreSQL database, for operators who run one already. It is a separate
// module, so that only its users depend on the driver, pgx.
//
//	s, err := postgres.Connect(ctx, "postgres://user:password@db.example:5432/shop?sslmode=verify-full", nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer s.Close()
//
// It needs PostgreSQL 14 or later; the tests use the version of Debian. The connections must be sessions of the server:
// PgBouncer in the mode for transactions or statements does not work, since the store listens for notifications and
// holds a lock while it listens.
//
// # Permissions
//
// The first store creates the schema and the tables in one transaction. It needs CREATE on the
// database, or on the schema if that exists. After that, a role needs
//
//	GRANT CONNECT ON DATABASE shop TO replica;
//	GRANT USAGE ON SCHEMA dovetail TO replica;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dovetail TO replica;
//	GRANT USAGE ON ALL SEQUENCES IN SCHEMA dovetail TO replica;
//
// Any role of the database can send notifications on the channel "dovetail:" and the schema, which
// are the messages of [store.Bus], and listen there. Do not share the database with roles that you
// do not trust, or use [store.Sealed].
//
// # What may be lost
//
//  1. With synchronous_commit on, the default, a write that has succeeded is on the disk of the
//     server.
//  2. With synchronous_commit off, the writes of about the last half second are lost when the
//     server ends.
//  3. After a failover to a standby, the writes that it has not received are lost, unless
//     synchronous_standby_names lets commits wait for it.
//
// Lost writes include the revisions and ids, so that one can be given out again.
//
// # Guarantees
//
//  1. Each change is one transaction, which has effect completely or not at all. Its isolation level
//     must be read committed, the default of PostgreSQL. The store does not try again. An operation that fails because the connection is lost may have had effect.
//  2. While the server cannot be reached, operations fail within Options.Timeout. Watch, Follow,
//     Pull and subscriptions go on when it can be reached again, by themselves. After a failover,
//     the URL must lead to the new primary, for example with several hosts and
//     target_session_attrs=read-write.
//  3. The entries of a stream are committed in the order of their ids. Appends to one stream wait
//     for one another.
//  4. Waits are woken by notifications, and also read every 10 seconds.
//  5. Expired data is invisible from then on. One of the stores deletes it every 10 seconds, in transactions of at most
//     1,000 rows of each kind.
//  6. Limits.LogBytes is enforced then, too: in between, the sum can be larger.
//  7. The times of leases, values and entries are read from the clock of the server.
//  8. A store has one connection that listens, and a pool of connections for operations, whose
//     maximum the pool_max_conns of the URL sets: by default 4, or the number of processors if
//     that is greater.
//
// # Messages
//
// All replicas receive all messages of [store.Bus], including those without a subscriber. A message of more than about
// 6,000 bytes is several notifications of one transaction. PostgreSQL commits the transactions with notifications of
// all databases of a server one after the other; transactions of the store that only notify do not write to the disk.
// PostgreSQL keeps notifications until all sessions that listen have received them, in at most 8 GB.
package postgres
