package nats_test

import (
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	driver "github.com/nats-io/nats.go"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/transport/store"
	"github.com/dovetail-go/dovetail/transport/store/nats"
)

// documented returns the subjects of a line of the permissions in docs/replicas.md.
func documented(t *testing.T, what string) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/replicas.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ +` + what + `: \[(.*)\]$`).FindSubmatch(page)
	if line == nil {
		t.Fatalf("docs/replicas.md has no permissions to %s", what)
	}
	return strings.Split(strings.ReplaceAll(string(line[1]), `"`, ""), ", ")
}

// use uses all operations of a store, and returns the first error.
func use(ctx context.Context, t *testing.T, s *nats.Store) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	revision, err := s.Create(ctx, "key", []byte("value"), time.Hour)
	if err == nil {
		_, err = s.Update(ctx, "key", []byte("next"), revision, time.Hour)
	}
	if err == nil {
		_, err = s.Get(ctx, "key")
	}
	if err != nil {
		return err
	}
	for _, err := range s.Watch(ctx, "key") {
		if err != nil {
			return err
		}
		break
	}
	if err := s.Delete(ctx, "key", 0); err != nil {
		return err
	}
	followed := make(chan error, 1)
	running.Go(func() {
		for _, err := range s.Follow(ctx, "stream", 0) {
			followed <- err
			return
		}
	})
	if _, err := s.Append(ctx, "stream", []byte("entry")); err != nil {
		return err
	}
	for _, err := range s.Read(ctx, "stream", 0) {
		if err != nil {
			return err
		}
	}
	if err := waittest.Receive(t, "an entry", followed); err != nil {
		return err
	}
	if err := s.Drop(ctx, "stream"); err != nil {
		return err
	}
	for id, end := range map[string]func(job *store.Job) error{
		"returned": func(job *store.Job) error { return s.Nak(ctx, job, 0) },
		"extended": func(job *store.Job) error { return s.Extend(ctx, job) },
		"done":     func(job *store.Job) error { return s.Ack(ctx, job) },
	} {
		if err := s.Push(ctx, id, "job-"+id, nil); err != nil {
			return err
		}
		job, err := s.Pull(ctx, id)
		if err != nil {
			return err
		}
		if err := end(job); err != nil {
			return err
		}
		_ = s.Ack(ctx, job) // it may have been returned
	}
	stop, err := s.Subscribe(ctx, "subject", func(ctx context.Context, m store.Message) {
		if m.Reply != nil {
			_ = m.Reply(ctx, m.Data)
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	if err := s.Publish(ctx, "subject", nil); err != nil {
		return err
	}
	_, err = s.Request(ctx, "subject", nil)
	return err
}

// A user with the documented permissions can use a store, and one that lacks any of them cannot.
func TestPermissions(t *testing.T) {
	t.Parallel()
	publish, subscribe := documented(t, "publish"), documented(t, "subscribe")
	all := append(append([]string{""}, publish...), subscribe...)
	for i, lacking := range all {
		without := func(subjects []string, first int) (allowed []string) {
			for j, subject := range subjects {
				if i != first+j {
					allowed = append(allowed, subject)
				}
			}
			return allowed
		}
		t.Run("without "+lacking, func(t *testing.T) {
			t.Parallel()
			m := newMember(t, server.Options{Users: []*server.User{{Username: "replica", Password: "secret", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: without(publish, 1)},
				Subscribe: &server.SubjectPermission{Allow: without(subscribe, 1+len(publish))},
			}}}})
			s, err := nats.Connect(t.Context(), m.url(), &nats.Options{Timeout: 2 * time.Second, Logger: slog.New(slog.DiscardHandler), Client: []driver.Option{driver.UserInfo("replica", "secret")}})
			if err == nil {
				defer s.Close()
				err = use(t.Context(), t, s)
			}
			if (err == nil) != (lacking == "") {
				t.Errorf("without the permission %q: %v", lacking, err)
			}
		})
	}
}
