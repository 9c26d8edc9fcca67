package resources

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/dovetail-go/dovetail/server"
)

// FileAt is [File] for a file by its path. It opens the directory of the file, which must exist and stays open as long as
// the entry is in use.
func FileAt(path string, opts *FileOptions) (*server.Entry, error) {
	root, err := openRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	return File(root, filepath.Base(path), opts)
}

// DirectoryAt is [Directory] for a directory by its path. The directory stays open as long as the entries are in use.
func DirectoryAt(path string, opts *DirectoryOptions) ([]*server.Entry, error) {
	root, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	return Directory(root, opts)
}

// openRoot opens a directory, which is closed when nothing refers to it any more; see [os.Root].
func openRoot(path string) (*os.Root, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("resources: %w", err)
	}
	return root, nil
}
