package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Options configure a [Workspace]. The zero value is good.
type Options struct {
	// Protected are names of files and directories that are not changed, wherever they
	// stand, nor what is in them: ".git", for example, where a text may name a program.
	// They are compared without regard to case.
	Protected []string
}

// A Workspace is a directory with all that is in it. Make one with [Open].
type Workspace struct {
	root      *os.Root
	dirs      []string // the directory, as it was named and without links
	protected []string
	escape    error      // of the root, when a path leads out of it
	writing   sync.Mutex // of who changes files, so that no change is lost
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
	w := &Workspace{root: root, dirs: []string{real, abs}, escape: reason(err)}
	if opts != nil {
		w.protected = slices.Clone(opts.Protected)
	}
	return w, nil
}

// Close closes the directory. What has been opened in it stays open.
func (w *Workspace) Close() error { return w.root.Close() }

// Dir is the directory's absolute path, without symbolic links.
func (w *Workspace) Dir() string { return w.dirs[0] }

// Name is what a path is called here: relative, with slashes, and "." for the workspace
// itself. The error is that of a path that leads out of it by its words, or is no text; whether
// there is such a file, and where links lead, is not looked at.
func (w *Workspace) Name(path string) (string, error) {
	if len(path) > MaxPath || strings.ContainsRune(path, 0) || !utf8.ValidString(path) {
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

// Names are what several paths are called here, as far as all of them are in it.
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

// changeable is the name of what is to be changed.
func (w *Workspace) changeable(path string) (string, error) {
	name, err := w.Name(path)
	if err != nil {
		return "", err
	}
	if name == "." {
		return "", &Error{path, ErrRoot}
	}
	if w.isBelowProtected(name) {
		return "", &Error{path, ErrProtected}
	}
	return name, nil
}

// isBelowProtected says whether a name leads to something protected, or into it.
func (w *Workspace) isBelowProtected(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), w.isProtected)
}

func (w *Workspace) isProtected(element string) bool {
	return slices.ContainsFunc(w.protected, func(p string) bool { return strings.EqualFold(p, element) })
}
