package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
)

// migrations are the steps from an empty file to the schema of today: number n brings
// it to version n. One that has been released does not change any more.
//
//go:embed schema/*.sql
var migrations embed.FS

// version is that of the schema, and the number of migrations.
const version = 1

// applicationID says whose file it is ("dvtm"), in PRAGMA application_id.
const applicationID = 0x6476746d

// ErrForeign says that a file is a SQLite database, but not one of this package. It
// has not been changed.
var ErrForeign = errors.New("the database is another application's")

// A VersionError says that a newer version of this package has made the file. It has
// not been changed.
type VersionError struct {
	// Found is the file's version, Known the newest that this package knows.
	Found, Known int
}

// Error says what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the file has version %d, this program knows versions up to %d: use a newer one", e.Found, e.Known)
}

// A querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// versionOf is the schema's version in a file, 0 when it is empty.
func versionOf(ctx context.Context, db querier) (int, error) {
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

// migrate brings the schema up to date, one version in one transaction.
func migrate(ctx context.Context, db *sql.DB) error {
	for {
		found, err := versionOf(ctx, db)
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
		if found, err := versionOf(ctx, tx); err != nil || found >= next {
			return err // another process was faster
		}
		if _, err := tx.ExecContext(ctx, string(step)); err != nil {
			return err
		}
		// A pragma takes no parameters.
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, next))
		return err
	})
}
