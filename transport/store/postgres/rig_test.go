package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dovetail-go/dovetail/internal/leaktest"
	"github.com/dovetail-go/dovetail/transport/store/postgres"
)

// shared is the server of all tests that do not stop it. Each has a schema of its own. It is nil
// if no server is installed.
var shared *server

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most tests wait for a lease or an expiry
		panic(err)
	}
	leaktest.MainOf(func() int {
		s, err := startServer()
		switch {
		case err == nil:
			shared = s
			defer s.remove()
			os.Setenv("DATABASE_URL", s.url()) // of the examples
		case !errors.Is(err, errNotInstalled) || os.Getenv("CI") == "true":
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

var errNotInstalled = errors.New("PostgreSQL is not installed: DOVETAIL_POSTGRES_SERVER is the folder with initdb and pg_ctl")

// programs returns the folder with the programs of the newest server.
func programs() (string, error) {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if configured := os.Getenv("DOVETAIL_POSTGRES_SERVER"); configured != "" {
		folders = []string{configured}
	}
	if err != nil || len(folders) == 0 {
		return "", cmp.Or(err, errNotInstalled)
	}
	return slices.Max(folders), nil
}

// A server is a cluster of databases in a temporary folder. It does not sync the disk.
type server struct {
	programs, dir string
	as            *syscall.SysProcAttr // the server refuses to run as root
}

// startServer returns a server that runs.
func startServer() (*server, error) {
	folder, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "postgres") // t.TempDir is too long for a socket
	if err != nil {
		return nil, err
	}
	s := &server{programs: folder, dir: dir}
	if err := s.init(); err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func (s *server) init() error {
	if os.Getuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			account, err = user.Lookup("nobody")
		}
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		s.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return err
		}
	}
	if err := s.run("initdb", "--pgdata", s.data(), "--auth", "trust", "--username", "owner", "--encoding", "UTF8",
		"--locale", "C", "--no-sync", "--no-instructions"); err != nil {
		return err
	}
	return s.start()
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

// run runs a program of the server. Its output is in a file, which is part of the error: a server that it starts would
// keep a pipe open.
func (s *server) run(program string, args ...string) error {
	log, err := os.Create(filepath.Join(s.dir, program))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, log, log, s.as
	if err := cmd.Run(); err != nil {
		output, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w\n%s", program, err, output)
	}
	return nil
}

// start starts the server and waits until it accepts connections.
func (s *server) start() error {
	return s.run("pg_ctl", "start", "--wait", "--pgdata", s.data(), "--log", filepath.Join(s.dir, "log"), "--options",
		"-c fsync=off -c listen_addresses= -c max_connections=300 -c shared_buffers=32MB -k "+s.dir)
}

// stop ends the server as if it had crashed.
func (s *server) stop() error {
	return s.run("pg_ctl", "stop", "--wait", "--pgdata", s.data(), "--mode", "immediate")
}

func (s *server) remove() {
	_ = s.stop() // it may not run
	os.RemoveAll(s.dir)
}

// url returns the URL of the database as the superuser.
func (s *server) url() string { return "postgres:///postgres?host=" + s.dir + "&user=owner" }

// newServer starts a server for one test.
func newServer(t *testing.T) *server {
	t.Helper()
	needServer(t)
	s, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	return s
}

// needServer skips a test if no server is installed.
func needServer(t testing.TB) {
	t.Helper()
	if shared == nil {
		t.Skip(errNotInstalled)
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

// A database is a connection of a test to the shared server.
type database struct {
	t    testing.TB
	conn *pgx.Conn
}

// open connects to the shared server, as the superuser.
func open(t testing.TB) database {
	t.Helper()
	needServer(t)
	conn, err := pgx.Connect(t.Context(), shared.url())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return database{t, conn}
}

// exec runs statements. {s} stands for the schema.
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
