package pin_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/bridge/pin"
)

// acceptedLock returns the path of a lock file with tools that were accepted.
func acceptedLock(t *testing.T, tools ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "mcp.lock")
	lock := pin.NewLock(path)
	g := pin.Wrap(newFake(tools...), "s", lock, &pin.Options{Logger: quiet()})
	g.Catalog()
	for _, p := range lock.Pending() {
		if err := lock.AcceptDigest("s", p.Entry, p.NewDigest); err != nil {
			t.Fatal(err)
		}
	}
	save(t, lock)
	return path
}

// pendingOf returns what is pending in another process that reads the lock file.
func pendingOf(t *testing.T, path string, tools ...string) (*pin.Lock, []pin.Pending) {
	t.Helper()
	lock := load(t, path)
	pin.Wrap(newFake(tools...), "s", lock, &pin.Options{Logger: quiet()}).Catalog()
	return lock, lock.Pending()
}

func kept(t *testing.T, path string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(path+".d", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAcceptedDefinitionIsKnownAfterRestart(t *testing.T) {
	path := acceptedLock(t, tool("a", "reads"), tool("b", "writes"))
	_, pending := pendingOf(t, path, tool("a", "reads and sends"), tool("b", "writes"))
	if len(pending) != 1 {
		t.Fatalf("pending are %v, want a", pending)
	}
	differences, err := pending[0].Diff()
	if err != nil || len(differences) != 1 || differences[0].Member != "description" || string(differences[0].Before) != `"reads"` || string(differences[0].After) != `"reads and sends"` {
		t.Errorf("the differences are %s, %v", differences, err)
	}
}

// A lock of an earlier version has no folder. What is seen as it was accepted is kept.
func TestSeenDefinitionsAreKept(t *testing.T) {
	path := acceptedLock(t, tool("a", "reads"))
	if err := os.RemoveAll(path + ".d"); err != nil {
		t.Fatal(err)
	}
	lock, _ := pendingOf(t, path, tool("a", "reads"))
	save(t, lock)
	if _, pending := pendingOf(t, path, tool("a", "other")); len(pending) != 1 || pending[0].Before == nil {
		t.Errorf("pending are %v, want one with the accepted definition", pending)
	}
}

func TestKeptDefinitionIsVerified(t *testing.T) {
	for name, text := range map[string]string{"another definition": tool("a", "harmless"), "no JSON": "{", "empty": ""} {
		t.Run(name, func(t *testing.T) {
			path := acceptedLock(t, tool("a", "reads"))
			for _, file := range kept(t, path) {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, pending := pendingOf(t, path, tool("a", "other")); len(pending) != 1 || pending[0].Before != nil {
				t.Errorf("pending are %v, want one without a definition that was not accepted", pending)
			}
		})
	}
}

func TestDefinitionsThatAreNotPinnedAreRemoved(t *testing.T) {
	path := acceptedLock(t, tool("a", "reads"))
	own := filepath.Join(path+".d", "README")
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := kept(t, path)
	lock, pending := pendingOf(t, path, tool("a", "other"))
	if err := lock.AcceptDigest("s", pending[0].Entry, pending[0].NewDigest); err != nil {
		t.Fatal(err)
	}
	save(t, lock)
	if after := kept(t, path); len(before) != 2 || len(after) != 2 || after[1] == before[1] || after[0] != own {
		t.Errorf("the folder had %q and has %q, want another definition, and the file of the user", before, after)
	}
}

func TestAcceptDigestRefusesAnotherDefinition(t *testing.T) {
	path := acceptedLock(t, tool("a", "reads"))
	lock, pending := pendingOf(t, path, tool("a", "shown to a person"))
	shown := pending[0]
	pin.Wrap(newFake(tool("a", "changed since")), "s", lock, &pin.Options{Logger: quiet()}).Catalog()
	if err := lock.AcceptDigest("s", shown.Entry, shown.NewDigest); !errors.Is(err, pin.ErrNotPending) {
		t.Errorf("the error is %v, want ErrNotPending", err)
	}
	if err := lock.AcceptDigest("s", shown.Entry, "sha256:x"); err == nil || !strings.Contains(err.Error(), "expected a digest") {
		t.Errorf("the error of an invalid digest is %v", err)
	}
	if digest, _ := lock.Pinned("s", shown.Entry); digest != shown.OldDigest {
		t.Errorf("%s is pinned, want %s as before", digest, shown.OldDigest)
	}
}
