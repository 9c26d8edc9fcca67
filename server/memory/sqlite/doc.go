// Package sqlite keeps what a memory server remembers in a SQLite file. It is a
// module of its own, so that only who wants SQLite gets it; the driver is pure Go.
//
//	store, err := sqlite.Open(ctx, "memory.db", nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer store.Close()
//	s := memory.New(store, nil)
//
// What has been saved is on the disk, also after a crash of the machine. Several
// processes may have one file open, on one machine: the file must not lie on a network
// drive. What has been deleted is overwritten.
//
// # The file
//
// It is made so that only its user can read it. Other programs may read the table
// record, and delete from it, while the store is open: triggers count what limits bound.
// Beside the file stand two more while it is open, with -wal and -shm behind their names;
// to copy it, use "VACUUM INTO" or the command .backup of the sqlite3 shell.
//
// PRAGMA user_version is the version of the schema. A file of an older version is
// brought up to date when it is opened, one of a newer version is refused.
package sqlite
