package redis_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/redis"
)

func TestNewErrors(t *testing.T) {
	address := newMiniredis(t).Addr()
	single := func(change func(o *goredis.Options)) goredis.UniversalClient {
		options := &goredis.Options{Addr: address, MaxRetries: -1, ContextTimeoutEnabled: true}
		change(options)
		return goredis.NewClient(options)
	}
	for _, test := range []struct {
		name   string
		client goredis.UniversalClient
		opts   redis.Options
		want   []string
	}{
		{"defaults", single(func(o *goredis.Options) { o.MaxRetries, o.ContextTimeoutEnabled = 0, false }), redis.Options{},
			[]string{"4 times", "MaxRetries to -1", "ContextTimeoutEnabled to true"}},
		{"cache", single(func(o *goredis.Options) { o.ClientSideCacheConfig = &goredis.ClientSideCacheConfig{} }), redis.Options{},
			[]string{"ClientSideCacheConfig"}},
		{"cluster that retries", goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{address}, MaxRetries: 2}), redis.Options{},
			[]string{"3 times", "ContextTimeoutEnabled to true"}},
		{"ring", goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"a": address}}), redis.Options{}, []string{"*redis.Ring"}},
		{"no client", nil, redis.Options{}, []string{"<nil>"}},
		{"prefix", single(func(*goredis.Options) {}), redis.Options{Prefix: "a:b"}, []string{"Options.Prefix"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.client != nil {
				defer test.client.Close()
			}
			s, err := redis.New(t.Context(), test.client, &test.opts)
			if err == nil {
				s.Close()
				t.Fatal("New succeeded")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("New: %v, want %q", err, want)
				}
			}
		})
	}
}

