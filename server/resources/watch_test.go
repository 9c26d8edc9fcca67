package resources_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/resources"
)

// notified returns the sorted URIs of all notifications so far.
func notified(changes <-chan mcp.Change) []string {
	synctest.Wait()
	var uris []string
	for {
		select {
		case change := <-changes:
			uris = append(uris, change.URI)
		default:
			slices.Sort(uris)
			return uris
		}
	}
}

// watch connects a client, subscribed to uris, to a server that watches its files.
func watch(t *testing.T, interval time.Duration, entries []*server.Entry, uris ...string) (<-chan mcp.Change, func()) {
	t.Helper()
	changes := make(chan mcp.Change, 100)
	session, s := serveTo(t, &client.Options{OnChange: func(_ context.Context, change mcp.Change) { changes <- change }}, entries...)
	if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: uris}); err != nil {
		t.Fatal(err)
	}
	stop, err := resources.Watch(t.Context(), s, interval, entries...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return changes, stop
}

// A step changes files and lists the expected notifications.
type step struct {
	what string
	do   func() error
	want []string
}

// play runs each step between two checks.
func play(t *testing.T, changes <-chan mcp.Change, interval time.Duration, steps ...step) {
	t.Helper()
	<-time.After(interval / 2)
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		<-time.After(interval)
		if got := notified(changes); !slices.Equal(got, step.want) {
			t.Errorf("%s: notified of %q, want %q", step.what, got, step.want)
		}
	}
}

func TestWatchDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := open(t, map[string]string{"a.md": "1", "sub/b c.md": "1", ".hidden": "1", "c.txt": "1"})
		entries := directory(t, root, &resources.DirectoryOptions{Pattern: "**/*.md"})
		changes, stop := watch(t, 0, entries, "file:///", "file:///a.md", "file:///sub/b%20c.md", "file:///new.md", "file:///.hidden", "file:///c.txt")
		play(t, changes, 2*time.Second,
			step{"nothing", func() error { return nil }, nil},
			step{"another size", func() error { return root.WriteFile("a.md", []byte("12"), 0o666) }, []string{"file:///a.md"}},
			step{"another time", func() error { return root.Chtimes("sub/b c.md", time.Time{}, time.Unix(1, 0)) }, []string{"file:///sub/b%20c.md"}},
			step{"an older time", func() error { return root.Chtimes("sub/b c.md", time.Time{}, time.Unix(0, 0)) }, []string{"file:///sub/b%20c.md"}},
			step{"a new file", func() error { return root.WriteFile("new.md", nil, 0o666) }, []string{"file:///", "file:///new.md"}},
			step{"a file is gone", func() error { return root.Remove("new.md") }, []string{"file:///", "file:///new.md"}},
			step{"a directory is gone", func() error { return root.Rename("sub", ".sub") }, []string{"file:///", "file:///sub/b%20c.md"}},
			step{"and comes back", func() error { return root.Rename(".sub", "sub") }, []string{"file:///", "file:///sub/b%20c.md"}},
			step{"one for another", func() error { return root.Rename("a.md", "new.md") }, []string{"file:///", "file:///a.md", "file:///new.md"}},
			step{"hidden files", func() error { return root.WriteFile(".hidden", []byte("12"), 0o666) }, nil},
			step{"files that do not match", func() error { return root.WriteFile("c.txt", []byte("12"), 0o666) }, nil},
		)
		stop()
		play(t, changes, time.Minute, step{"the end", func() error { return root.WriteFile("new.md", []byte("last"), 0o666) }, nil})
	})
}

func TestWatchFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := open(t, map[string]string{"a": "1"})
		changes, _ := watch(t, time.Second, []*server.Entry{file(t, root, "a", nil), file(t, root, "later", nil)}, "file:///a", "file:///later", "file:///")
		play(t, changes, time.Second,
			step{"nothing", func() error { return nil }, nil},
			step{"another size", func() error { return root.WriteFile("a", []byte("12"), 0o666) }, []string{"file:///a"}},
			step{"a file comes", func() error { return root.WriteFile("later", nil, 0o666) }, []string{"file:///later"}},
			step{"a file goes", func() error { return root.Remove("a") }, []string{"file:///a"}},
		)
	})
}

// With ListOnly, only added and removed files cause notifications.
func TestWatchListOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := open(t, map[string]string{"a": "1"})
		changes, _ := watch(t, time.Second, directory(t, root, &resources.DirectoryOptions{ListOnly: true}), "file:///", "file:///a", "file:///b")
		play(t, changes, time.Second,
			step{"another size", func() error { return root.WriteFile("a", []byte("12"), 0o666) }, nil},
			step{"a file comes", func() error { return root.WriteFile("b", nil, 0o666) }, []string{"file:///"}},
			step{"a file goes", func() error { return root.Remove("a") }, []string{"file:///"}},
		)
	})
}

// A check that fails causes no notifications.
func TestWatchFailingCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := open(t, map[string]string{"a": "1"})
		changes, _ := watch(t, time.Second, directory(t, root, &resources.DirectoryOptions{MaxFiles: 2}), "file:///", "file:///a", "file:///b")
		play(t, changes, time.Second,
			step{"one comes", func() error { return root.WriteFile("b", nil, 0o666) }, []string{"file:///", "file:///b"}},
			step{"too many come", func() error { return root.WriteFile("c", nil, 0o666) }, nil},
			step{"a change meanwhile", func() error { return root.WriteFile("a", []byte("12"), 0o666) }, nil},
			step{"one goes", func() error { return root.Remove("c") }, []string{"file:///a"}},
		)
	})
}

func TestWatchContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := open(t, map[string]string{"a": "1"})
		_, s := serveTo(t, &client.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		stop, err := resources.Watch(ctx, s, time.Second, file(t, root, "a", nil))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		stop()
		stop()
	})
}

func TestWatchErrors(t *testing.T) {
	root := open(t, map[string]string{"a": "1"})
	_, s := serveTo(t, &client.Options{})
	remote, err := resources.HTTP("https://example.com/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resources.Watch(t.Context(), s, 0, remote); err == nil {
		t.Error("there is something to watch")
	}
	closed, err := os.OpenRoot(root.Name())
	if err != nil {
		t.Fatal(err)
	}
	entries := directory(t, closed, nil)
	closed.Close()
	if _, err := resources.Watch(t.Context(), s, 0, entries...); err == nil {
		t.Error("a root that is closed is watched")
	}
	if _, err := resources.Watch(t.Context(), s, 0, file(t, closed, "a", nil)); err == nil {
		t.Error("a file of a root that is closed is watched")
	}
}
