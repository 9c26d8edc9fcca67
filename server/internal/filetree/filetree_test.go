package filetree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server/internal/filetree"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Links are not followed, and other trees are not reached. Package server/resources tests this in
// detail.
func TestTree(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"a.md": "a", "sub/b.md": "b", "../secret": "s"} {
		file := filepath.Join(dir, "root", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"link.md": "a.md", "out.md": "../secret", "subdir": "sub"} {
		if err := os.Symlink(target, filepath.Join(dir, "root", link)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for kind, tree := range map[string]filetree.Tree{"root": filetree.Root(root), "fs": filetree.FS(os.DirFS(root.Name()))} {
		for name, want := range map[string]error{
			"a.md": nil, "sub/b.md": nil, "link.md": fs.ErrNotExist, "out.md": fs.ErrNotExist, "subdir/b.md": fs.ErrNotExist, "sub": fs.ErrNotExist, "none": fs.ErrNotExist,
		} {
			f, err := tree.OpenFile(name)
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s: opening %s: %v, want %v", kind, name, err, want)
			}
			if err == nil {
				f.Close()
			}
		}
	}
}

// All entries are visited, until a visit fails or the context ends.
func TestEachEntry(t *testing.T) {
	fsys := fstest.MapFS{}
	for i := range 1000 {
		fsys[fmt.Sprintf("dir/%d", i)] = &fstest.MapFile{}
	}
	tree := filetree.FS(fsys)
	visited := map[string]bool{}
	visit := func(entry fs.DirEntry) error { visited[entry.Name()] = true; return nil }
	if err := filetree.EachEntry(t.Context(), tree, "dir", visit); err != nil || len(visited) != 1000 {
		t.Errorf("%d entries, %v", len(visited), err)
	}
	if err := filetree.EachEntry(t.Context(), tree, "none", visit); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	refused := errors.New("refused")
	if err := filetree.EachEntry(t.Context(), tree, "dir", func(fs.DirEntry) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("a visit fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := filetree.EachEntry(ctx, tree, "dir", visit); !errors.Is(err, context.Canceled) {
		t.Errorf("the context has ended: %v", err)
	}
}

func TestRead(t *testing.T) {
	fsys := fstest.MapFS{"a": {Data: []byte("12345")}}
	for limit, ok := range map[int64]bool{5: true, 4: false} {
		f, err := filetree.FS(fsys).OpenFile("a")
		if err != nil {
			t.Fatal(err)
		}
		data, err := filetree.Read(f, limit)
		f.Close()
		tooLong, _ := errors.AsType[*filetree.TooLongError](err)
		if ok != (err == nil) || ok && string(data) != "12345" || !ok && (tooLong == nil || tooLong.Limit != limit) {
			t.Errorf("limit %d: %q, %v", limit, data, err)
		}
	}
}

func TestContents(t *testing.T) {
	for _, c := range []struct {
		mime, data, want string
		isText           bool
	}{
		{"text/markdown", "a", "text/markdown", true}, {"text/markdown", "\xff", "text/markdown", false}, {"", "a", "text/plain", true},
		{"", "\x00", "application/octet-stream", false}, {"image/png", "a", "image/png", false},
	} {
		switch got := filetree.Contents("u:a", c.mime, []byte(c.data)).(type) {
		case *mcp.TextResourceContents:
			if !c.isText || got.MIMEType != c.want || got.Text != c.data {
				t.Errorf("%+v: %+v", c, got)
			}
		case *mcp.BlobResourceContents:
			if c.isText || got.MIMEType != c.want || string(got.Blob) != c.data {
				t.Errorf("%+v: %+v", c, got)
			}
		}
	}
}
