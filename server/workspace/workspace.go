package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// defaultMaxSize is the default limit for files that are read completely, in bytes.
	defaultMaxSize = 10 << 20
	// maxVisited is the number of directory entries that one [Workspace.Walk] visits.
	maxVisited = 200_000
	// maxLine is the length at which a line is cut for display, in bytes.
	maxLine = 2000
	// maxText is the size of the lines that are returned at a time, in bytes.
	maxText = 256 << 10
	// maxScanned is how much of a file is read to find lines, in bytes.
	maxScanned = 64 << 20
	// maxPath is the longest path, in bytes.
	maxPath = 4096

	maxDepth = 64 // directory levels of one walk
)

// Options configure a [Workspace]. The zero value is ready to use.
type Options struct {
	// Protected lists names of files and directories that cannot be changed at any level,
	// nor can the contents of such directories: ".git", for example, whose files may name
	// programs to run. Case is ignored.
	Protected []string
	// Raw makes the tool read_file return complete, unchanged texts, for programs that call it.
	// By default, and in calls with the argument raw false, lines have numbers, which suits
	// models. Texts of more than 1 MiB, or that are not UTF-8, are errors then.
	Raw bool
}

// A Workspace is a directory and its contents. Create one with [Open].
type Workspace struct {
	root      *os.Root
	dirs      []string // absolute paths of the directory: without links, and as it was opened
	protected []string
	raw       bool
	escape    error      // what root returns for a path that leads outside
	writing   sync.Mutex // serializes changes
}

// Open opens a directory. opts may be nil.
func Open(dir string, opts *Options) (*Workspace, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	_, err = root.Lstat("..")
	w := &Workspace{root: root, dirs: []string{real, abs}, escape: cause(err)}
	if opts != nil {
		w.protected, w.raw = slices.Clone(opts.Protected), opts.Raw
	}
	return w, nil
}

// Close closes the directory. Files that were opened in it stay open.
func (w *Workspace) Close() error { return w.root.Close() }

// Dir returns the absolute path of the directory, without symbolic links.
func (w *Workspace) Dir() string { return w.dirs[0] }

// Name returns the path relative to the workspace, with slashes; "." is the workspace itself.
// It checks only the text of the path: the file need not exist, and links are not followed.
// The error is [ErrOutside] or fs.ErrInvalid.
func (w *Workspace) Name(path string) (string, error) {
	if len(path) > maxPath || strings.ContainsRune(path, 0) || !utf8.ValidString(path) {
		return "", &Error{path, fs.ErrInvalid}
	}
	name := filepath.Clean(filepath.FromSlash(path))
	if filepath.IsAbs(name) {
		inside := ""
		for _, dir := range w.dirs {
			if rel, err := filepath.Rel(dir, name); err == nil && filepath.IsLocal(rel) {
				inside = rel
				break
			}
		}
		name = inside
	} else if path == "" {
		name = "."
	}
	if !filepath.IsLocal(name) {
		return "", &Error{path, ErrOutside}
	}
	return filepath.ToSlash(name), nil
}

// Names returns the [Workspace.Name] of each path, or the first error.
func (w *Workspace) Names(paths ...string) ([]string, error) {
	names := make([]string, len(paths))
	for i, path := range paths {
		var err error
		if names[i], err = w.Name(path); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// writableName returns the name of a file that may be changed.
func (w *Workspace) writableName(path string) (string, error) {
	name, err := w.Name(path)
	switch {
	case err != nil:
		return "", err
	case name == ".":
		return "", &Error{path, errRoot}
	case w.inProtected(name):
		return "", &Error{path, ErrProtected}
	}
	return name, nil
}

// IsProtected reports whether a path is one of [Options].Protected, or inside of one. A path outside of the workspace is
// not protected. A path that cannot be compared, such as one that is not UTF-8, is.
func (w *Workspace) IsProtected(path string) bool {
	name, err := w.Name(path)
	return errors.Is(err, fs.ErrInvalid) || err == nil && w.inProtected(name)
}

// Resolve returns the absolute path of a directory of the workspace, without symbolic links, for programs that run there.
// A directory that exchanges itself with a link after that is not noticed.
func (w *Workspace) Resolve(dir string) (string, error) {
	name, err := w.Name(dir)
	if err != nil {
		return "", err
	}
	info, err := w.root.Stat(name) // follows links inside of the workspace only
	if err == nil && !info.IsDir() {
		err = errNotDirectory
	}
	if err != nil {
		return "", w.wrap(dir, err)
	}
	real, err := filepath.EvalSymlinks(filepath.Join(w.Dir(), filepath.FromSlash(name)))
	if err != nil {
		return "", w.wrap(dir, err)
	}
	return real, nil
}

// inProtected reports whether any element of a name is protected.
func (w *Workspace) inProtected(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), w.isProtected)
}

func (w *Workspace) isProtected(element string) bool {
	return slices.ContainsFunc(w.protected, func(p string) bool { return strings.EqualFold(p, element) })
}

// Causes of an [Error], in addition to the errors of package io/fs.
var (
	// ErrOutside: the path leads outside of the workspace.
	ErrOutside = errors.New("is outside of the workspace")
	// errNotRegular: the path is a directory, pipe, socket or device.
	errNotRegular = errors.New("is not a regular file")
	// errLink: the path to be changed is a symbolic link, or leads through one.
	errLink = errors.New("is a symbolic link: use the path of its target")
	// ErrProtected: the path is one of [Options].Protected.
	ErrProtected = errors.New("is protected: file tools cannot change it")
	// ErrTooLarge: the file is larger than the limit.
	ErrTooLarge = errors.New("is too large")
	// ErrBinary: the file is not a text.
	ErrBinary = errors.New("is a binary file")
	// errNotDirectory: the path is not a directory.
	errNotDirectory = errors.New("is not a directory")
	// errPattern: doublestar.Match does not accept the pattern, or it has more than four braces.
	errPattern = errors.New("is not a pattern such as *.go, src/**/*.ts or *.{js,ts}")
	// errRoot: the workspace itself cannot be removed or replaced.
	errRoot = errors.New("is the workspace itself")
)

// An Error is a failed operation on a path.
type Error struct {
	// Path is the path that the caller has given.
	Path string
	// Err is the cause: an error of this package, of package io/fs or of the operating system.
	Err error
}

// Error returns the path and the cause.
func (e *Error) Error() string { return fmt.Sprintf("%.256q %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// wrap returns err as an *Error, without the operation and path that package os adds.
func (w *Workspace) wrap(path string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*Error](err); ok {
		return err
	}
	err = cause(err)
	if err == w.escape {
		err = ErrOutside
	}
	return &Error{path, err}
}

// cause removes the operation and path from an error of package os.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
