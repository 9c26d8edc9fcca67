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

// A sighting is what a watcher tells of.
type sighting struct {
	file *config.File
	err  error
}

// watching follows a file by a clock that the test turns. look lets one interval
// pass and returns what was told in it.
func watching(t *testing.T, path string, test func(look func() []sighting)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		told := make(chan sighting, 8)
		ended := make(chan error)
		go func() {
			ended <- config.Watch(ctx, path, time.Second, func(file *config.File, err error) { told <- sighting{file, err} })
		}()
		look := func() []sighting {
			synctest.Wait()
			if len(told) == 0 {
				<-time.After(time.Second)
				synctest.Wait()
			}
			var now []sighting
			for len(told) > 0 {
				now = append(now, <-told)
			}
			return now
		}
		test(look)
		cancel(enough)
		if err := <-ended; !errors.Is(err, enough) {
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

func wantFile(t *testing.T, told []sighting, command string) {
	t.Helper()
	if len(told) != 1 || told[0].err != nil || told[0].file.Servers[0].Command != command {
		t.Errorf("got %v, want the file with %s", told, command)
	}
}

func wantError(t *testing.T, told []sighting, text string) {
	t.Helper()
	if len(told) != 1 || told[0].err == nil || told[0].file != nil || !strings.Contains(told[0].err.Error(), text) {
		t.Errorf("got %v, want an error with %s", told, text)
	}
}

func wantNothing(t *testing.T, told []sighting) {
	t.Helper()
	if len(told) != 0 {
		t.Errorf("got %v, want nothing", told)
	}
}

func TestWatchTellsOfChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	write(t, path, `{"a":{"command":"1"}}`)
	watching(t, path, func(look func() []sighting) {
		wantFile(t, look(), "1")
		wantNothing(t, look())
		write(t, path, `{"a":{"command":"2"}}`) // of the same size
		wantFile(t, look(), "2")
		write(t, path, `{"a":{"command":"2"}}`)
		wantNothing(t, look())
		other := path + "~"
		write(t, other, `{"a":{"command":"3"}}`)
		os.Rename(other, path)
		wantFile(t, look(), "3")
	})
}

func TestWatchSurvivesBrokenFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	watching(t, path, func(look func() []sighting) {
		wantError(t, look(), "no such file")
		wantNothing(t, look())
		write(t, path, "")
		wantError(t, look(), "mcp.json:1:1: ")
		write(t, path, `{"a":{"command":"1"}}`)
		wantFile(t, look(), "1")

		write(t, path, `{"a":{`) // half written
		wantNothing(t, look())
		write(t, path, `{"a":{"command":"1"}}`)
		wantNothing(t, look())

		write(t, path, `{"a":{"comm`)
		wantNothing(t, look())
		wantError(t, look(), "invalid JSON")
		wantNothing(t, look())
		write(t, path, `{"a":{"command":"1"}}`)
		wantFile(t, look(), "1")

		os.Remove(path)
		wantNothing(t, look())
		wantError(t, look(), "no such file")
		os.Mkdir(path, 0o700)
		wantError(t, look(), "not a regular file")
	})
}

// A file that looks as before, and has for long, is not read again.
func TestWatchReadsOnlyWhatLooksDifferent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	long := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) // the clock begins in 2000
	put := func(text string, changed time.Time) { writeAt(t, path, text, changed) }
	put(`{"a":{"command":"1"}}`, long)
	watching(t, path, func(look func() []sighting) {
		wantFile(t, look(), "1")
		put(`{"a":{"command":"2"}}`, long)
		wantNothing(t, look())
		put(`{"a":{"command":"2"}}`, long.Add(time.Nanosecond*1000))
		wantFile(t, look(), "2")
		put(`{"a":{"command":"33"}}`, long.Add(time.Nanosecond*1000))
		wantFile(t, look(), "33")
	})
}

// Two changes within the grain of a file system's clock look like one.
func TestWatchDoesNotTrustRecentTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when the clock begins
	writeAt(t, path, `{"a":{"command":"1"}}`, now)
	watching(t, path, func(look func() []sighting) {
		wantFile(t, look(), "1")
		writeAt(t, path, `{"a":{"command":"2"}}`, now)
		wantFile(t, look(), "2")
	})
}
