package resources

import (
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// rootTree is a directory as a tree.
type rootTree struct{ root *os.Root }

func (t rootTree) openFile(name string) (fs.File, error) {
	dir, err := t.enter(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	open := func(name string) (*os.File, error) { return openNow(dir, name) }
	return openSame(dir, path.Base(name), 0, open, (*os.File).Stat)
}

func (t rootTree) openDir(name string) (fs.ReadDirFile, error) {
	dir, err := t.enter(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Open(".")
}

// enter opens a directory, one element after the other.
func (t rootTree) enter(name string) (*os.Root, error) {
	dir, err := t.root.OpenRoot(".")
	if err != nil || name == "." {
		return dir, err
	}
	// With the dot it opens nothing but a directory: a pipe would have it wait.
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

// openSame opens what stands under a name, if it is of that kind. A root follows links,
// though not out of it, and what stands there may be replaced between two looks: so
// what was opened must be the very file that stood there and was no link.
func openSame[T io.Closer](dir *os.Root, name string, kind fs.FileMode, open func(string) (T, error), stat func(T) (fs.FileInfo, error)) (T, error) {
	var none T
	for range maxSwaps {
		there, err := dir.Lstat(name)
		if err != nil {
			return none, err
		}
		if there.Mode().Type() != kind {
			return none, fs.ErrNotExist
		}
		opened, err := open(name)
		if err != nil {
			return none, err
		}
		info, err := stat(opened)
		if err == nil && os.SameFile(there, info) {
			return opened, nil
		}
		opened.Close()
		if err != nil {
			return none, err
		}
	}
	return none, errUnsteady
}

// openNow opens a file for reading and does not wait for the other end of a pipe.
func openNow(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
}
