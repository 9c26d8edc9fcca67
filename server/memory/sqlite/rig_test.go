package sqlite_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
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

// newPath returns the path of a file that does not exist.
func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "memory.db") }

// openSQL connects to a file without the store.
func openSQL(t testing.TB, path string) *sql.DB {
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

// queryValue returns the single value of a query.
func queryValue(t testing.TB, db *sql.DB, query string) string {
	t.Helper()
	var value string
	if err := db.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func conversations() memory.Collection { return memory.Collection{Kind: memory.Conversations} }

func save(ctx context.Context, store memory.Store, key, value string) error {
	return store.Save(ctx, conversations(), memory.Record{Key: key, Value: value})
}

// checkIntegrity checks the file and the counts of the triggers.
func checkIntegrity(t *testing.T, path string) {
	t.Helper()
	db := openSQL(t, path)
	if got := queryValue(t, db, "PRAGMA integrity_check"); got != "ok" {
		t.Errorf("the file is damaged: %s", got)
	}
	for _, count := range []struct{ counted, are string }{
		{"SELECT bytes FROM total_usage", "SELECT coalesce(sum(size), 0) FROM record"},
		{"SELECT group_concat(owner || ' ' || bytes) FROM usage ORDER BY owner", "SELECT group_concat(owner || ' ' || bytes) FROM (SELECT owner, sum(size) AS bytes FROM record GROUP BY owner ORDER BY owner)"},
	} {
		if counted, are := queryValue(t, db, "SELECT ifnull(("+count.counted+"), '')"), queryValue(t, db, "SELECT ifnull(("+count.are+"), '')"); counted != are {
			t.Errorf("counted: %.200s, there are: %.200s", counted, are)
		}
	}
	db.Close()
}

func TestMain(m *testing.M) {
	if task := os.Getenv(taskVariable); task != "" {
		runTask(task) // in a separate process
		return
	}
	leaktest.Main(m)
}
