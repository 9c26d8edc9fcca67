// Package nats is a [store.Store] in the JetStream of NATS servers. It is a separate module, so
// that only its users depend on NATS. The server is written in Go.
//
// [Embedded] starts a server in the process, in about 30 milliseconds and without a listener: for
// one machine whose state must survive restarts. With [Options].Listen, other processes of the
// machine use the same server:
//
//	s, err := nats.Embedded("/var/lib/shop", &nats.Options{Listen: "127.0.0.1:4222", Token: secret}) // the first process
//	s, err := nats.Connect(ctx, "nats://127.0.0.1:4222", &nats.Options{Token: secret})               // the others
//
// [Connect] uses a server or a cluster, version 2.11 or newer:
//
//	s, err := nats.Connect(ctx, "nats://a:4222,nats://b:4222,nats://c:4222", &nats.Options{Replicas: 3})
//
// The server may start after the programs that connect to it.
//
// # What may be lost
//
//  1. Embedded, Sync 0 (the default): nothing that an operation has confirmed, even if the
//     machine fails. Each write waits for the disk.
//  2. Embedded, Sync greater than 0: nothing if the process ends or is killed; if the machine
//     fails, what was written during the last Sync. Writes are several times faster.
//  3. Connect, Replicas 1: what the server's settings sync_interval and sync always say. By
//     default a server syncs every two minutes. While the server is down, operations fail.
//  4. Connect, Replicas 3 (5): nothing if one (two) of the servers fail, and operations succeed
//     after a pause of seconds while a new leader is elected. If more machines fail at the same time,
//     as in 3.
//
// The ids of jobs that have been acknowledged are forgotten when the server restarts: a job may
// then be added again within [store.DuplicateWindow].
//
// # Guarantees
//
//  1. No operation takes longer than [Options].Timeout, except Watch, Follow and Pull, which
//     wait. If the server cannot be reached for that time, operations fail, and Watch,
//     Follow and Pull wait for it. When it is back, the store works again. If the server then
//     refuses the connection, operations fail with its reason.
//  2. Values are read from the leader of a stream, so that a replica reads what another has
//     written.
//  3. Watch ends with an error after an interruption of an hour, since the marks of deleted keys
//     are stored for so long.
//  4. A job is delivered again half a second after its lease has expired.
//  5. [store.Limits].LogBytes bounds the sum of all streams. Values and jobs are bounded by the
//     limits of the server, for an embedded one three quarters of the free disk space. Beyond that,
//     operations return [store.ErrFull].
//  6. If streams have been deleted, or the server has lost its disk, the next operation that needs
//     them creates them again, without data. Watch and Pull go on. Follow goes on or yields
//     [store.ErrPurged]. Ids and revisions from before are not used again. Ack, Nak and Extend of a
//     job from before return [store.ErrLost], or have no effect.
//  7. Values larger than the max_payload of the server, 1 MiB by default, are
//     [store.ErrTooLarge].
//
// # In the server
//
// With the default prefix, the values are the bucket "dovetail", which "nats kv" shows; the
// entries and the jobs are the streams "dovetail-log" and "dovetail-queue"; the messages of the
// bus have subjects that begin with "dovetail.bus.". The sequence numbers of a new stream begin
// with the time in microseconds since 1970. A client needs the permission to create these streams, and
// their consumers.
package nats