// Close ends the use of a client that the application has made, and does not close it.
func TestCloseKeepsTheClient(t *testing.T) {
	client := goredis.NewClient(&goredis.Options{Addr: newMiniredis(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	for range 2 {
		s, err := redis.New(t.Context(), client, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.Get(t.Context(), "key"); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Get after Close: %v, want ErrClosed", err)
		}
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Errorf("Ping with the client: %v", err)
		}
		if n := client.PoolStats().PubSubStats.Active; n != 0 {
			t.Errorf("%d connections for subscriptions after Close", n)
		}
	}
}

// An eviction policy with which the server deletes data is logged when a store connects.
func TestEvictionPolicy(t *testing.T) {
	const warning = "the server deletes sessions, tasks, jobs and keys when its memory is full"
	for _, test := range []struct {
		name, want string
		options    []string
	}{
		{"all keys", warning, []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}},
		{"expiring keys", warning, []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"}},
		{"no eviction", "", []string{"--maxmemory", "100mb", "--maxmemory-policy", "noeviction"}},
		{"no limit", "", []string{"--maxmemory-policy", "allkeys-lru"}},
		{"not permitted", "could not be read", []string{"--user", "default", "on", "nopass", "~*", "&*", "+@all", "-info"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			messages := &logs{}
			connect(t, newServer(t, test.options...).url(), &redis.Options{Logger: messages.logger()})
			text := messages.String()
			if test.want == "" && text != "" || !strings.Contains(text, test.want) {
				t.Errorf("log: %q, want %q", text, test.want)
			}
			if test.want == warning && !strings.Contains(text, "level=WARN") ||
				test.want == warning && !strings.Contains(text, "maxmemory-policy="+test.options[3]) {
				t.Errorf("log: %q, want a warning with %s", text, test.options[3])
			}
		})
	}
}

// A store logs that its connection was lost, and that it is connected again. The messages of the client go to a
// logger of the process.
func TestLogger(t *testing.T) {
	clientMessages, messages := &logs{}, &logs{}
	redis.SetClientLogger(clientMessages.logger())
	defer logging.Enable()
	server := newServer(t)
	s := connect(t, server.url(), &redis.Options{Logger: messages.logger()})
	server.stop()
	eventually(t, "a warning", func() bool {
		return strings.Contains(messages.String(), `level=WARN msg="redis: the connection for subscriptions was lost" error=EOF`)
	})
	eventually(t, "a message of the client", func() bool {
		_, err := s.Get(t.Context(), "key")
		return err != nil && strings.Contains(clientMessages.String(), "level=INFO") && strings.Contains(clientMessages.String(), "failed to dial")
	})
	server.start()
	eventually(t, "a message after the start", func() bool {
		return strings.Contains(messages.String(), `level=INFO msg="redis: the store is connected for subscriptions again"`)
	})
}

// documentedUser returns the arguments of ACL SETUSER in the documentation.
func documentedUser(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/replicas.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if command, ok := strings.CutPrefix(line, "ACL SETUSER "); ok {
			return strings.Fields(command)
		}
	}
	t.Fatal("docs/replicas.md has no line with ACL SETUSER")
	return nil
}

// setUser creates a user, or replaces it.
func setUser(t *testing.T, client *goredis.Client, user []string) {
	t.Helper()
	args := []any{"ACL", "SETUSER"}
	for _, word := range user {
		args = append(args, word)
	}
	if err := errors.Join(client.ACLDelUser(t.Context(), user[0]).Err(), client.Do(t.Context(), args...).Err()); err != nil {
		t.Fatal(err)
	}
}

// Each of the documented permissions is necessary.
func TestPermissions(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	admin := goredis.NewClient(&goredis.Options{Addr: server.socket()})
	defer admin.Close()
	url, user := "unix://dovetail:password@"+server.socket(), documentedUser(t)
	setUser(t, admin, user)
	messages := &logs{}
	if err := useAll(t.Context(), connect(t, url, &redis.Options{Logger: messages.logger()})); err != nil || messages.String() != "" {
		t.Fatalf("with all permissions: %v, log: %s", err, messages)
	}
	for i, word := range user {
		if !strings.HasPrefix(word, "+") {
			continue
		}
		t.Run(word, func(t *testing.T) {
			setUser(t, admin, slices.Delete(slices.Clone(user), i, i+1))
			if err := errors.Join(admin.FlushAll(t.Context()).Err(), admin.ScriptFlush(t.Context()).Err()); err != nil {
				t.Fatal(err)
			}
			messages := &logs{}
			s, err := redis.Connect(t.Context(), url, &redis.Options{Timeout: 2 * time.Second, Logger: messages.logger()})
			if err == nil {
				defer s.Close()
				err = useAll(t.Context(), s)
			}
			refused := func(text string) bool {
				return strings.Contains(text, "NOPERM") || strings.Contains(text, "can't run this command") || strings.Contains(text, "EXECABORT")
			}
			if err != nil && !refused(err.Error()) {
				t.Errorf("without the permission: %v, want that it is not permitted", err)
			}
			if err == nil {
				eventually(t, "a warning", func() bool { return refused(messages.String()) })
			}
		})
	}
}

// useAll uses all commands of a store.
func useAll(ctx context.Context, s *redis.Store) error {
	revision, err := s.Create(ctx, "a/key", []byte("value"), time.Hour)
	if err != nil {
		return err
	}
	if _, err := s.Update(ctx, "a/key", []byte("value"), revision, 0); err != nil {
		return err
	}
	if _, err := s.Get(ctx, "a/key"); err != nil {
		return err
	}
	for _, err := range s.Watch(ctx, "a") {
		if err != nil {
			return err
		}
		break
	}
	if err := s.Delete(ctx, "a/key", 0); err != nil {
		return err
	}
	if _, err := s.Append(ctx, "stream", nil); err != nil {
		return err
	}
	for _, err := range s.Follow(ctx, "stream", 0) {
		if err != nil {
			return err
		}
		break
	}
	if err := s.Drop(ctx, "stream"); err != nil {
		return err
	}
	if err := s.Push(ctx, "queue", "id", nil); err != nil {
		return err
	}
	for i := range 2 {
		job, err := s.Pull(ctx, "queue")
		if err != nil {
			return err
		}
		if i == 0 {
			err = s.Nak(ctx, job, 300*time.Millisecond)
		} else {
			err = errors.Join(s.Extend(ctx, job), s.Ack(ctx, job))
		}
		if err != nil {
			return err
		}
	}
	stop, err := s.Subscribe(ctx, "subject", func(ctx context.Context, m store.Message) { _ = m.Reply(ctx, m.Data) })
	if err != nil {
		return err
	}
	defer stop()
	reply, err := s.Request(ctx, "subject", []byte("data"))
	if err == nil && !bytes.Equal(reply, []byte("data")) {
		err = errors.New("another reply")
	}
	return err
}
