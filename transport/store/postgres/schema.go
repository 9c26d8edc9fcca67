package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dovetail-go/dovetail/transport/store"
)

// layout is the version of the tables.
const layout = 1

// createSQL is one transaction. The lock lets one replica at a time create the tables.
//
// A value of NULL is a deletion, which is stored for deletionAge. The ids of a stream are first to
// last; its first id is the time in microseconds since 1970. A job without due has been done; it
// is stored for the duplicate window. While a worker has the job, due is the end of its lease and
// token identifies the delivery.
const createSQL = `
SELECT pg_advisory_xact_lock(hashtextextended('dovetail {s}', 0));
DO $$ BEGIN IF to_regnamespace('{s}') IS NULL THEN CREATE SCHEMA {s}; END IF; END $$;
CREATE SEQUENCE IF NOT EXISTS {s}.numbers;
CREATE TABLE IF NOT EXISTS {s}.kv (
	key text COLLATE "C" PRIMARY KEY, value bytea, revision bigint NOT NULL, expires timestamptz NOT NULL);
CREATE INDEX IF NOT EXISTS kv_expires ON {s}.kv (expires);
CREATE TABLE IF NOT EXISTS {s}.streams (
	name text COLLATE "C" PRIMARY KEY, first bigint NOT NULL, last bigint NOT NULL, changed timestamptz NOT NULL);
CREATE INDEX IF NOT EXISTS streams_changed ON {s}.streams (changed);
CREATE TABLE IF NOT EXISTS {s}.entries (
	stream text COLLATE "C", id bigint, data bytea NOT NULL, created timestamptz NOT NULL, PRIMARY KEY (stream, id));
CREATE INDEX IF NOT EXISTS entries_created ON {s}.entries (created, id);
CREATE TABLE IF NOT EXISTS {s}.jobs (
	queue text COLLATE "C", id text COLLATE "C", number bigint NOT NULL, data bytea NOT NULL, pushed timestamptz NOT NULL,
	due timestamptz, attempt int NOT NULL, token bigint NOT NULL, PRIMARY KEY (queue, id));
CREATE INDEX IF NOT EXISTS jobs_due ON {s}.jobs (queue, due, number) WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS jobs_done ON {s}.jobs (pushed) WHERE due IS NULL;
CREATE TABLE IF NOT EXISTS {s}.layout (version int PRIMARY KEY, swept timestamptz NOT NULL);
INSERT INTO {s}.layout SELECT 1, now() WHERE NOT EXISTS (SELECT FROM {s}.layout);
`

// errLayout is the error of tables of another version.
var errLayout = errors.New("postgres: the tables are of another version")

// createTables creates the tables unless they exist. Then it needs no permission to create
// anything.
func (s *Store) createTables(ctx context.Context) error {
	if s.created.Load() {
		return nil
	}
	var exists bool
	if err := s.row(ctx, nil, "SELECT to_regclass('{s}.layout') IS NOT NULL", nil, &exists); err != nil {
		return err
	}
	if !exists {
		// The simple protocol runs several statements as one transaction.
		if _, err := s.exec(ctx, createSQL, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("postgres: cannot create the tables in the schema %s: %w", s.schema, err)
		}
	}
	version := 0
	if err := s.row(ctx, nil, "SELECT max(version) FROM {s}.layout", nil, &version); err != nil {
		return err
	}
	if version != layout {
		return fmt.Errorf("%w: those in the schema %s have version %d, expected %d", errLayout, s.schema, version, layout)
	}
	s.created.Store(true)
	return nil
}

const (
	// sweepPause is the time between two sweeps, by any of the replicas.
	sweepPause = 10 * time.Second
	// sweepRows is how many rows of one kind a transaction deletes.
	sweepRows = 1000
	// deletionAge is how long a deletion is stored, so that a Watch whose connection was lost
	// learns of it.
	deletionAge = time.Hour
	// streamAge is how long a stream without entries is stored. Its next entry needs a greater
	// id, so the clock of the server may be wrong by this time.
	streamAge = time.Hour
)

// Rows that another transaction has locked are left to the next sweep, since waiting for them
// could end in a deadlock.
const (
	sweepTurnSQL = `UPDATE {s}.layout SET swept = now() WHERE swept <= now() - $1::interval`

	sweepValuesSQL = `
WITH old AS (SELECT key FROM {s}.kv WHERE expires <= now() LIMIT $1 FOR UPDATE SKIP LOCKED)
DELETE FROM {s}.kv USING old WHERE kv.key = old.key`

	sweepEntriesSQL = `
WITH old AS (SELECT stream, id FROM {s}.entries WHERE created <= now() - $2::interval ORDER BY created, id LIMIT $1 FOR UPDATE SKIP LOCKED)
DELETE FROM {s}.entries e USING old WHERE e.stream = old.stream AND e.id = old.id`

	sweepBytesSQL = `
WITH excess AS (SELECT sum(length(data)) - $2 AS bytes FROM {s}.entries),
old AS (SELECT stream, id, created, length(data) AS size FROM {s}.entries WHERE (SELECT bytes FROM excess) > 0
	ORDER BY created, id LIMIT $1 FOR UPDATE SKIP LOCKED),
summed AS (SELECT stream, id, sum(size) OVER (ORDER BY created, id, stream) - size AS bytes FROM old)
DELETE FROM {s}.entries e USING summed, excess WHERE e.stream = summed.stream AND e.id = summed.id AND summed.bytes < excess.bytes`

	sweepStreamsSQL = `
WITH old AS (SELECT name FROM {s}.streams WHERE changed <= now() - $2::interval LIMIT $1 FOR UPDATE SKIP LOCKED)
DELETE FROM {s}.streams USING old WHERE streams.name = old.name`

	sweepJobsSQL = `
WITH old AS (SELECT queue, id FROM {s}.jobs WHERE due IS NULL AND pushed <= now() - $2::interval LIMIT $1 FOR UPDATE SKIP LOCKED)
DELETE FROM {s}.jobs j USING old WHERE j.queue = old.queue AND j.id = old.id`
)

// sweepOften deletes expired rows until the store is closed.
func (s *Store) sweepOften() {
	for {
		select {
		case <-time.After(sweepPause):
		case <-s.ctx.Done():
			return
		}
		turn := int64(0)
		_ = s.do(s.ctx, func(ctx context.Context) (err error) { // the next sweep tries again
			turn, err = s.exec(ctx, sweepTurnSQL, sweepPause)
			return err
		})
		for more := turn > 0; more; {
			more, _ = s.sweep(s.ctx)
		}
	}
}

// sweep deletes up to sweepRows rows of each kind in one transaction, and reports whether there
// may be more.
func (s *Store) sweep(ctx context.Context) (more bool, err error) {
	batch := &pgx.Batch{}
	batch.Queue(s.sql(sweepValuesSQL), sweepRows)
	batch.Queue(s.sql(sweepEntriesSQL), sweepRows, s.limits.LogAge)
	batch.Queue(s.sql(sweepBytesSQL), sweepRows, s.limits.LogBytes)
	batch.Queue(s.sql(sweepStreamsSQL), sweepRows, s.limits.LogAge+streamAge)
	batch.Queue(s.sql(sweepJobsSQL), sweepRows, store.DuplicateWindow)
	err = s.do(ctx, func(ctx context.Context) error {
		results := s.pool.SendBatch(ctx, batch)
		for range batch.Len() {
			tag, err := results.Exec()
			if err != nil {
				results.Close()
				return err
			}
			more = more || tag.RowsAffected() == sweepRows
		}
		return results.Close()
	})
	return more && err == nil, err
}
