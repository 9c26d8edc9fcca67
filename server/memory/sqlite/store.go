package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/dovetail-go/dovetail/server/memory"
)

const (
	sqlUsage = `SELECT
		(SELECT count(*) FROM record WHERE owner = ?1 AND kind = ?2 AND user = ?3),
		coalesce((SELECT bytes FROM usage WHERE owner = ?1), 0),
		(SELECT bytes FROM total_usage),
		(SELECT size FROM record WHERE owner = ?1 AND kind = ?2 AND user = ?3 AND key = ?4)`
	sqlSave = `INSERT INTO record (owner, kind, user, key, value, size) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT DO UPDATE SET value = excluded.value, size = excluded.size`
	sqlLoad   = `SELECT value FROM record WHERE owner = ?1 AND kind = ?2 AND user = ?3 AND key = ?4`
	sqlDelete = `DELETE FROM record WHERE owner = ?1 AND kind = ?2 AND user = ?3 AND key = ?4`
	sqlList   = `SELECT key, iif(?4, value, '') FROM record
		WHERE owner = ?1 AND kind = ?2 AND user = ?3 AND key >= ?5 AND key > ?6 ORDER BY key LIMIT ?7`
)

// Save implements [memory.Store].
func (s *Store) Save(ctx context.Context, in memory.Collection, record memory.Record) error {
	return transact(ctx, s.writer, func(tx *sql.Tx) error {
		var have memory.Usage
		var old sql.NullInt64
		err := tx.QueryRowContext(ctx, sqlUsage, in.Owner, in.Kind, in.User, record.Key).
			Scan(&have.Records, &have.OwnerBytes, &have.TotalBytes, &old)
		if err != nil {
			return err
		}
		more, size := 1, memory.Size(in, record)
		if old.Valid {
			more = 0
		}
		if err := s.limits.Admit(in, have, more, size-old.Int64); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, sqlSave, in.Owner, in.Kind, in.User, record.Key, record.Value, size)
		return err
	})
}

// transact runs do in a transaction, which excludes the writers of all processes.
func transact(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after Commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Load implements [memory.Store].
func (s *Store) Load(ctx context.Context, in memory.Collection, key string) (string, error) {
	var value string
	err := s.reader.QueryRowContext(ctx, sqlLoad, in.Owner, in.Kind, in.User, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		err = memory.ErrNotFound
	}
	return value, err
}

// Delete implements [memory.Store].
func (s *Store) Delete(ctx context.Context, in memory.Collection, key string) (bool, error) {
	result, err := s.writer.ExecContext(ctx, sqlDelete, in.Owner, in.Kind, in.User, key)
	if err != nil {
		return false, err
	}
	deleted, err := result.RowsAffected()
	return deleted > 0, err
}

// List implements [memory.Store].
func (s *Store) List(ctx context.Context, in memory.Collection, query memory.Query) ([]memory.Record, error) {
	limit := query.Limit
	if limit <= 0 {
		limit = -1 // all
	}
	rows, err := s.reader.QueryContext(ctx, sqlList, in.Owner, in.Kind, in.User, query.Values, query.Prefix, query.After, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var records []memory.Record
	for rows.Next() {
		var record memory.Record
		if err := rows.Scan(&record.Key, &record.Value); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(record.Key, query.Prefix) {
			break // the keys are in byte order, so no further key has the prefix
		}
		records = append(records, record)
	}
	return records, rows.Err()
}
