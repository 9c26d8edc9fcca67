package pin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

// ErrFileChanged is the error of saving a lock whose file has changed since it was last read or
// written. The file is not overwritten.
var ErrFileChanged = errors.New("the lock file has been changed by another program")

// Load reads a lock file of at most 64 MiB. The error is the error of reading the file, such as fs.ErrNotExist, or a
// *[FileError] if the content is not valid.
func Load(path string) (*Lock, error) {
	l := &Lock{path: path}
	if path == "" {
		return nil, errors.New("loading a lock: expected a path")
	}
	if err := l.Reload(); err != nil {
		return nil, err
	}
	return l, nil
}

// Reload replaces the pins by those in the file, which another process may have changed. Unsaved pins are lost. The
// errors are the same as for [Load]; after an error nothing has changed.
func (l *Lock) Reload() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	if l.path == "" {
		return nil
	}
	text, err := sharedfile.Read(l.path, maxFile)
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

// Save writes the lock to its file if it has unsaved pins. It replaces the file atomically and
// syncs it to disk: readers, and programs after a crash, find the old or the new content. A
// running [Provider] saves changes by itself; call Save to wait for that and see errors. Without
// a file Save does nothing.
//
// If another program has changed the file, the error is [ErrFileChanged]: call [Lock.Reload] and
// accept again. Two processes that save at the same moment may not detect it.
//
// Save also writes the accepted definitions, one file each, into a folder with the name of the lock file and ".d", and
// removes those that are pinned no more. They are for [Pending].Before only. Definitions beyond 64 MiB in all are not kept.
func (l *Lock) Save() error {
	l.saving.Lock()
	defer l.saving.Unlock()
	l.mu.Lock()
	edits, isSaved, all, unwritten := l.edits, l.edits == l.saved, l.contents(), len(l.unwritten)
	l.mu.Unlock()
	switch {
	case l.path == "" || isSaved && unwritten == 0:
		return nil
	case isSaved: // the file may have pins of another process by now, and the folder may be read-only
		_ = l.saveDefinitions(false)
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
	return l.saveDefinitions(true)
}

// checkFile returns ErrFileChanged if the file has changed since it was last read or written.
func (l *Lock) checkFile() error {
	text, err := sharedfile.Read(l.path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		if l.onDisk == nil {
			return nil
		}
		return fmt.Errorf("%w: it was deleted", ErrFileChanged)
	}
	if err != nil {
		return err
	}
	if l.onDisk == nil || !bytes.Equal(text, l.onDisk) {
		return ErrFileChanged
	}
	return nil
}

// replaceFile replaces a file atomically. It replaces the target of a symbolic link, not the
// link.
func replaceFile(path string, text []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return sharedfile.Write(path, text, 0)
}

// fileVersion is the version of the file format.
const fileVersion = 2

// A FileError describes an error in a lock file, with its position.
type FileError struct {
	// Path is the path of the file.
	Path string
	// Line is the line of the mistake, counted from 1.
	Line int
	// Err describes the error, such as the expected token.
	Err error
}

// Error returns path, line and Err.
func (e *FileError) Error() string { return fmt.Sprintf("%s:%d: %v", e.Path, e.Line, e.Err) }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }

// append appends the content of the file. The same pins give the same bytes, one line a pin. A server has only the sections
// of kinds with pins.
func (c contents) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, "{\n  \"version\": %d,\n  \"servers\": {", fileVersion)
	for i, alias := range slices.Sorted(maps.Keys(c)) {
		dst = appendKey(dst, i, "\n    ", alias)
		dst = append(dst, '{')
		sections := make(map[Kind][]Entry)
		for _, e := range slices.SortedFunc(maps.Keys(c[alias]), compareEntries) {
			sections[e.Kind] = append(sections[e.Kind], e)
		}
		written := 0
		for _, kind := range kinds() {
			if len(sections[kind]) == 0 {
				continue
			}
			dst = append(appendKey(dst, written, "\n      ", kind.section()), '{')
			for i, e := range sections[kind] {
				dst = appendKey(dst, i, "\n        ", e.Name)
				dst = jsonscan.AppendString(dst, c[alias][e])
			}
			dst = append(dst, "\n      }"...)
			written++
		}
		dst = append(dst, "\n    }"...)
	}
	if len(c) > 0 {
		dst = append(dst, "\n  "...)
	}
	return append(dst, "}\n}\n"...)
}

func appendKey(dst []byte, i int, indent, name string) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst = append(dst, indent...)
	return append(jsonscan.AppendString(dst, name), ": "...)
}

// parse reads the content of a file. Unknown members are errors, since they could be misspelled
// pins.
func parse(path string, text []byte) (contents, error) {
	r := reader{scan: jsonscan.New(text), found: make(contents)}
	err := r.file()
	if err == nil {
		err = r.scan.End()
	}
	if err == nil {
		return r.found, nil
	}
	offset := r.at
	if e, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		offset, err = e.Offset, errors.New(e.Message)
	}
	offset = min(offset, len(text))
	return nil, &FileError{Path: path, Line: 1 + bytes.Count(text[:offset], []byte{'\n'}), Err: err}
}

// A reader reads a lock file.
type reader struct {
	scan  jsonscan.Scanner
	at    int // offset of the current token
	found contents
	count int
}

func (r *reader) file() error {
	return r.object("the lock", []string{"version", "servers"}, func(name string) error {
		if name == "version" {
			return r.version()
		}
		return r.object("servers", nil, r.server)
	})
}

func (r *reader) version() error {
	number, err := r.scan.Number()
	if err == nil && string(number) != strconv.Itoa(fileVersion) {
		err = fmt.Errorf("expected version %d, found %.20s", fileVersion, number)
	}
	return err
}

func (r *reader) server(alias string) error {
	if err := checkName("server", alias); err != nil {
		return err
	}
	r.found[alias] = make(digests)
	return r.object("a server", nil, func(section string) error {
		i := slices.IndexFunc(kinds(), func(k Kind) bool { return k.section() == section })
		if i < 0 {
			return fmt.Errorf("expected a section of pins, such as tools, found %.100q", section)
		}
		kind := kinds()[i]
		return r.object(section, nil, func(name string) error { return r.pin(alias, Entry{kind, name}) })
	})
}

func (r *reader) pin(alias string, e Entry) error {
	if err := checkName(e.Kind.what(), e.Name); err != nil {
		return err
	}
	if r.count++; r.count > maxPins {
		return ErrFull
	}
	raw, err := r.scan.String()
	if err != nil {
		return err
	}
	digest := jsonscan.Unquote(raw)
	r.found[alias][e] = digest
	return checkDigest(digest)
}

// object reads an object with exactly the named members, or any members if names is nil.
func (r *reader) object(what string, names []string, value func(name string) error) error {
	if err := r.scan.EnterObject(); err != nil {
		return err
	}
	begin := r.scan.Offset() - 1
	var keys jsonscan.Keys
	seen := 0
	for first := true; ; first = false {
		key, ok, err := r.scan.Member(first)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		r.at = r.scan.KeyOffset()
		if err := keys.Add(key, r.at); err != nil {
			return err
		}
		name := jsonscan.Unquote(key)
		if names != nil && !slices.Contains(names, name) {
			return fmt.Errorf("expected one of the members %q of %s, found %.100q", names, what, name)
		}
		seen++
		if err := value(name); err != nil {
			return err
		}
	}
	if seen < len(names) {
		r.at = begin
		return fmt.Errorf("expected the members %q of %s, found %d of them", names, what, seen)
	}
	return nil
}
