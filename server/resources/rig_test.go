package resources_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/resources"
	"github.com/dovetail-go/dovetail/transport"
)

// open creates a directory with files, next to a file that must not be read. A key "a -> b" is
// a symbolic link.
func open(t testing.TB, files map[string]string) *os.Root {
	t.Helper()
	outside := t.TempDir()
	write(t, filepath.Join(outside, "secret"), "secret")
	dir := filepath.Join(outside, "root")
	// The name of the root is a prefix of the name of this directory.
	write(t, filepath.Join(outside, "root_evil", "a"), "secret")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if link, target, ok := strings.Cut(name, " -> "); ok {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(strings.ReplaceAll(target, "OUTSIDE", outside), filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		write(t, filepath.Join(dir, name), text)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// serve connects a client to a server with these entries.
func serve(t testing.TB, entries ...*server.Entry) *client.Session {
	t.Helper()
	session, _ := serveTo(t, &client.Options{}, entries...)
	return session
}

func serveTo(t testing.TB, opts *client.Options, entries ...*server.Entry) (*client.Session, *server.Server) {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "test", Version: "1"}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.Replace(entries...); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), transport.Pipe(s), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session, s
}

func file(t testing.TB, root *os.Root, name string, opts *resources.FileOptions) *server.Entry {
	t.Helper()
	entry, err := resources.File(root, name, opts)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func directory(t testing.TB, root *os.Root, opts *resources.DirectoryOptions) []*server.Entry {
	t.Helper()
	entries, err := resources.Directory(root, opts)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// read reads a resource with one content.
func read(session *client.Session, uri string) (mcp.ResourceContents, error) {
	result, err := session.ReadResource(background, uri, nil)
	if err != nil {
		return nil, err
	}
	if len(result.Contents) != 1 {
		return nil, errors.New("expected one content")
	}
	return result.Contents[0], nil
}

// text reads a resource, whose content must be text.
func text(t testing.TB, session *client.Session, uri string) string {
	t.Helper()
	contents, err := read(session, uri)
	if err != nil {
		t.Errorf("reading %s: %v", uri, err)
		return ""
	}
	found, ok := contents.(*mcp.TextResourceContents)
	if !ok {
		t.Errorf("%s: content %T", uri, contents)
		return ""
	}
	if found.URI != uri {
		t.Errorf("%s has the URI %s", uri, found.URI)
	}
	return found.Text
}

// list reads a listing.
func list(t testing.TB, session *client.Session, uri string) []string {
	t.Helper()
	var names []string
	if listing := text(t, session, uri); listing != "" {
		if err := json.Unmarshal([]byte(listing), &names); err != nil || names == nil {
			t.Errorf("%s: listing %s: %v", uri, listing, err)
		}
	}
	return names
}

func wantNotFound(t testing.TB, session *client.Session, uri string) {
	t.Helper()
	if contents, err := read(session, uri); !mcp.IsResourceNotFound(err) {
		t.Errorf("reading %.80q: %v, %v", uri, contents, err)
	}
}

// wantFailed checks that a read fails with a reason and without a path.
func wantFailed(t testing.TB, session *client.Session, uri, reason string) {
	t.Helper()
	contents, err := read(session, uri)
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != jsonrpc.InternalError || !strings.Contains(e.Message, reason) {
		t.Errorf("reading %s: %v, %v, want an error with %q", uri, contents, err, reason)
	} else if strings.Contains(e.Message, os.TempDir()) {
		t.Errorf("the error names a path of this machine: %v", e)
	}
}

// background is used by fuzz targets, too, which outlive the contexts of their tests.
var background = context.Background()

func TestMain(m *testing.M) { leaktest.Main(m) }
