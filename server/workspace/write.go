package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

// WriteFile replaces a file, or creates it and the directories above it. created reports
// which. A replaced file keeps its permissions, but not a set-user-ID or set-group-ID bit; a
// new file gets 0644 less the umask. A file without any write permission is not replaced.
func (w *Workspace) WriteFile(path string, data []byte) (created bool, err error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	return w.write(path, data, true)
}

// Edit replaces the content of a file of at most limit bytes, 0 meaning 10 MiB, with
// the result of change. If change fails, Edit returns its error unchanged and leaves the file
// as it is. change must not modify the workspace.
func (w *Workspace) Edit(path string, limit int64, change func(data []byte) ([]byte, error)) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	if _, err := w.writableName(path); err != nil {
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

// write replaces or, if mayCreate, creates a file. given is the caller's path.
func (w *Workspace) write(given string, data []byte, mayCreate bool) (created bool, err error) {
	name, err := w.writableName(given)
	if err != nil {
		return false, err
	}
	dir, err := w.openDir(given, path.Dir(name), mayCreate)
	if err != nil {
		return false, w.wrap(given, err)
	}
	defer dir.Close()
	base := path.Base(name)
	info, err := dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist) && mayCreate:
		created = true
	case err != nil:
		return false, w.wrap(given, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return false, &Error{given, errLink}
	case !info.Mode().IsRegular():
		return false, &Error{given, errNotRegular}
	case info.Mode().Perm()&0o222 == 0:
		return false, &Error{given, fs.ErrPermission}
	}
	return created, w.wrap(given, sharedfile.WriteIn(dir, base, data, 0))
}

// openDir opens a directory to change something in it, and creates it if mayCreate. It opens
// one path element after the other and follows no links, because a link could give a protected
// file another name.
func (w *Workspace) openDir(given, name string, mayCreate bool) (*os.Root, error) {
	dir, err := w.root.OpenRoot(".")
	if err != nil || name == "." {
		return dir, err
	}
	for element := range strings.SplitSeq(name, "/") {
		next, err := openElement(dir, given, element, mayCreate)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

func openElement(dir *os.Root, given, element string, mayCreate bool) (*os.Root, error) {
	before, err := dir.Lstat(element)
	if mayCreate && errors.Is(err, fs.ErrNotExist) {
		if err = dir.Mkdir(element, 0o755); err == nil || errors.Is(err, fs.ErrExist) {
			before, err = dir.Lstat(element)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case before.Mode()&fs.ModeSymlink != 0:
		return nil, &Error{given, errLink}
	case !before.IsDir():
		return nil, &Error{given, errNotDirectory}
	}
	next, err := dir.OpenRoot(element + "/.") // the dot makes opening a pipe fail instead of block
	if err != nil {
		return nil, err
	}
	info, err := next.Stat(".")
	if err == nil && !os.SameFile(info, before) {
		err = &Error{given, errLink} // a link has replaced the directory
	}
	if err != nil {
		next.Close()
		return nil, err
	}
	return next, nil
}

// Mkdir creates a directory and those above it. A directory that exists is not an error.
func (w *Workspace) Mkdir(path string) error {
	name, err := w.writableName(path)
	if err != nil {
		return err
	}
	dir, err := w.openDir(path, name, true)
	if err != nil {
		return w.wrap(path, err)
	}
	return dir.Close()
}

// Remove removes a file, a link itself, or an empty directory; with all, a directory and its
// contents. A directory that contains a protected file is [ErrProtected].
func (w *Workspace) Remove(given string, all bool) error {
	w.writing.Lock()
	defer w.writing.Unlock()
	name, err := w.writableName(given)
	if err != nil {
		return err
	}
	dir, err := w.openDir(given, path.Dir(name), false)
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
	if err := w.checkNoneProtected(dir, base); err != nil {
		return w.wrap(given, err)
	}
	return w.wrap(given, dir.RemoveAll(base))
}

// checkNoneProtected fails if the directory base contains a protected file.
func (w *Workspace) checkNoneProtected(dir *os.Root, base string) error {
	if len(w.protected) == 0 {
		return nil
	}
	return fs.WalkDir(newTree(dir), base, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && w.isProtected(entry.Name()) {
			err = &Error{name, ErrProtected}
		}
		return err
	})
}

// A Replacement replaces a text in a file.
type Replacement struct {
	// Old is the text to replace. It must not be empty.
	Old string `json:"old_string" jsonschema:"minLength=1" jsonschema_description:"the text to replace, exactly as in the file"`
	// New is the text that replaces Old. It must differ from Old.
	New string `json:"new_string" jsonschema_description:"the text that replaces it"`
	// All replaces every occurrence. Otherwise the text must occur exactly once.
	All bool `json:"replace_all,omitempty" jsonschema_description:"replace every occurrence; otherwise the text must occur exactly once"`
}

// Replace applies replacements to a file, one after the other. It applies all of them, or none
// and returns an error. replaced is the number of occurrences replaced.
func (w *Workspace) Replace(path string, replacements ...Replacement) (replaced int, err error) {
	return w.replace(path, nil, replacements)
}

// replace is Replace for a file in an encoding.
func (w *Workspace) replace(path string, encoding *codec, replacements []Replacement) (replaced int, err error) {
	err = w.Edit(path, 0, func(old []byte) ([]byte, error) {
		data := old
		if encoding != nil {
			text, err := encoding.decode(path, old, true)
			if err != nil {
				return nil, err
			}
			data = []byte(text)
		}
		for i, r := range replacements {
			n := bytes.Count(data, []byte(r.Old))
			switch {
			case r.Old == "" || r.Old == r.New:
				return nil, fmt.Errorf("replacement %d: the old text must not be empty and must differ from the new text", i+1)
			case n == 0:
				return nil, fmt.Errorf("replacement %d: the old text is not in %q: read the file again", i+1, path)
			case n > 1 && !r.All:
				return nil, fmt.Errorf("replacement %d: the old text occurs %d times in %q: include more of the surrounding text, or replace all", i+1, n, path)
			case len(data)+n*(len(r.New)-len(r.Old)) > defaultMaxSize:
				return nil, fmt.Errorf("replacement %d: %q would become too large", i+1, path)
			}
			data = bytes.ReplaceAll(data, []byte(r.Old), []byte(r.New))
			replaced += n
		}
		return encoding.encode(path, string(data), old)
	})
	return replaced, err
}

// writeText replaces a file, or creates it, with a text in an encoding. It returns the number of bytes. A replaced file
// keeps its byte order mark.
func (w *Workspace) writeText(path, text string, encoding *codec) (written int, err error) {
	w.writing.Lock()
	defer w.writing.Unlock()
	var old []byte
	if encoding != nil {
		if old, err = w.head(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	data, err := encoding.encode(path, text, old)
	if err != nil {
		return 0, err
	}
	_, err = w.write(path, data, true)
	return len(data), err
}
