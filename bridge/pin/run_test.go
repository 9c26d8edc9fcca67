package pin_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/bridge/pin"
	"github.com/dovetail-go/dovetail/mcp"
)

// A record has the changes that Run reports.
type record struct {
	mu    sync.Mutex
	kinds []mcp.Kind
}

func (r *record) add(change mcp.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kinds = append(r.kinds, change.Kind)
}

// take returns the changes since the last call.
func (r *record) take() []mcp.Kind {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds := r.kinds
	r.kinds = nil
	return kinds
}

// run runs a provider until stop is called.
func run(t *testing.T, g *pin.Provider) (r *record, stop func()) {
	t.Helper()
	r = &record{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	ready := make(chan struct{})
	go func() { ended <- g.Run(ctx, func() { close(ready) }, r.add) }()
	<-ready
	synctest.Wait()
	return r, func() {
		t.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ends with %v", err)
		}
	}
}

func wantChanges(t *testing.T, r *record, want ...mcp.Kind) {
	t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("the changes are %v, want %v", got, want)
	}
}

// TestRunReportsChanges: Run reports changes of the provider and of the pins.
func TestRunReportsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lock := pin.NewLock("")
		p := newFake(tool("a", ""))
		g := pin.Wrap(p, "s", lock, &pin.Options{Logger: quiet()})
		r, stop := run(t, g)
		if n := len(lock.Pending()); n != 1 { // although the catalog was not read
			t.Errorf("%d tools are pending", n)
		}
		wantChanges(t, r)
		if err := lock.Accept("s", toolNamed("a")); err != nil {
			t.Fatal(err)
		}
		wantChanges(t, r, mcp.KindTool)
		wantTools(t, g, lock, "a")

		p.show(tool("a", "another"))
		wantChanges(t, r, mcp.KindTool)
		if n := len(lock.Pending()); n != 1 {
			t.Errorf("%d tools are pending", n)
		}
		(*p.changed.Load())(mcp.Change{Kind: mcp.KindPrompt})
		wantChanges(t, r, mcp.KindPrompt)
		pinOne(t, lock, "other", "a", 1)
		wantChanges(t, r)
		stop()
		if err := lock.Accept("s", toolNamed("a")); err != nil {
			t.Fatal(err)
		}
		wantChanges(t, r)
	})
}

// TestRunReportsReload: Run reports tools that another process has accepted.
func TestRunReportsReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "mcp.lock")
		save(t, pin.NewLock(path))
		lock, other := load(t, path), load(t, path)
		g := pin.Wrap(newFake(tool("a", "")), "s", lock, &pin.Options{Logger: quiet()})
		r, stop := run(t, g)
		defer stop()
		pinAll(t, other, "s", tool("a", ""))
		save(t, other)
		if err := lock.Reload(); err != nil {
			t.Fatal(err)
		}
		wantChanges(t, r, mcp.KindTool)
		wantTools(t, g, lock, "a")
		if err := lock.Reload(); err != nil {
			t.Fatal(err)
		}
		wantChanges(t, r)
	})
}

// TestRunSaves: Run saves trusted and accepted tools.
func TestRunSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "mcp.lock")
		lock := pin.NewLock(path)
		p := newFake(tool("a", ""))
		g := pin.Wrap(p, "s", lock, &pin.Options{TrustNew: true, Logger: quiet()})
		r, stop := run(t, g)
		pinned := func(want ...string) {
			t.Helper()
			synctest.Wait()
			saved := load(t, path)
			for i, name := range []string{"a", "b", "c"} {
				if got, _ := saved.Pinned("s", toolNamed(name)); i < len(want) && got != digest(t, want[i]) || i >= len(want) && got != "" {
					t.Errorf("%s is saved as %q", name, got)
				}
			}
		}
		pinned(tool("a", ""))
		p.show(tool("a", ""), tool("b", ""))
		pinned(tool("a", ""), tool("b", ""))
		p.show(tool("a", "another"), tool("b", ""))
		pinned(tool("a", ""), tool("b", ""))
		if err := lock.Accept("s", toolNamed("a")); err != nil {
			t.Fatal(err)
		}
		pinned(tool("a", "another"), tool("b", ""))
		p.catalog.Store(p.catalogOf(tool("a", "another"), tool("b", ""), tool("c", ""))) // without a notification
		g.Catalog()
		pinned(tool("a", "another"), tool("b", ""), tool("c", ""))
		r.take()
		pinOne(t, lock, "s", "c", 3) // at the last moment
		stop()
		if got, _ := load(t, path).Pinned("s", toolNamed("c")); got != someDigest(3) {
			t.Errorf("c is saved as %q", got)
		}

		again := load(t, path)
		p.show(tool("a", "yet another"), tool("b", ""))
		wantTools(t, pin.Wrap(p, "s", again, &pin.Options{TrustNew: true, Logger: quiet()}), again, "b", "s a changed")
	})
}

// TestRunLogsSaveErrors: Run does not overwrite the file of another program.
func TestRunLogsSaveErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := writeFile(t, lockFile)
		lock := load(t, path)
		if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		g := pin.Wrap(newFake(tool("a", "")), "s", lock, &pin.Options{TrustNew: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		_, stop := run(t, g)
		stop()
		if text := readFile(t, path); text != "broken" || !strings.Contains(log.String(), pin.ErrFileChanged.Error()) {
			t.Errorf("the file is %q, the log\n%s", text, log.String())
		}
		wantTools(t, g, lock, "a")
	})
}
