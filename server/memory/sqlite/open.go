package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	driver "modernc.org/sqlite" // which is "sqlite" to sql.Open
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/dovetail-go/dovetail/internal/backoff"
	"github.com/dovetail-go/dovetail/server/memory"
)

// DefaultBusyTimeout is the default of [Options].BusyTimeout.
const DefaultBusyTimeout = 5 * time.Second

// maxReaders is the number of concurrent reads.
const maxReaders = 4

// Options configure a [Store]. The zero value is ready to use.
type Options struct {
	// Limits bound what the store keeps. nil means the default limits of package memory.
	Limits *memory.Limits
	// BusyTimeout is how long an operation waits while another process writes to the file,
	// with a resolution of milliseconds. Default [DefaultBusyTimeout].
	BusyTimeout time.Duration
}

// A Store is a [memory.Store] in a SQLite file. Create one with [Open].
type Store struct {
	limits *memory.Limits
	writer *sql.DB // one connection, so that writers of this process do not contend for the file lock
	reader *sql.DB
}

var _ memory.Store = (*Store)(nil)

// Open opens the file at path, or creates it in an existing folder. It upgrades the schema of
// an older file. A database of another application is [ErrForeign], one of a newer version a
// *[VersionError]. The caller must close the store.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	var options Options
	if opts != nil {
		options = *opts
	}
	if path == "" || path == ":memory:" {
		return nil, fmt.Errorf("sqlite: expected the path of a file, got %q; for a store without a file use memory.InMemory", path)
	}
	store, err := open(ctx, path, &options)
	if err != nil {
		return nil, fmt.Errorf("sqlite: opening %s: %w", path, err)
	}
	return store, nil
}

func open(ctx context.Context, path string, opts *Options) (*Store, error) {
	path, err := filepath.Abs(path) // because connections are opened later, too
	if err != nil {
		return nil, err
	}
	if err := create(path); err != nil {
		return nil, err
	}
	timeout := cmp.Or(opts.BusyTimeout, DefaultBusyTimeout)
	writer, err := connect(path, timeout, 1, "_txlock", "immediate")
	if err != nil {
		return nil, err
	}
	reader, err := connect(path, timeout, maxReaders, "_query_only", "on")
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	store := &Store{writer: writer, reader: reader}
	if opts.Limits != nil {
		store.limits = new(*opts.Limits)
	}
	if err := store.prepare(ctx, timeout); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// create creates a file that only its user can read. The driver would make it readable for all
// users; it gives the additional files the same mode. create does not open an existing file,
// because closing it would release the locks of this process: fcntl(2).
func create(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// connect returns a pool of connections with one additional parameter.
func connect(path string, timeout time.Duration, connections int, key, value string) (*sql.DB, error) {
	query := url.Values{
		"mode":          {"rw"}, // create has created it
		"_busy_timeout": {strconv.FormatInt(timeout.Milliseconds(), 10)},
		"_synchronous":  {"FULL"}, // a saved record is on disk
		"_pragma":       {"secure_delete(on)", "trusted_schema(off)"},
		"_defensive":    {"true"},
		"_dqs":          {"false"}, // "x" is an identifier, not a string
		"_error_rc":     {"true"},
		key:             {value},
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // before the letter of a drive
	}
	name := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// prepare checks the file before it changes anything.
func (s *Store) prepare(ctx context.Context, timeout time.Duration) error {
	if _, err := schemaVersion(ctx, s.reader); err != nil {
		return err
	}
	if err := s.enableWAL(ctx, timeout); err != nil {
		return err
	}
	return migrate(ctx, s.writer)
}

// enableWAL gives the file a write-ahead log permanently, so that readers and a writer do not
// block each other. It retries, because SQLite does not wait for this lock.
func (s *Store) enableWAL(ctx context.Context, timeout time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pause := backoff.Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond}
	for {
		var mode string
		err := s.writer.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("the file does not support a write-ahead log, its journal mode is %s", mode)
		case !isBusy(err) || pause.Wait(bounded) != nil:
			return err
		}
	}
}

func isBusy(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_BUSY // the higher bits are the extended code
}

// Close closes the file. Operations in progress may fail. Further calls do nothing.
func (s *Store) Close() error { return errors.Join(s.reader.Close(), s.writer.Close()) }

// migrations are the steps from an empty file to the current schema. Number n upgrades to
// version n. A released migration must not change.
//
//go:embed schema/*.sql
var migrations embed.FS

// version is the version of the schema, which is the number of migrations.
const version = 1

// applicationID identifies the files of this package ("dvtm"), in PRAGMA application_id.
const applicationID = 0x6476746d

// ErrForeign says that a file is a SQLite database of another application. The file is
// unchanged.
var ErrForeign = errors.New("the database belongs to another application")

// A VersionError says that a newer version of this package has written the file. The file is
// unchanged.
type VersionError struct {
	// Found is the version of the file, Known the newest version that this package supports.
	Found, Known int
}

// Error names the versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the file has version %d, this program supports versions up to %d: use a newer program", e.Found, e.Known)
}

// A querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// schemaVersion returns the version of the schema in a file, 0 for an empty file.
func schemaVersion(ctx context.Context, db querier) (int, error) {
	var id, found, tables int
	err := db.QueryRowContext(ctx, `SELECT
		(SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`).Scan(&id, &found, &tables)
	switch {
	case err != nil:
		return 0, err
	case id == 0 && found == 0 && tables == 0:
		return 0, nil
	case id != applicationID:
		return 0, ErrForeign
	case found > version:
		return 0, &VersionError{Found: found, Known: version}
	}
	return found, nil
}

// migrate upgrades the schema, each version in one transaction.
func migrate(ctx context.Context, db *sql.DB) error {
	for {
		found, err := schemaVersion(ctx, db)
		if err != nil || found == version {
			return err
		}
		if err := migrateTo(ctx, db, found+1); err != nil {
			return fmt.Errorf("to version %d: %w", found+1, err)
		}
	}
}

func migrateTo(ctx context.Context, db *sql.DB, next int) error {
	step, err := migrations.ReadFile(fmt.Sprintf("schema/%d.sql", next))
	if err != nil {
		return err
	}
	return transact(ctx, db, func(tx *sql.Tx) error {
		if found, err := schemaVersion(ctx, tx); err != nil || found >= next {
			return err // another process has upgraded it
		}
		if _, err := tx.ExecContext(ctx, string(step)); err != nil {
			return err
		}
		// PRAGMA supports no parameters.
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, next))
		return err
	})
}
