package resources

import (
	"errors"
	"io/fs"
)

// A tree is where files are read from. Names are those of isName. What stands behind a
// symbolic link is not in the tree: it does not exist.
type tree interface {
	// openFile opens a regular file.
	openFile(name string) (fs.File, error)
	// openDir opens a directory; "." is the tree's own.
	openDir(name string) (fs.ReadDirFile, error)
}

// errUnsteady is for a name that stands for another file each time.
var errUnsteady = errors.New("it is being replaced all the time")

// fsTree is a file system as a tree.
type fsTree struct{ fsys fs.FS }

func (t fsTree) openFile(name string) (fs.File, error) {
	if err := t.check(name, 0); err != nil {
		return nil, err
	}
	f, err := t.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (t fsTree) openDir(name string) (fs.ReadDirFile, error) {
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

// check looks for links on the way: a file system follows them when it opens.
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
