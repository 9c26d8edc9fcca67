package sqlite

import (
	"cmp"
	"context"
	"database/sql"
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

// DefaultBusyTimeout is how long an operation waits for another process that writes.
const DefaultBusyTimeout = 5 * time.Second

// maxReaders is how many operations can read at the same time.
const maxReaders = 4

// Options configure a [Store]. The zero value is good.
type Options struct {
	// Limits bound what the store keeps. Default: those of package memory.
	Limits *memory.Limits
	// BusyTimeout is how long an operation waits for other processes that write to
	// the file, in whole milliseconds. Default [DefaultBusyTimeout].
	BusyTimeout time.Duration
}

// A Store is a [memory.Store] in a SQLite file. Make one with [Open].
type Store struct {
	limits *memory.Limits
	writer *sql.DB // one connection: who writes waits here, not for the file's lock
	reader *sql.DB
}

var _ memory.Store = (*Store)(nil)

// Open opens the file at path, or makes it, in a folder that exists. It brings the
// schema up to date. A database that is not a memory's is [ErrForeign], one from the
// future a *[VersionError]. Close the store when it is not needed any more.
func Open(ctx context.Context, path string, opts *Options) (*Store, error) {
	var options Options
	if opts != nil {
		options = *opts
	}
	if path == "" || path == ":memory:" {
		return nil, fmt.Errorf("sqlite: expected the path of a file, got %q; for a store that does not last use memory.InMemory", path)
	}
	store, err := open(ctx, path, &options)
	if err != nil {
		return nil, fmt.Errorf("sqlite: opening %s: %w", path, err)
	}
	return store, nil
}

func open(ctx context.Context, path string, opts *Options) (*Store, error) {
	path, err := filepath.Abs(path) // connections are made later, too
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

// create makes a file that only its user can read; the driver would make it for all,
// and gives the files beside it the same mode. It does not open one that is there:
// closing it would take the locks of this process away.
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

// connect returns a pool of connections.
func connect(path string, timeout time.Duration, connections int, key, value string) (*sql.DB, error) {
	query := url.Values{
		"mode":          {"rw"}, // create has made it
		"_busy_timeout": {strconv.FormatInt(timeout.Milliseconds(), 10)},
		"_synchronous":  {"FULL"}, // saved means: on the disk
		"_pragma":       {"secure_delete(on)", "trusted_schema(off)"},
		"_defensive":    {"true"},
		"_dqs":          {"false"}, // "x" is a name, never a text
		"_error_rc":     {"true"},
		key:             {value},
	}
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // before a drive's letter
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

// prepare looks whose file it is before it changes anything.
func (s *Store) prepare(ctx context.Context, timeout time.Duration) error {
	if _, err := versionOf(ctx, s.reader); err != nil {
		return err
	}
	if err := s.keepLog(ctx, timeout); err != nil {
		return err
	}
	return migrate(ctx, s.writer)
}

// keepLog gives the file a write-ahead log, with which readers and a writer do not wait
// for each other, and which stays with the file. SQLite does not wait for the lock that
// this takes: two that want it would wait for each other.
func (s *Store) keepLog(ctx context.Context, timeout time.Duration) error {
	patience, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pause := backoff.Backoff{Min: time.Millisecond, Max: 50 * time.Millisecond}
	for {
		var mode string
		err := s.writer.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		switch {
		case mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("the file cannot have a write-ahead log, its journal mode is %s", mode)
		case !isBusy(err) || pause.Wait(patience) != nil:
			return err
		}
	}
}

func isBusy(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_BUSY // above are the bits of its kinds
}

// Close closes the file. Operations that run may fail. It may be called more than
// once.
func (s *Store) Close() error { return errors.Join(s.reader.Close(), s.writer.Close()) }
