package workspace

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Stat describes a file or directory. Links are followed within the workspace.
func (w *Workspace) Stat(path string) (fs.FileInfo, error) {
	name, err := w.Name(path)
	if err != nil {
		return nil, err
	}
	info, err := w.root.Stat(name)
	return info, w.wrap(path, err)
}

// Open opens a regular file for reading. Links are followed within the workspace. It does not
// block.
func (w *Workspace) Open(path string) (*os.File, error) {
	name, err := w.Name(path)
	if err != nil {
		return nil, err
	}
	info, err := w.root.Stat(name) // because opening a device may have an effect
	if err != nil {
		return nil, w.wrap(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, &Error{path, errNotRegular}
	}
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, w.wrap(path, err)
	}
	info, err = f.Stat() // because the file may have been replaced
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, w.wrap(path, err)
	}
	return f, nil
}

// ReadFile reads a file of at most limit bytes, 0 meaning 10 MiB. A larger file is
// [ErrTooLarge].
func (w *Workspace) ReadFile(path string, limit int64) ([]byte, error) {
	f, err := w.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	limit = cmp.Or(limit, defaultMaxSize)
	info, err := f.Stat()
	if err != nil {
		return nil, w.wrap(path, err)
	}
	if size := info.Size(); size > limit {
		return nil, &Error{path, fmt.Errorf("%w: it has %d bytes, more than %d", ErrTooLarge, size, limit)}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1)) // because the file may have grown
	if err == nil && int64(len(data)) > limit {
		err = ErrTooLarge
	}
	return data, w.wrap(path, err)
}

// head returns the first 512 bytes of a file, for http.DetectContentType.
func (w *Workspace) head(path string) ([]byte, error) {
	f, err := w.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 512))
	return head, w.wrap(path, err)
}

// ReadDir lists a directory, sorted by name.
func (w *Workspace) ReadDir(path string) ([]fs.DirEntry, error) {
	name, err := w.Name(path)
	if err != nil {
		return nil, err
	}
	info, err := w.root.Stat(name)
	if err == nil && !info.IsDir() {
		err = errNotDirectory
	}
	if err != nil {
		return nil, w.wrap(path, err)
	}
	entries, err := newTree(w.root).ReadDir(name)
	return entries, w.wrap(path, err)
}

// Walk visits a file, or a directory and everything below it, in the order of names. It does
// not follow links and skips what cannot be read. visit may return fs.SkipDir and fs.SkipAll.
// complete is false if the walk has reached 200,000 entries or 64 levels.
func (w *Workspace) Walk(ctx context.Context, path string, visit func(name string, entry fs.DirEntry) error) (complete bool, err error) {
	name, err := w.Name(path)
	if err != nil {
		return false, err
	}
	if _, err := w.root.Stat(name); err != nil {
		return false, w.wrap(path, err)
	}
	visited, complete := 0, true
	err = fs.WalkDir(newTree(w.root), name, func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if visited++; visited > maxVisited {
			complete = false
			return fs.SkipAll
		}
		if entry == nil || err != nil && !entry.IsDir() {
			return nil
		}
		if err != nil {
			return fs.SkipDir
		}
		if entry.IsDir() && strings.Count(name, "/") >= maxDepth {
			complete = false
			return fs.SkipDir
		}
		return visit(name, entry)
	})
	return complete, err
}

// A tree is the file system of a root, for fs.WalkDir. Its ReadDir does not block on a pipe
// that has replaced a directory.
type tree struct {
	fs.StatFS
	root *os.Root
}

func newTree(root *os.Root) tree { return tree{root.FS().(fs.StatFS), root} }

// ReadDir lists a directory, sorted by name.
func (t tree) ReadDir(name string) ([]fs.DirEntry, error) {
	dir, err := t.root.Open(name + "/.") // the dot makes opening a pipe fail instead of block
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, err
}

// A Line is one line of a text.
type Line struct {
	// Number counts from 1.
	Number int
	// Text is the line without its line break. A line longer than 2000 bytes is cut and ends
	// with an ellipsis.
	Text string
}

