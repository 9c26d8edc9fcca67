package workspace

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
)

// A tree is what is in a directory, for fs.WalkDir. It is listed without waiting: a pipe that
// has taken the place of a directory is none.
type tree struct {
	fs.StatFS
	root *os.Root
}

func newTree(root *os.Root) tree { return tree{root.FS().(fs.StatFS), root} }

// ReadDir lists a directory, sorted by name.
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	dir, err := t.root.Open(name + "/.") // without the dot, who opens a pipe waits for its other end
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}
