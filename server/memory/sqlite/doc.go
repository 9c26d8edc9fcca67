// Package sqlite stores the records of a memory server in a SQLite file. It is a separate
// module, so that only its users depend on SQLite. The driver is written in Go.
//
//	store, err := sqlite.Open(ctx, "memory.db", nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//	s := memory.New(store, nil)
//
// # Guarantees
//
//  1. A saved record is on disk, also after a crash of the machine. A deleted record is
//     overwritten.
//  2. Several processes of one machine may use the same file concurrently. The file must not
//     be on a network file system.
//  3. Only the owner of the file can read it.
//  4. Other programs may read the table record and delete from it while the store is open.
//     Triggers maintain the counts that limits need.
//  5. PRAGMA user_version is the version of the schema. [Open] upgrades a file of an older
//     version and rejects a file of a newer one.
//
// While the file is open, two more files exist, with the suffixes -wal and -shm. To copy the
// database, use "VACUUM INTO" or the command .backup of the sqlite3 shell.
package sqlite
