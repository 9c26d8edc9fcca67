package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/server/memory"
	"github.com/dovetail-go/dovetail/server/memory/sqlite"
)

const (
	taskVariable = "SQLITE_TEST_TASK" // the name under which a process of a test saves
	endless      = "endless"          // what the name of one begins with that does not stop
	pathVariable = "SQLITE_TEST_PATH" // the file that it saves to
)

// manySaves is the number of records that a process saves.
const manySaves = 200

// concurrent are the options for processes that write without a pause. SQLite lets whoever asks first after the end of a
// write continue, so that a process may wait for many writes of the others, each as long as the disk takes.
func concurrent() *sqlite.Options {
	return &sqlite.Options{Limits: &memory.Limits{Conversations: -1}, BusyTimeout: 2 * time.Minute}
}

// runTask saves records and prints the key of each one.
func runTask(name string) {
	ctx := context.Background()
	store, err := sqlite.Open(ctx, os.Getenv(pathVariable), concurrent())
	if err == nil {
		for i := 0; err == nil && (i < manySaves || strings.HasPrefix(name, endless)); i++ {
			key := fmt.Sprintf("%s %04d", name, i)
			if err = save(ctx, store, key, "value of "+key); err == nil {
				fmt.Println(key)
			}
		}
		store.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// startProcess starts a process that saves records under a name.
func startProcess(t *testing.T, path, name string) (saved io.Reader, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), taskVariable+"="+name, pathVariable+"="+path)
	cmd.Stderr = os.Stderr
	saved, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return saved, cmd
}

// Saved records exist after the process was killed.
func TestKilledProcess(t *testing.T) {
	path := newPath(t)
	var saved []string
	for round := range 3 {
		out, cmd := startProcess(t, path, fmt.Sprint(endless, " ", round))
		lines := bufio.NewScanner(out)
		for n := 1; lines.Scan(); n++ {
			saved = append(saved, lines.Text())
			if n == 50 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		cmd.Wait()
	}
	if len(saved) < 150 {
		t.Fatalf("only %d records were saved", len(saved))
	}
	store := open(t, path, nil)
	for _, key := range saved {
		if value, err := store.Load(t.Context(), conversations(), key); err != nil || value != "value of "+key {
			t.Errorf("%s holds %q, %v", key, value, err)
		}
	}
	checkIntegrity(t, path)
}

// Processes can open, save and read concurrently.
func TestConcurrentProcesses(t *testing.T) {
	path := newPath(t)
	var all sync.WaitGroup
	for process := range 3 {
		out, cmd := startProcess(t, path, fmt.Sprint("process ", process))
		all.Go(func() {
			io.Copy(io.Discard, out)
			if err := cmd.Wait(); err != nil {
				t.Errorf("process %d: %v", process, err)
			}
		})
	}
	store := open(t, path, concurrent())
	for i := range manySaves {
		if err := save(t.Context(), store, fmt.Sprintf("test %04d", i), ""); err != nil {
			t.Errorf("saving while others do: %v", err)
		}
		if _, err := store.List(t.Context(), conversations(), memory.Query{Limit: 10}); err != nil {
			t.Errorf("listing while others save: %v", err)
		}
	}
	all.Wait()
	records, err := store.List(t.Context(), conversations(), memory.Query{})
	if err != nil || len(records) != 4*manySaves {
		t.Errorf("%d records are there, %v, want %d", len(records), err, 4*manySaves)
	}
	checkIntegrity(t, path)
}
