package memory_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/memory"
)

// A brokenStore answers every operation with an error.
type brokenStore struct {
	err func(ctx context.Context) error
}

func (b brokenStore) Save(ctx context.Context, _ memory.Collection, _ memory.Record) error {
	return b.err(ctx)
}

func (b brokenStore) Load(ctx context.Context, _ memory.Collection, _ string) (string, error) {
	return "", b.err(ctx)
}

func (b brokenStore) Delete(ctx context.Context, _ memory.Collection, _ string) (bool, error) {
	return false, b.err(ctx)
}

func (b brokenStore) List(ctx context.Context, _ memory.Collection, _ memory.Query) ([]memory.Record, error) {
	return nil, b.err(ctx)
}

// everyTool is a call of each.
func everyTool() map[string]string {
	return map[string]string{
		"save_conversation":   `{"conversation_id":"c1","snapshot":"1"}`,
		"get_conversation":    `{"conversation_id":"c1"}`,
		"list_conversations":  `{}`,
		"delete_conversation": `{"conversation_id":"c1"}`,
		"save_user_fact":      `{"user_id":"u","key":"k","value":"v"}`,
		"get_user_facts":      `{"user_id":"u"}`,
		"delete_user_fact":    `{"user_id":"u","key":"k"}`,
	}
}

const outOfReach = "the memory cannot be reached now; nothing is known to have been saved or deleted"

func TestFaultsOfTheStoreAreForTheOperator(t *testing.T) {
	var log bytes.Buffer
	store := brokenStore{func(context.Context) error { return errors.New("dial tcp 10.0.0.7: password secret") }}
	s := memory.New(store, &memory.Options{Server: &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	session := connect(t, as("", s), nil)
	for tool, arguments := range everyTool() {
		says(t, session, tool, arguments, "error: "+outOfReach)
	}
	_, err := session.Read(t.Context(), "memory://conversations/c1", nil)
	if err == nil || mcp.IsResourceNotFound(err) || !strings.Contains(err.Error(), outOfReach) {
		t.Errorf("reading gives %v", err)
	}
	holds(t, session, "memory://conversations/"+strings.Repeat("a", 257), `[]`) // which no store is asked for
	if _, err := session.CompleteTemplate(t.Context(), "memory://conversations/{id}", "id", "", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("completing gives %v", err)
	}
	for _, operation := range []string{"save", "load", "delete", "list"} {
		if !strings.Contains(log.String(), "operation="+operation+` error="dial tcp 10.0.0.7: password secret"`) {
			t.Errorf("the log does not tell of %s:\n%s", operation, &log)
		}
	}
}

// A store may have more to say of what callers are told.
func TestOnlyTheLimitOfAFullStoreIsTold(t *testing.T) {
	store := brokenStore{func(context.Context) error {
		return fmt.Errorf("/var/lib/secret: %w", &memory.FullError{Of: "bytes", Limit: 7})
	}}
	session := connect(t, as("", memory.New(store, nil)), nil)
	says(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"1"}`,
		"error: the memory is full: it holds at most 7 bytes; delete some first")
	store = brokenStore{func(context.Context) error { return fmt.Errorf("/var/lib/secret: %w", memory.ErrNotFound) }}
	session = connect(t, as("", memory.New(store, nil)), nil)
	holds(t, session, "memory://conversations/c1", `[]`)
	says(t, session, "save_conversation", `{"conversation_id":"c1","snapshot":"1"}`, "error: memory: not found")
}

func TestStoreThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := brokenStore{func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		s := memory.New(store, &memory.Options{Server: &server.Options{Logger: quiet()}})
		session := connect(t, as("", s), nil)
		for tool, arguments := range everyTool() {
			began := time.Now()
			says(t, session, tool, arguments, "error: "+outOfReach)
			if took := time.Since(began); took != memory.DefaultTimeout {
				t.Errorf("%s is given up after %v, want %v", tool, took, memory.DefaultTimeout)
			}
		}
	})
}

func TestStoreLearnsThatTheCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered, left := make(chan struct{}), make(chan error, 1)
		store := brokenStore{func(ctx context.Context) error {
			close(entered)
			<-ctx.Done()
			left <- ctx.Err()
			return ctx.Err()
		}}
		var log bytes.Buffer
		s := memory.New(store, &memory.Options{Timeout: -1, Server: &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}})
		session := connect(t, as("", s), &client.Options{Era: client.Modern})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-entered
			cancel()
		}()
		if _, err := session.CallTool(ctx, "list_conversations", nil, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the call gives %v", err)
		}
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the store's context ended with %v", err)
		}
		session.Close()
		synctest.Wait()
		if log.Len() > 0 {
			t.Errorf("a caller that has gone is no fault:\n%s", &log)
		}
	})
}
