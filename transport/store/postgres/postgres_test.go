package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/postgres"
)

// isError reports whether the server returned an error with an SQLSTATE.
func isError(err error, state string) bool {
	var reply *pgconn.PgError
	return errors.As(err, &reply) && reply.Code == state
}

// eventually calls done until it returns true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20s", what)
		}
	}
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	needServer(t)
	for _, test := range []struct {
		name, url string
		opts      postgres.Options
	}{
		{"scheme", "http://localhost", postgres.Options{}},
		{"schema", shared.URL(), postgres.Options{Schema: "a-b"}},
		{"long schema", shared.URL(), postgres.Options{Schema: strings.Repeat("a", 41)}},
		{"limits", shared.URL(), postgres.Options{Limits: store.Limits{Lease: 1}}},
		{"timeout", shared.URL(), postgres.Options{Timeout: -1}},
		{"database", shared.URL() + "&dbname=none", postgres.Options{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := postgres.Connect(t.Context(), test.url, &test.opts)
			if err == nil {
				s.Close()
				t.Error("Connect succeeded")
			}
		})
	}
}

// Stores with other schemas in the same database have other data.
func TestSchema(t *testing.T) {
	t.Parallel()
	needServer(t)
	a := connect(t, shared.URL(), postgres.Options{Schema: newSchema()})
	b := connect(t, shared.URL(), postgres.Options{Schema: newSchema()})
	if _, err := a.Create(t.Context(), "key", []byte("value"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "key"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get with another schema: %v, want ErrNotFound", err)
	}
	stop, err := a.Subscribe(t.Context(), "subject", func(context.Context, store.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, err := b.Request(t.Context(), "subject", nil); !errors.Is(err, store.ErrNoResponder) {
		t.Errorf("Request with another schema: %v, want ErrNoResponder", err)
	}
}

// Close of a store with the caller's pool closes what belongs to the store.
func TestNew(t *testing.T) {
	t.Parallel()
	needServer(t)
	pool, err := pgxpool.New(t.Context(), shared.URL()+"&pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for range 2 {
		s, err := postgres.New(t.Context(), pool, &postgres.Options{Schema: newSchema()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Errorf("the pool after Close: %v", err)
	}
}

// Replicas that start at the same time create the tables once.
func TestConcurrentStart(t *testing.T) {
	t.Parallel()
	needServer(t)
	opts := postgres.Options{Schema: newSchema(), Timeout: 30 * time.Second}
	var starting sync.WaitGroup
	for i := range 8 {
		starting.Go(func() {
			s, err := postgres.Connect(t.Context(), shared.URL()+"&pool_max_conns=2", &opts)
			if err != nil {
				t.Errorf("replica %d: %v", i, err)
				return
			}
			defer s.Close()
			if _, err := s.Append(t.Context(), "starts", nil); err != nil {
				t.Errorf("replica %d: %v", i, err)
			}
		})
	}
	starting.Wait()
	if n := openShared(t).number(opts.Schema, "SELECT count(*) FROM {s}.entries"); n != 8 {
		t.Errorf("%d replicas have appended, want 8", n)
	}
}

// When the tables exist, a role needs no permission to create anything.
func TestPermissions(t *testing.T) {
	t.Parallel()
	db, schema, role := openShared(t), newSchema(), newSchema()
	db.exec(role, "CREATE ROLE {s} LOGIN")
	url := strings.Replace(shared.URL(), "user=owner", "user="+role, 1)
	if _, err := postgres.Connect(t.Context(), url, &postgres.Options{Schema: schema}); !isError(err, "42501") {
		t.Errorf("Connect without permission to create the schema: %v, want insufficient_privilege", err)
	}
	connect(t, shared.URL(), postgres.Options{Schema: schema})
	db.exec(schema, strings.ReplaceAll(`
		GRANT USAGE ON SCHEMA {s} TO role;
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {s} TO role;
		GRANT USAGE ON ALL SEQUENCES IN SCHEMA {s} TO role`, "role", role))
	s, ctx := connect(t, url, postgres.Options{Schema: schema}), t.Context()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	revision, err := s.Create(ctx, "key", nil, time.Hour)
	ok(err)
	ok(s.Delete(ctx, "key", revision))
	id, err := s.Append(ctx, "stream", nil)
	ok(err)
	for _, err := range s.Read(ctx, "stream", id) {
		ok(err)
	}
	ok(s.Drop(ctx, "stream"))
	ok(s.Push(ctx, "queue", "id", nil))
	job, err := s.Pull(ctx, "queue")
	ok(err)
	ok(s.Ack(ctx, job))
	stop, err := s.Subscribe(ctx, "subject", func(ctx context.Context, m store.Message) {
		if err := m.Reply(ctx, nil); err != nil {
			t.Error(err)
		}
	})
	ok(err)
	defer stop()
	_, err = s.Request(ctx, "subject", nil)
	ok(err)
	_, err = s.Sweep(ctx)
	ok(err)
}

// An Append waits for other Appends that have taken an id of the stream, so that a reader omits no entry.
func TestAppendsCommitInOrder(t *testing.T) {
	t.Parallel()
	db, schema, ctx := openShared(t), newSchema(), t.Context()
	s := connect(t, shared.URL(), postgres.Options{Schema: schema, Timeout: 30 * time.Second})
	if _, err := s.Append(ctx, "stream", []byte("1")); err != nil {
		t.Fatal(err)
	}
	db.exec(schema, `BEGIN; WITH stream AS (UPDATE {s}.streams SET last = last + 1 RETURNING name, last)
		INSERT INTO {s}.entries SELECT name, last, '2', now() FROM stream`)
	var appending sync.WaitGroup
	defer appending.Wait()
	appending.Go(func() {
		if _, err := s.Append(ctx, "stream", []byte("3")); err != nil {
			t.Errorf("Append: %v", err)
		}
	})
	observer := openShared(t)
	eventually(t, "the Append waits", func() bool {
		return observer.number(schema, `SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%"{s}".streams%' AND wait_event_type = 'Lock'`) == 1
	})
	read := func() (all string) {
		for entry, err := range s.Read(ctx, "stream", 0) {
			if err != nil {
				t.Fatal(err)
			}
			all += string(entry.Data)
		}
		return all
	}
	if got := read(); got != "1" {
		t.Errorf("before the commit, the stream has the entries %q, want 1", got)
	}
	db.exec(schema, "COMMIT")
	appending.Wait()
	if got := read(); got != "123" {
		t.Errorf("after the commit, the stream has the entries %q, want 123", got)
	}
}

// A job that has been done can be added again after the duplicate window.
func TestDuplicateWindow(t *testing.T) {
	t.Parallel()
	db, schema, ctx := openShared(t), newSchema(), t.Context()
	s := connect(t, shared.URL(), postgres.Options{Schema: schema})
	for _, test := range []struct {
		age  string
		jobs int
	}{{"0 s", 1}, {"119 s", 0}, {"120 s", 1}} {
		db.exec(schema, "UPDATE {s}.jobs SET pushed = now() - interval '"+test.age+"'")
		if err := s.Push(ctx, "queue", "id", []byte(test.age)); err != nil {
			t.Fatal(err)
		}
		if n := db.number(schema, "SELECT count(*) FROM {s}.jobs WHERE due IS NOT NULL"); n != test.jobs {
			t.Errorf("Push of a job that is %s old: %d jobs, want %d", test.age, n, test.jobs)
		}
		if test.jobs == 0 {
			continue
		}
		job, err := s.Pull(ctx, "queue")
		if err != nil || job.Attempt != 1 || string(job.Data) != test.age {
			t.Fatalf("Pull: %+v, %v, want the job that was added after %s", job, err, test.age)
		}
		if err := s.Ack(ctx, job); err != nil {
			t.Fatal(err)
		}
	}
}

// Messages of all sizes arrive in the order in which they were sent.
func TestMessagesOfAllSizes(t *testing.T) {
	t.Parallel()
	needServer(t)
	opts := postgres.Options{Schema: newSchema(), Timeout: time.Minute} // of a busy machine
	from, to := connect(t, shared.URL(), opts), connect(t, shared.URL(), opts)
	received := make(chan store.Message, 100)
	stop, err := to.Subscribe(t.Context(), "subject", func(_ context.Context, m store.Message) { received <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	sizes := []int{0, 1, 5900, 5920, 5940, 6000, store.MaxValue + store.SealOverhead, 7, 12_000, 1, store.MaxValue}
	for i, size := range sizes {
		if err := from.Publish(t.Context(), "subject", bytes.Repeat([]byte{byte(i)}, size)); err != nil {
			t.Fatal(err)
		}
	}
	for i, size := range sizes {
		if m := <-received; !bytes.Equal(m.Data, bytes.Repeat([]byte{byte(i)}, size)) || m.Missed {
			t.Errorf("message %d: %d bytes, missed %t, want %d bytes", i, len(m.Data), m.Missed, size)
		}
	}
	if err := from.Publish(t.Context(), "subject", make([]byte, store.MaxValue+store.SealOverhead+1)); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("Publish of one byte more: %v, want ErrTooLarge", err)
	}
}

// Expired rows are deleted in transactions of 1,000 rows of each kind.
func TestSweep(t *testing.T) {
	t.Parallel()
	db, schema, ctx := openShared(t), newSchema(), t.Context()
	s := connect(t, shared.URL(), postgres.Options{Schema: schema, Limits: store.Limits{LogBytes: 1000}})
	db.exec(schema, `
		INSERT INTO {s}.kv SELECT 'expired/' || n, '', n, now() FROM generate_series(1, 2500) n;
		INSERT INTO {s}.kv VALUES ('kept', '', 1, 'infinity'), ('later', '', 1, now() + interval '1 hour');
		INSERT INTO {s}.streams VALUES ('old', 1, 1200, now() - interval '91 minutes'), ('kept', 1, 1, now() - interval '89 minutes');
		INSERT INTO {s}.entries SELECT 'old', n, '', now() - interval '31 minutes' FROM generate_series(1, 1200) n;
		INSERT INTO {s}.entries SELECT 'large', n, repeat('x', 100)::bytea, now() - interval '1 minute' * (20 - n) FROM generate_series(1, 15) n;
		INSERT INTO {s}.jobs SELECT 'done', n, n, '', now() - interval '2 minutes', NULL, 1, 0 FROM generate_series(1, 1200) n;
		INSERT INTO {s}.jobs VALUES ('kept', 'due', 1, '', now() - interval '1 hour', now(), 0, 0), ('kept', 'done', 1, '', now(), NULL, 1, 0)`)
	for {
		before := db.number(schema, "SELECT count(*) FROM {s}.kv")
		more, err := s.Sweep(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n := before - db.number(schema, "SELECT count(*) FROM {s}.kv"); n > 2000 { // one more by the store itself
			t.Errorf("a sweep deleted %d values", n)
		}
		if !more {
			break
		}
	}
	for _, test := range []struct {
		sql  string
		want int
	}{
		{"SELECT count(*) FROM {s}.kv", 2},
		{"SELECT count(*) FROM {s}.streams", 1},
		{"SELECT count(*) FROM {s}.entries", 10},
		{"SELECT min(id) FROM {s}.entries", 6},
		{"SELECT count(*) FROM {s}.jobs", 2},
	} {
		if n := db.number(schema, test.sql); n != test.want {
			t.Errorf("after sweeps, %s: %d, want %d", test.sql, n, test.want)
		}
	}
}

// Connections that the server ends are replaced, and waits go on.
func TestTerminatedConnections(t *testing.T) {
	t.Parallel()
	db, ctx := openShared(t), t.Context()
	name := newSchema()
	url := shared.URL() + "&application_name=" + name
	s := connect(t, url, postgres.Options{Schema: name})
	messages := make(chan store.Message, 100)
	stop, err := s.Subscribe(ctx, "subject", func(_ context.Context, m store.Message) { messages <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	jobs := make(chan *store.Job, 1)
	var pulling sync.WaitGroup
	defer pulling.Wait()
	pulling.Go(func() {
		job, err := s.Pull(ctx, "queue")
		if err != nil {
			t.Errorf("Pull: %v", err)
		}
		jobs <- job
	})
	for range 3 {
		if n := db.number(name, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '{s}'"); n == 0 {
			t.Error("the store has no connections")
		}
		if m := <-messages; !m.Missed {
			t.Errorf("the subscriber received %q, want a message with Missed", m.Data)
		}
		// Connections of the pool that were cut fail once.
		eventually(t, "Publish", func() bool { return s.Publish(ctx, "subject", []byte("data")) == nil })
		if m := <-messages; string(m.Data) != "data" {
			t.Errorf("the subscriber received %q, missed %t", m.Data, m.Missed)
		}
	}
	eventually(t, "Push", func() bool { return s.Push(ctx, "queue", "id", nil) == nil })
	if job := <-jobs; job == nil || job.ID != "id" {
		t.Errorf("Pull: %+v", job)
	}
}

// The connection that listens is checked while nothing arrives, and stays.
func TestIdleConnection(t *testing.T) {
	t.Parallel()
	db, name := openShared(t), newSchema()
	s := connect(t, shared.URL()+"&application_name="+name, postgres.Options{Schema: name, Timeout: 3 * time.Second})
	messages := make(chan store.Message, 100)
	stop, err := s.Subscribe(t.Context(), "subject", func(_ context.Context, m store.Message) { messages <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	eventually(t, "a check", func() bool {
		return db.number(name, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{s}' AND query LIKE '%ping%'") > 0
	})
	if err := s.Publish(t.Context(), "subject", []byte("data")); err != nil {
		t.Fatal(err)
	}
	if m := <-messages; m.Missed {
		t.Error("the connection was replaced")
	}
}

// A notification that is lost delays a wait.
func TestLostNotification(t *testing.T) {
	t.Parallel()
	db, schema := openShared(t), newSchema()
	s := connect(t, shared.URL(), postgres.Options{Schema: schema})
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if _, err := s.Create(ctx, "a/1", nil, 0); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for item, err := range s.Watch(ctx, "a") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, fmt.Sprint(item.Key, item.Deleted))
		if len(keys) == 1 {
			db.exec(schema, `
				INSERT INTO {s}.kv VALUES ('a/2', '', nextval('{s}.numbers'), 'infinity');
				UPDATE {s}.kv SET value = NULL, revision = nextval('{s}.numbers') WHERE key = 'a/1'`)
		}
		if len(keys) == 3 {
			break
		}
	}
	slices.Sort(keys)
	if got := fmt.Sprint(keys); got != "[a/1false a/1true a/2false]" {
		t.Errorf("Watch yields %s", got)
	}
}

// Errors of the server's resources end when it has them again.
func TestLackOfResources(t *testing.T) {
	t.Parallel()
	db, ctx := openShared(t), t.Context()
	schema := newSchema()
	s := connect(t, shared.URL(), postgres.Options{Schema: schema})

	db.exec(schema, `
		CREATE FUNCTION {s}.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no space' USING ERRCODE = 'disk_full'; END $$;
		CREATE TRIGGER full_disk BEFORE INSERT ON {s}.kv EXECUTE FUNCTION {s}.full()`)
	if _, err := s.Create(ctx, "key", nil, 0); !errors.Is(err, store.ErrFull) || !isError(err, "53100") {
		t.Errorf("Create with a full disk: %v, want ErrFull", err)
	}
	db.exec(schema, "DROP TRIGGER full_disk ON {s}.kv")
	if _, err := s.Create(ctx, "key", nil, 0); err != nil {
		t.Error(err)
	}

	short := connect(t, shared.URL(), postgres.Options{Schema: schema, Timeout: time.Second})
	db.exec(schema, "BEGIN; LOCK TABLE {s}.kv")
	if _, err := short.Get(ctx, "key"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Get while the table is locked: %v, want DeadlineExceeded", err)
	}
	db.exec(schema, "ROLLBACK")
	eventually(t, "Get", func() bool { _, err := short.Get(ctx, "key"); return err == nil })
}

// A store whose role has too many connections fails, and works again when it has fewer.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	db, ctx := openShared(t), t.Context()
	role, schema := newSchema(), newSchema()
	connect(t, shared.URL(), postgres.Options{Schema: schema})
	db.exec(schema, `
		CREATE ROLE `+role+` LOGIN CONNECTION LIMIT 1;
		GRANT USAGE ON SCHEMA {s} TO `+role+`;
		GRANT ALL ON ALL TABLES IN SCHEMA {s} TO `+role+`;
		GRANT USAGE ON ALL SEQUENCES IN SCHEMA {s} TO `+role)
	s := connect(t, strings.Replace(shared.URL(), "user=owner", "user="+role, 1), postgres.Options{Schema: schema})
	if err := s.Publish(ctx, "subject", nil); !isError(err, "53300") {
		t.Errorf("Publish without a connection: %v, want too_many_connections", err)
	}
	db.exec(role, "ALTER ROLE {s} CONNECTION LIMIT 10")
	if err := s.Publish(ctx, "subject", nil); err != nil {
		t.Error(err)
	}
}
