package pin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// ErrFileChanged is the error of saving a lock whose file is not what was read or written
// last. The file is left as it is.
var ErrFileChanged = errors.New("the file of the lock has been changed by somebody else")

// Load reads the lock in a file. The error is that of reading the file, fs.ErrNotExist
// among them; a *[FileError] says what is wrong in the file, and where. A file longer than
// [MaxFile] is an error as well.
func Load(path string) (*Lock, error) {
	l := &Lock{path: path}
	if path == "" {
		return nil, errors.New("loading a lock: no path is given")
	}
	if err := l.Reload(); err != nil {
		return nil, err
	}
	return l, nil
}

// Reload reads the file again, for what others have written there: tools that they have
// accepted appear, and those whose pins they have removed are new. Pins that have not been
// saved are lost. After an error, which is as that of [Load], all is as before.
func (l *Lock) Reload() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	if l.path == "" {
		return nil
	}
	text, err := readFile(l.path)
	if err != nil {
		return err
	}
	found, err := parse(l.path, text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replace(found)
	l.onDisk, l.saved = text, l.edits
	return nil
}

// Save writes the lock to its file, unless all of it is there or it lives in memory only.
// The file is replaced as a whole and on the disk when Save returns; who reads it, or comes
// back after a crash, finds the old one or the new one. A [Provider] that runs saves what
// it trusts and what is accepted of it by itself; call Save to know that it is done.
//
// The error is [ErrFileChanged] if the file is not the one that the lock was read from or
// saved to: [Lock.Reload] then, and accept again. Two processes that save in the same
// moment can still escape that.
func (l *Lock) Save() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	edits, isSaved, all := l.edits, l.edits == l.saved, l.contents()
	l.mu.Unlock()
	if l.path == "" || isSaved {
		return nil
	}
	if err := l.checkFile(); err != nil {
		return fmt.Errorf("saving %s: %w", l.path, err)
	}
	text := all.append(nil)
	if err := replaceFile(l.path, text); err != nil {
		return fmt.Errorf("saving %s: %w", l.path, err)
	}
	l.onDisk, l.saved = text, edits
	return nil
}

// checkFile says whether the file is as this lock knows it.
func (l *Lock) checkFile() error {
	text, err := readFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		if l.onDisk == nil {
			return nil
		}
		return fmt.Errorf("%w: it is gone", ErrFileChanged)
	}
	if err != nil {
		return err
	}
	if l.onDisk == nil || !bytes.Equal(text, l.onDisk) {
		return ErrFileChanged
	}
	return nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxFile {
		return nil, fmt.Errorf("%s has more than the %d bytes that the file of a lock may have", path, MaxFile)
	}
	return text, nil
}

// replaceFile puts a new file in the place of the old one, which stays whole until then.
// What a symbolic link leads to is replaced, not the link.
func replaceFile(path string, text []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a new name last.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // which cannot open a folder to do so
	}
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
