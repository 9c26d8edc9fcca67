package filetree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// A Tree is a source of files whose names satisfy [IsName]. Symbolic links, and files behind
// them, do not exist in it. Its methods may be called concurrently.
type Tree interface {
	// OpenFile opens a regular file.
	OpenFile(name string) (fs.File, error)
	// OpenDir opens a directory; "." is the root.
	OpenDir(name string) (fs.ReadDirFile, error)
}

// Root returns the tree below a root.
func Root(root *os.Root) Tree { return rootTree{root} }

// FS returns the tree of a file system.
func FS(fsys fs.FS) Tree { return fsTree{fsys} }

const (
	// MaxDepth is the maximum number of elements of a path.
	MaxDepth = 64
	// MaxElement is the maximum length of a path element, in bytes.
	MaxElement = 255
	// maxReplaced is how often a file may be replaced while it is being opened.
	maxReplaced = 8
)

// errReplaced says that a file was replaced during each attempt to open it.
var errReplaced = errors.New("it is replaced too often")

// fsTree is a tree of an fs.FS.
type fsTree struct{ fsys fs.FS }

func (t fsTree) OpenFile(name string) (fs.File, error) {
	if err := t.check(name, 0); err != nil {
		return nil, err
	}
	return OnlyRegular(t.fsys.Open(name))
}

func (t fsTree) OpenDir(name string) (fs.ReadDirFile, error) {
	if err := t.check(name, fs.ModeDir); err != nil {
		return nil, err
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	dir, ok := f.(fs.ReadDirFile)
	if !ok {
		f.Close()
		return nil, fs.ErrNotExist
	}
	return dir, nil
}

// check rejects names with symbolic links, which fs.FS.Open would follow.
func (t fsTree) check(name string, kind fs.FileMode) error {
	if name == "." {
		return nil
	}
	for i, c := range name + "/" {
		if c != '/' {
			continue
		}
		want := fs.ModeDir
		if i == len(name) {
			want = kind
		}
		info, err := fs.Lstat(t.fsys, name[:i])
		if err != nil {
			return err
		}
		if info.Mode().Type() != want {
			return fs.ErrNotExist
		}
	}
	return nil
}

// rootTree is a tree of an os.Root.
type rootTree struct{ root *os.Root }

func (t rootTree) OpenFile(name string) (fs.File, error) {
	dir, err := t.enter(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	open := func(name string) (*os.File, error) { return OpenNonBlocking(dir, name) }
	return openSame(dir, path.Base(name), 0, open, (*os.File).Stat)
}

func (t rootTree) OpenDir(name string) (fs.ReadDirFile, error) {
	dir, err := t.enter(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Open(".")
}

// enter opens a directory, one path element after the other.
func (t rootTree) enter(name string) (*os.Root, error) {
	dir, err := t.root.OpenRoot(".")
	if err != nil || name == "." {
		return dir, err
	}
	// The dot makes opening a pipe fail instead of block.
	open := func(element string) (*os.Root, error) { return dir.OpenRoot(element + "/.") }
	for element := range strings.SplitSeq(name, "/") {
		next, err := openSame(dir, element, fs.ModeDir, open, func(r *os.Root) (fs.FileInfo, error) { return r.Stat(".") })
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// openSame opens a file of the given type. A root follows links below it, and the file may be
// replaced after Lstat. openSame therefore checks that the opened file is the one that Lstat
// has described.
func openSame[T io.Closer](dir *os.Root, name string, kind fs.FileMode, open func(string) (T, error), stat func(T) (fs.FileInfo, error)) (T, error) {
	var zero T
	for range maxReplaced {
		before, err := dir.Lstat(name)
		if err != nil {
			return zero, err
		}
		if before.Mode().Type() != kind {
			return zero, fs.ErrNotExist
		}
		opened, err := open(name)
		if err != nil {
			return zero, err
		}
		info, err := stat(opened)
		if err == nil && os.SameFile(before, info) {
			return opened, nil
		}
		opened.Close()
		if err != nil {
			return zero, err
		}
	}
	return zero, errReplaced
}

// readDirBatch is how many entries of a directory are read at a time.
const readDirBatch = 256

// EachEntry visits the entries of a directory, in any order, until visit returns an error or ctx ends.
func EachEntry(ctx context.Context, tree Tree, dir string, visit func(fs.DirEntry) error) error {
	f, err := tree.OpenDir(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := f.ReadDir(readDirBatch)
		for _, entry := range entries {
			if err := visit(entry); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// OpenNonBlocking opens a file for reading. It does not block on a pipe.
func OpenNonBlocking(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// IsName reports whether a path is a valid file name on every system: relative, with slashes,
// without the elements "." and "..", and without forms that a system treats as another name.
func IsName(name string) bool {
	if name == "." || !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00") || strings.Count(name, "/") >= MaxDepth {
		return false
	}
	for element := range strings.SplitSeq(name, "/") {
		if len(element) > MaxElement || runtime.GOOS == "windows" && IsWindowsAlias(element) {
			return false
		}
	}
	_, err := filepath.Localize(name) // rejects NUL and COM1 on Windows
	return err == nil
}

// IsWindowsAlias reports whether Windows may treat an element as another name: with a stream, a
// wildcard, a trailing dot or space, or as a short name.
func IsWindowsAlias(element string) bool {
	if strings.ContainsAny(element, `:*?"<>|`) || strings.HasSuffix(element, ".") || strings.HasSuffix(element, " ") {
		return true
	}
	_, after, found := strings.Cut(element, "~")
	return found && after != "" && '0' <= after[0] && after[0] <= '9'
}

// IsHidden reports whether any element of a path begins with a dot.
func IsHidden(name string) bool { return strings.HasPrefix(name, ".") || strings.Contains(name, "/.") }

// URI returns the URI of a file below a base URI: RFC 3986, section 3.3.
func URI(base, name string) string {
	elements := strings.Split(name, "/")
	for i, element := range elements {
		elements[i] = url.PathEscape(element)
	}
	return base + strings.Join(elements, "/")
}

// OnlyRegular closes everything except a regular file and returns fs.ErrNotExist. It takes the
// results of opening the file.
func OnlyRegular[F fs.File](f F, err error) (F, error) {
	if err != nil {
		return f, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
	}
	return f, err
}

// Read reads a file of at most limit bytes. The size that Stat returns may be wrong. The error for a
// longer file is a *[TooLongError].
func Read(f fs.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size > limit {
		return nil, &TooLongError{limit}
	}
	buf := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := buf.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(buf.Len()) > limit {
		return nil, &TooLongError{limit}
	}
	return buf.Bytes(), nil
}

// A TooLongError says that a file is longer than Limit, in bytes.
type TooLongError struct{ Limit int64 }

func (e *TooLongError) Error() string { return fmt.Sprintf("it is longer than %d bytes", e.Limit) }
