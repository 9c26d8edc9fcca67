package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge/config"
)

// A watchEvent is one call of the function given to Watch.
type watchEvent struct {
	file *config.File
	err  error
}

// watchFile watches a file in virtual time. nextEvents lets one interval pass and returns its
// events.
func watchFile(t *testing.T, path string, test func(nextEvents func() []watchEvent)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		done := errors.New("done")
		calls := make(chan watchEvent, 8)
		ended := make(chan error)
		go func() {
			ended <- config.Watch(ctx, path, time.Second, func(file *config.File, err error) { calls <- watchEvent{file, err} })
		}()
		nextEvents := func() []watchEvent {
			synctest.Wait()
			if len(calls) == 0 {
				<-time.After(time.Second)
				synctest.Wait()
			}
			var now []watchEvent
			for len(calls) > 0 {
				now = append(now, <-calls)
			}
			return now
		}
		test(nextEvents)
		cancel(done)
		if err := <-ended; !errors.Is(err, done) {
			t.Errorf("ended with %v", err)
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func writeAt(t *testing.T, path, text string, changed time.Time) {
	t.Helper()
	write(t, path, text)
	if err := os.Chtimes(path, changed, changed); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, events []watchEvent, command string) {
	t.Helper()
	if len(events) != 1 || events[0].err != nil || events[0].file.Servers[0].Command != command {
		t.Errorf("got %v, want the file with %s", events, command)
	}
}

func wantError(t *testing.T, events []watchEvent, text string) {
	t.Helper()
	if len(events) != 1 || events[0].err == nil || events[0].file != nil || !strings.Contains(events[0].err.Error(), text) {
		t.Errorf("got %v, want an error with %s", events, text)
	}
}

func wantNothing(t *testing.T, events []watchEvent) {
	t.Helper()
	if len(events) != 0 {
		t.Errorf("got %v, want nothing", events)
	}
}

func TestWatchReportsChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	write(t, path, `{"a":{"command":"1"}}`)
	watchFile(t, path, func(nextEvents func() []watchEvent) {
		wantFile(t, nextEvents(), "1")
		wantNothing(t, nextEvents())
		write(t, path, `{"a":{"command":"2"}}`) // of the same size
		wantFile(t, nextEvents(), "2")
		write(t, path, `{"a":{"command":"2"}}`)
		wantNothing(t, nextEvents())
		other := path + "~"
		write(t, other, `{"a":{"command":"3"}}`)
		os.Rename(other, path)
		wantFile(t, nextEvents(), "3")
	})
}

func TestWatchSurvivesBrokenFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	watchFile(t, path, func(nextEvents func() []watchEvent) {
		wantError(t, nextEvents(), "no such file")
		wantNothing(t, nextEvents())
		write(t, path, "")
		wantError(t, nextEvents(), "mcp.json:1:1: ")
		write(t, path, `{"a":{"command":"1"}}`)
		wantFile(t, nextEvents(), "1")

		write(t, path, `{"a":{`) // half written
		wantNothing(t, nextEvents())
		write(t, path, `{"a":{"command":"1"}}`)
		wantNothing(t, nextEvents())

		write(t, path, `{"a":{"comm`)
		wantNothing(t, nextEvents())
		wantError(t, nextEvents(), "invalid JSON")
		wantNothing(t, nextEvents())
		write(t, path, `{"a":{"command":"1"}}`)
		wantFile(t, nextEvents(), "1")

		os.Remove(path)
		wantNothing(t, nextEvents())
		wantError(t, nextEvents(), "no such file")
		os.Mkdir(path, 0o700)
		wantError(t, nextEvents(), "not a regular file")
	})
}

// A file whose size and old modification time have not changed is not read again.
func TestWatchTrustsOldTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	long := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // the clock begins in 2000
	put := func(text string, changed time.Time) { writeAt(t, path, text, changed) }
	put(`{"a":{"command":"1"}}`, long)
	watchFile(t, path, func(nextEvents func() []watchEvent) {
		wantFile(t, nextEvents(), "1")
		put(`{"a":{"command":"2"}}`, long)
		wantNothing(t, nextEvents())
		put(`{"a":{"command":"2"}}`, long.Add(time.Nanosecond*1000))
		wantFile(t, nextEvents(), "2")
		put(`{"a":{"command":"33"}}`, long.Add(time.Nanosecond*1000))
		wantFile(t, nextEvents(), "33")
	})
}

// Two changes within the precision of a file system's clock have one time.
func TestWatchDoesNotTrustRecentTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when the clock begins
	writeAt(t, path, `{"a":{"command":"1"}}`, now)
	watchFile(t, path, func(nextEvents func() []watchEvent) {
		wantFile(t, nextEvents(), "1")
		writeAt(t, path, `{"a":{"command":"2"}}`, now)
		wantFile(t, nextEvents(), "2")
	})
}
