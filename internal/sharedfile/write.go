package sharedfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// defaultPerm is the mode of a new file for perm 0, before the umask.
const defaultPerm fs.FileMode = 0o644

// Read returns the content of the file at path. The error says so if the file is longer than limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	tooLong := fmt.Errorf("%s: expected at most %d bytes", path, limit)
	if info.Size() > limit {
		return nil, tooLong
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1)) // the size may change, and is 0 for a pipe
	if err == nil && int64(len(data)) > limit {
		err = tooLong
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Write replaces the file at path, or creates it. Its directory must exist. A symbolic link
// at path is replaced, not followed.
//
// The file gets the permissions perm. If perm is 0, it keeps the permissions of the file it
// replaces, and a new file gets 0644 less the umask.
//
// After an error the old file is unchanged, unless only syncing the directory has failed.
func Write(path string, data []byte, perm fs.FileMode) error {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(WriteIn(dir, filepath.Base(path), data, perm), dir.Close())
}

// WriteIn is [Write] for the file with the given name directly in dir.
func WriteIn(dir *os.Root, name string, data []byte, perm fs.FileMode) error {
	if old, err := dir.Lstat(name); err == nil && perm == 0 && old.Mode().IsRegular() {
		perm = old.Mode().Perm()
	}
	temporary := ".new-" + rand.Text()
	if err := writeTemporary(dir, temporary, data, perm); err != nil {
		return err
	}
	if err := dir.Rename(temporary, name); err != nil {
		return errors.Join(err, dir.Remove(temporary))
	}
	folder, err := dir.Open(".")
	if err != nil {
		return err
	}
	return syncDir(folder)
}

// Recreate removes the file at path, if there is one, and creates it for writing with the mode 0600. Programs that
// have the old file open do not see the new content, and a symbolic link at path is removed, not followed. It is for
// secrets that are written over time; use [Write] for content that is complete.
func Recreate(path string) (*os.File, error) {
	if old, err := os.Lstat(path); err == nil && old.IsDir() {
		return nil, &os.PathError{Op: "create", Path: path, Err: syscall.EISDIR}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func writeTemporary(dir *os.Root, name string, data []byte, perm fs.FileMode) error {
	initial := perm
	if perm == 0 {
		initial = defaultPerm
	}
	// The owner must be able to write until the final permissions are set.
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, initial|0o200)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil && perm != 0 {
		err = file.Chmod(perm)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, dir.Remove(name))
	}
	return nil
}

// SyncDir makes the directory entries in the directory at path durable. It does nothing
// where the operating system or the file system cannot sync directories.
func SyncDir(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return syncDir(folder)
}

// syncDir syncs and closes a directory.
func syncDir(folder *os.File) error {
	if runtime.GOOS == "windows" {
		return folder.Close()
	}
	err := folder.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, folder.Close())
}
