package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dovetail-go/dovetail/transport/store"
)

// Defaults of [Options].
const (
	defaultSchema  = "dovetail"
	defaultTimeout = 5 * time.Second
)

// Options configures a [Store]. Zero values mean the defaults.
type Options struct {
	// Schema is the name of the schema with the tables. Stores with the same schema, in the same
	// database, share their data. It consists of at most 40 lowercase ASCII letters, digits and
	// "_", and does not begin with a digit. Default "dovetail".
	Schema string
	// Limits must be the same in all replicas. LogBytes is enforced every 10 seconds: until then,
	// the sum can be larger.
	Limits store.Limits
	// Timeout is the maximum time of an operation that does not wait for its context. Default 5 s.
	Timeout time.Duration
	// Logger receives a warning if the server cannot be reached at the beginning. Default slog.Default().
	Logger *slog.Logger
}

// A Store is a [store.Store] in a PostgreSQL database. Its methods may be called concurrently.
// They refuse values of more than [store.MaxValue] + [store.SealOverhead] bytes with
// [store.ErrTooLarge], and return [store.ErrFull] if the disk of the server is full.
type Store struct {
	pool    *pgxpool.Pool
	owned   bool   // the store closes pool
	schema  string // quoted
	channel string // of the notifications for all replicas
	class   uint32 // first key of the advisory locks of the replicas
	limits  store.Limits
	timeout time.Duration
	hub     hub
	outbox  chan notification
	created atomic.Bool // the tables exist

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup // own goroutines and the handlers of messages
	handlers sync.Mutex     // orders additions to running and Close
}

var _ store.Store = (*Store)(nil)

// Connect returns a store in the database with a URL such as
// "postgres://user:password@host:5432/database?sslmode=verify-full", in the form that
// [pgxpool.ParseConfig] defines. opts may be nil. Connect creates the schema and its tables if they do
// not exist. It returns an error if this is not permitted, if the server has no valid certificate or refuses the user, or if ctx ends. If the
// server cannot be reached within the timeout, Connect logs a warning and returns the store: its operations fail until
// the server can be reached. ctx does not limit the use of the store. The caller must call Close.
func Connect(ctx context.Context, url string, opts *Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("postgres: the URL is invalid: %w", err)
	}
	// A dial of the pool goes on after the operation that began it.
	config.ConnConfig.ConnectTimeout = defaultTimeout
	if opts != nil && opts.Timeout > 0 {
		config.ConnConfig.ConnectTimeout = opts.Timeout
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s, err := New(ctx, pool, opts)
	if err != nil {
		pool.Close()
		return nil, err
	}
	s.owned = true
	return s, nil
}

// New is like [Connect], with a pool of the caller, which Close does not close. The store takes
// one connection out of the pool, to listen for notifications. The configuration of the pool must
// not set OnNotification, and the isolation level of its transactions must be read committed.
func New(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	o.Schema = cmp.Or(o.Schema, defaultSchema)
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	limits, err := o.Limits.WithDefaults()
	if err != nil {
		return nil, err
	}
	if !regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`).MatchString(o.Schema) {
		return nil, fmt.Errorf("postgres: Options.Schema is %q, expected at most 40 lowercase letters, digits and _", o.Schema)
	}
	if o.Timeout < 0 {
		return nil, fmt.Errorf("postgres: Options.Timeout is %v, expected more than 0", o.Timeout)
	}
	s := &Store{
		pool:    pool,
		schema:  pgx.Identifier{o.Schema}.Sanitize(),
		channel: "dovetail:" + o.Schema,
		class:   lockClass(o.Schema),
		limits:  limits,
		timeout: o.Timeout,
		outbox:  make(chan notification, maxOutbox),
		hub: hub{
			established: make(chan struct{}),
			listeners:   map[string][]listener{},
			requests:    map[uint64]*request{},
		},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Go(s.listen)
	s.running.Go(s.sendLater)
	s.running.Go(s.sweepOften)
	err = s.do(ctx, func(ctx context.Context) error {
		_, err := s.connected(ctx)
		return err
	})
	_, otherServer := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case err == nil:
	case ctx.Err() == nil && isTemporary(err) && !otherServer:
		cmp.Or(o.Logger, slog.Default()).Warn("postgres: the server cannot be reached; operations of the store fail until it can", "error", err)
	default:
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends all waits with [store.ErrClosed], closes the connections and waits for the
// subscribers' calls of handle in progress. Handle must not call it. Operations on a closed
// store return ErrClosed. Close may be called again. It returns nil.
func (s *Store) Close() error {
	s.handlers.Lock()
	s.cancel()
	s.handlers.Unlock()
	s.running.Wait()
	if s.owned {
		s.pool.Close()
	}
	return nil
}

// do runs an operation with the names and the time limit that it has. It does not try again: an
// operation that has failed may have had effect.
func (s *Store) do(ctx context.Context, operation func(ctx context.Context) error, names ...string) error {
	for _, name := range names {
		if err := store.CheckName(name); err != nil {
			return err
		}
	}
	if err := s.ended(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := s.createTables(limited)
	if err == nil {
		err = operation(limited)
	}
	if err == nil {
		return nil
	}
	if ended := s.ended(ctx); ended != nil {
		return ended
	}
	switch sqlState(err) {
	case "53100": // disk_full
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case "42P01": // undefined_table: the next operation creates the tables again
		s.created.Store(false)
	}
	return err
}

// exec runs a statement and returns the number of rows that it has changed or returned. {s} is replaced by the schema.
func (s *Store) exec(ctx context.Context, sql string, args ...any) (rows int64, err error) {
	tag, err := s.pool.Exec(ctx, s.sql(sql), args...)
	return tag.RowsAffected(), err
}

// row runs a statement and scans the row that it returns. It returns otherwise if there is none.
func (s *Store) row(ctx context.Context, otherwise error, sql string, args []any, to ...any) error {
	err := s.pool.QueryRow(ctx, s.sql(sql), args...).Scan(to...)
	if errors.Is(err, pgx.ErrNoRows) {
		return otherwise
	}
	return err
}

func (s *Store) sql(text string) string { return strings.ReplaceAll(text, "{s}", s.schema) }

// query returns the rows of a statement as structs, by the order of their fields.
func query[T any](ctx context.Context, s *Store, sql string, args ...any) ([]T, error) {
	rows, err := s.pool.Query(ctx, s.sql(sql), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}

// ended returns the error of an operation whose context has ended or whose store is closed.
func (s *Store) ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		return store.ErrClosed
	}
	return nil
}

// isTemporary reports whether a wait goes on after an error: the server cannot be reached, has
// no resources, is starting or ending, has become a standby, or has lost the tables.
func isTemporary(err error) bool {
	state := sqlState(err)
	if state == "" {
		return !errors.Is(err, store.ErrPurged) && !errors.Is(err, errLayout)
	}
	switch state[:min(2, len(state))] {
	case "08", "40", "53", "57":
		return true
	}
	return state == "25006" || state == "42P01" // read_only_sql_transaction, undefined_table
}

// sqlState returns the SQLSTATE of an error that the server returned, or "".
func sqlState(err error) string {
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok {
		return reply.Code
	}
	return ""
}

// checked returns data that are not nil, which would be NULL, or an error if they are too large.
func checked(data []byte) ([]byte, error) {
	if limit := store.MaxValue + store.SealOverhead; len(data) > limit {
		return nil, fmt.Errorf("%w: %d bytes, the maximum is %d", store.ErrTooLarge, len(data), limit)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}

// signal makes a channel with room for one value ready.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
