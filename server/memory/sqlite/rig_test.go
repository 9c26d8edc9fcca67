package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/sqlite"
)

func open(t testing.TB, path string, opts *sqlite.Options) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// fileOf is a path for a file of the test.
func fileOf(t testing.TB) string { return filepath.Join(t.TempDir(), "memory.db") }

// direct is a connection to a file that knows nothing of the store.
func direct(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func execute(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// ask returns the one value that a query gives.
func ask(t testing.TB, db *sql.DB, query string) string {
	t.Helper()
	var value string
	if err := db.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func here() memory.Collection { return memory.Collection{Kind: memory.Conversations} }

func save(ctx context.Context, store memory.Store, key, value string) error {
	return store.Save(ctx, here(), memory.Record{Key: key, Value: value})
}

// sound checks that a file is whole, and that the triggers have counted right.
func sound(t *testing.T, path string) {
	t.Helper()
	db := direct(t, path)
	if got := ask(t, db, "PRAGMA integrity_check"); got != "ok" {
		t.Errorf("the file is damaged: %s", got)
	}
	for _, count := range []struct{ counted, are string }{
		{"SELECT bytes FROM total_usage", "SELECT coalesce(sum(size), 0) FROM record"},
		{"SELECT group_concat(owner || ' ' || bytes) FROM usage ORDER BY owner", "SELECT group_concat(owner || ' ' || bytes) FROM (SELECT owner, sum(size) AS bytes FROM record GROUP BY owner ORDER BY owner)"},
	} {
		if counted, are := ask(t, db, "SELECT ifnull(("+count.counted+"), '')"), ask(t, db, "SELECT ifnull(("+count.are+"), '')"); counted != are {
			t.Errorf("counted: %.200s, there are: %.200s", counted, are)
		}
	}
	db.Close()
}