// sniffLen is how many bytes decide whether a file is a text.
const sniffLen = 4096

// isText reports whether a file that begins with head is a text: UTF-8 without NUL and with
// few control characters. The last character of head may be incomplete.
func isText(head []byte) bool {
	control := 0
	for _, c := range head {
		switch {
		case c == 0:
			return false
		case c < ' ' && !strings.ContainsRune("\t\n\r\f\b\x1b", rune(c)), c == 0x7F:
			control++
		}
	}
	for i := 1; i < utf8.UTFMax && len(head) > 0 && !utf8.Valid(head); i++ {
		head = head[:len(head)-1]
	}
	return control*10 <= len(head)*3 && utf8.Valid(head)
}

// Lines reads at most limit lines and about 256 KiB of a text file, starting at the
// line with the number first. more reports that further lines follow. Only the first
// 64 MiB of the file are searched; lines beyond them are [ErrTooLarge].
func (w *Workspace) Lines(ctx context.Context, path string, first, limit int) (lines []Line, more bool, err error) {
	return w.lines(ctx, path, nil, first, limit)
}

// lines is Lines for a file in an encoding. A file that is not UTF-8 is read completely, of at most 10 MiB.
func (w *Workspace) lines(ctx context.Context, path string, encoding *codec, first, limit int) (lines []Line, more bool, err error) {
	if encoding != nil {
		data, err := w.ReadFile(path, 0)
		if err != nil {
			return nil, false, err
		}
		text, err := encoding.decode(path, data, false)
		if err != nil {
			return nil, false, err
		}
		return w.linesOf(ctx, path, strings.NewReader(text), first, limit)
	}
	f, err := w.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	return w.linesOf(ctx, path, f, first, limit)
}

func (w *Workspace) linesOf(ctx context.Context, path string, text io.Reader, first, limit int) (lines []Line, more bool, err error) {
	reader := bufio.NewReader(text)
	if head, _ := reader.Peek(sniffLen); !isText(head) {
		return nil, false, &Error{path, ErrBinary}
	}
	scanned, read := 0, 0
	for number := 1; ; number++ {
		line, size, err := readLine(reader, maxLine)
		scanned += size
		switch {
		case size == 0 && err == io.EOF && (number > first || number == 1):
			return lines, false, nil
		case size == 0 && err == io.EOF:
			return nil, false, &Error{path, fmt.Errorf("has %d lines, no line %d", number-1, first)}
		case err != nil && err != io.EOF:
			return nil, false, w.wrap(path, err)
		case ctx.Err() != nil:
			return nil, false, context.Cause(ctx)
		case scanned > maxScanned:
			return nil, false, &Error{path, fmt.Errorf("%w: lines after the first %d bytes cannot be read", ErrTooLarge, maxScanned)}
		case len(lines) == limit, read > maxText:
			return lines, true, nil
		}
		if number >= first {
			lines = append(lines, Line{number, displayText(line)})
			read += len(line)
		}
	}
}

// readLine reads one line of any length. It returns the number of bytes read and the beginning
// of the line: at most limit bytes of it, or a few more if the line is longer.
func readLine(r *bufio.Reader, limit int) (line string, size int, err error) {
	var kept []byte
	for {
		piece, err := r.ReadSlice('\n')
		size += len(piece)
		kept = append(kept, piece[:min(len(piece), max(0, limit+len("\r\n")-len(kept)))]...)
		if err == bufio.ErrBufferFull && size <= maxScanned {
			continue
		}
		if err == bufio.ErrBufferFull {
			err = nil
		}
		return strings.TrimRight(string(kept), "\r\n"), size, err
	}
}

// displayText returns a line as valid UTF-8, cut at 2000 bytes.
func displayText(line string) string {
	if len(line) > maxLine {
		line = line[:maxLine] + "…"
	}
	return strings.ToValidUTF8(line, "\uFFFD")
}
