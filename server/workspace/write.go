package workspace

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
)

// WriteFile makes a file of data, in place of what it was, or a new one with the
// directories above it. Whoever reads it sees all of the old or all of the new, after a crash
// too. It has the permissions that it had, or 0644; that it runs as another user or group
// ends with a change, as it does by write(2). A file that nobody may write is left as it is.
func (w *Workspace) WriteFile(path string, data []byte) (created bool, err error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	return w.write(path, data, true)
}

// Edit replaces a file of at most limit bytes, 0 being [DefaultMaxSize], by what change
// makes of it. Edits of one workspace follow one another, so that none is lost. An error of
// change is returned as it is, and nothing is changed.
func (w *Workspace) Edit(path string, limit int64, change func(data []byte) ([]byte, error)) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if _, err := w.changeable(path); err != nil {
		return err
	}
	data, err := w.ReadFile(path, limit)
	if err != nil {
		return err
	}
	if data, err = change(data); err != nil {
		return err
	}
	_, err = w.write(path, data, false)
	return err
}

func (w *Workspace) write(given string, data []byte, mayCreate bool) (created bool, err error) {
	name, err := w.changeable(given)
	if err != nil {
		return false, err
	}
	dir, err := w.enter(given, path.Dir(name), mayCreate)
	if err != nil {
		return false, w.wrap(given, err)
	}
	defer dir.Close()
	base, mode := path.Base(name), fs.FileMode(0o644)
	info, err := dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist) && mayCreate:
		created = true
	case err != nil:
		return false, w.wrap(given, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return false, &Error{given, ErrLink}
	case !info.Mode().IsRegular():
		return false, &Error{given, ErrNotRegular}
	case info.Mode().Perm()&0o222 == 0:
		return false, &Error{given, fs.ErrPermission}
	default:
		mode = info.Mode().Perm()
	}
	return created, w.wrap(given, replace(dir, base, data, mode, created))
}

// replace writes a file beside the one that is to be replaced, and gives it its name.
func replace(dir *os.Root, base string, data []byte, mode fs.FileMode, created bool) (err error) {
	f, name, err := create(dir, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dir.Remove(name))
		}
	}()
	_, err = f.Write(data)
	if err == nil && !created { // a new one is as the user likes new ones
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync() // before it takes the other's place
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return dir.Rename(name, base)
}

// create makes a file with a name that nobody has.
func create(dir *os.Root, mode fs.FileMode) (f *os.File, name string, err error) {
	for range maxTries {
		name = ".new-" + rand.Text()[:8]
		f, err = dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, name, err
}

// enter opens a directory in which something is to be changed, one element after the
// other. It follows no links: what is protected cannot be reached by another name.
func (w *Workspace) enter(given, name string, mayCreate bool) (*os.Root, error) {
	dir, err := w.root.OpenRoot(".")
	if err != nil || name == "." {
		return dir, err
	}
	for element := range strings.SplitSeq(name, "/") {
		next, err := step(dir, given, element, mayCreate)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

func step(dir *os.Root, given, element string, mayCreate bool) (*os.Root, error) {
	there, err := dir.Lstat(element)
	if mayCreate && errors.Is(err, fs.ErrNotExist) {
		if err = dir.Mkdir(element, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
			there, err = dir.Lstat(element)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case there.Mode()&fs.ModeSymlink != 0:
		return nil, &Error{given, ErrLink}
	case !there.IsDir():
		return nil, &Error{given, ErrNotDirectory}
	}
	next, err := dir.OpenRoot(element + "/.") // a pipe would have it wait without the dot
	if err != nil {
		return nil, err
	}
	info, err := next.Stat(".")
	if err == nil && !os.SameFile(info, there) {
		err = &Error{given, ErrLink} // it has been replaced by one
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// Mkdir makes a directory and those above it. One that is there already is fine.
func (w *Workspace) Mkdir(path string) error {
	name, err := w.changeable(path)
	if err != nil {
		return err
	}
	dir, err := w.enter(path, name, true)
	if err != nil {
		return w.wrap(path, err)
	}
	return dir.Close()
}

// Remove removes a file, a link, or an empty directory; with all, a directory and what is
// in it. What has something protected in it stays.
func (w *Workspace) Remove(given string, all bool) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	name, err := w.changeable(given)
	if err != nil {
		return err
	}
	dir, err := w.enter(given, path.Dir(name), false)
	if err != nil {
		return w.wrap(given, err)
	}
	defer dir.Close()
	base := path.Base(name)
	info, err := dir.Lstat(base)
	if err != nil {
		return w.wrap(given, err)
	}
	if !all || !info.IsDir() {
		return w.wrap(given, dir.Remove(base))
	}
	if err := w.holdsProtected(dir, base); err != nil {
		return w.wrap(given, err)
	}
	return w.wrap(given, dir.RemoveAll(base))
}

// holdsProtected looks for something protected below a name.
func (w *Workspace) holdsProtected(dir *os.Root, base string) error {
	if len(w.protected) == 0 {
		return nil
	}
	return fs.WalkDir(newTree(dir), base, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if w.isProtected(entry.Name()) {
			return &Error{name, ErrProtected}
		}
		return nil
	})
}
