package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/transport/store/postgres"
	"github.com/dovetail-go/dovetail/transport/store/postgres/postgrestest"
)

// shared is the server of all tests that do not stop it. Each has a schema of its own. It is nil
// if no server is installed.
var shared *postgrestest.Server

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most tests wait for a lease or an expiry
		panic(err)
	}
	leaktest.MainOf(func() int {
		s, err := postgrestest.Start()
		switch {
		case err == nil:
			shared = s
			defer s.Remove()
			os.Setenv("DATABASE_URL", s.URL()) // of the examples
		case !errors.Is(err, postgrestest.ErrNotInstalled) || os.Getenv("CI") == "true":
			fmt.Fprintln(os.Stderr, err)
			return 1
		default:
			if err := flag.Set("test.skip", "^Example"); err != nil {
				panic(err)
			}
		}
		return m.Run()
	})
}

// newServer starts a server for one test.
func newServer(t *testing.T) *postgrestest.Server {
	t.Helper()
	needServer(t)
	s, err := postgrestest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Remove)
	return s
}

// needServer skips a test if no server is installed.
func needServer(t testing.TB) {
	t.Helper()
	if shared == nil {
		t.Skip(postgrestest.ErrNotInstalled)
	}
}

var schemas atomic.Int32

// newSchema returns the name of a schema that does not exist yet.
func newSchema() string { return fmt.Sprint("test_", schemas.Add(1)) }

// connect returns a store that the end of the test closes.
func connect(t testing.TB, url string, opts postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Connect(t.Context(), url, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A database is a connection of a test to a server.
type database struct {
	t    testing.TB
	conn *pgx.Conn
}

// openShared connects to the shared server.
func openShared(t testing.TB) database {
	t.Helper()
	needServer(t)
	return open(t, shared.URL())
}

// open connects to a server, as the superuser.
func open(t testing.TB, url string) database {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return database{t, conn}
}

// exec runs statements. {s} is replaced by the schema.
func (d database) exec(schema, sql string) {
	d.t.Helper()
	if _, err := d.conn.Exec(d.t.Context(), strings.ReplaceAll(sql, "{s}", schema), pgx.QueryExecModeSimpleProtocol); err != nil {
		d.t.Fatal(err)
	}
}

// number returns the number that a statement returns.
func (d database) number(schema, sql string) (n int) {
	d.t.Helper()
	if err := d.conn.QueryRow(d.t.Context(), strings.ReplaceAll(sql, "{s}", schema)).Scan(&n); err != nil {
		d.t.Fatal(err)
	}
	return n
}
