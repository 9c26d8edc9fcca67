package workspace

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Stat describes a file or directory; a link is followed within the workspace.
func (w *Workspace) Stat(path string) (fs.FileInfo, error) {
	name, err := w.Name(path)
	if err != nil {
		return nil, err
	}
	info, err := w.root.Stat(name)
	return info, w.wrap(path, err)
}

// Open opens a regular file for reading; a link is followed within the workspace. It does
// not wait, whatever stands there.
func (w *Workspace) Open(path string) (*os.File, error) {
	name, err := w.Name(path)
	if err != nil {
		return nil, err
	}
	info, err := w.root.Stat(name) // opening a device may do something already
	if err != nil {
		return nil, w.wrap(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{path, ErrNotRegular}
	}
	f, err := w.root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, w.wrap(path, err)
	}
	info, err = f.Stat() // it may have been replaced
	if err == nil && !info.Mode().IsRegular() {
		err = &Error{path, ErrNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, w.wrap(path, err)
	}
	return f, nil
}

// ReadFile reads a whole file of at most limit bytes, 0 being [DefaultMaxSize].
func (w *Workspace) ReadFile(path string, limit int64) ([]byte, error) {
	f, err := w.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit = cmp.Or(limit, DefaultMaxSize)
	info, err := f.Stat()
	if err != nil {
		return nil, w.wrap(path, err)
	}
	if size := info.Size(); size > limit {
		return nil, &Error{path, fmt.Errorf("%w: it has %d bytes, more than %d", ErrTooLarge, size, limit)}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1)) // it may have grown
	if err == nil && int64(len(data)) > limit {
		err = ErrTooLarge
	}
	return data, w.wrap(path, err)
}

// ReadDir lists a directory, sorted by name.
func (w *Workspace) ReadDir(path string) ([]fs.DirEntry, error) {
	name, err := w.Name(path)
	if err != nil {
		return nil, err
	}
	info, err := w.root.Stat(name)
	if err == nil && !info.IsDir() {
		err = &Error{path, ErrNotDirectory}
	}
	if err != nil {
		return nil, w.wrap(path, err)
	}
	entries, err := newTree(w.root).ReadDir(name)
	return entries, w.wrap(path, err)
}

// Walk visits a file, or a directory and all below it, in the order of names. No link is
// followed, and what cannot be read is left out. visit may return fs.SkipDir and
// fs.SkipAll. complete is false when the walk ended before, at [MaxVisited] entries.
func (w *Workspace) Walk(ctx context.Context, path string, visit func(name string, entry fs.DirEntry) error) (complete bool, err error) {
	name, err := w.Name(path)
	if err != nil {
		return false, err
	}
	if _, err := w.root.Stat(name); err != nil {
		return false, w.wrap(path, err)
	}
	visited, complete := 0, true
	err = fs.WalkDir(newTree(w.root), name, func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if visited++; visited > MaxVisited {
			complete = false
			return fs.SkipAll
		}
		if entry == nil || err != nil && !entry.IsDir() {
			return nil
		}
		if err != nil {
			return fs.SkipDir
		}
		if entry.IsDir() && strings.Count(name, "/") >= maxDepth {
			complete = false
			return fs.SkipDir
		}
		return visit(name, entry)
	})
	return complete, err
}
