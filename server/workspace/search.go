package workspace

import (
	"bufio"
	"context"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// A File is one that was found.
type File struct {
	Name     string
	Modified time.Time
}

// Find finds the regular files in a directory whose names fit a pattern, those first that
// changed last. * and ? in a pattern stand for what is between slashes, ** for any
// directories; one without a slash is compared with a path's last element, and the empty
// one fits all. What is protected is left out. complete is as of [Workspace.Walk].
func (w *Workspace) Find(ctx context.Context, dir, pattern string) (files []File, complete bool, err error) {
	complete, err = w.search(ctx, dir, pattern, func(name string, entry fs.DirEntry) error {
		if info, err := entry.Info(); err == nil { // it may be gone
			files = append(files, File{name, info.ModTime()})
		}
		return nil
	})
	slices.SortStableFunc(files, func(a, b File) int { return b.Modified.Compare(a.Modified) })
	return files, complete, err
}

// A Match is a line that was found.
type Match struct {
	Name string
	Line
}

// Grep finds the lines that an expression matches, in the files that [Workspace.Find] finds,
// or the one file that dir is. It looks at the text files, and ends at so many matches.
// complete is false when there may be more: also behind the first [DefaultMaxSize] bytes of a
// file, and the first 256 KiB of a line, which are not looked at.
func (w *Workspace) Grep(ctx context.Context, dir, pattern string, expression *regexp.Regexp, most int) (matches []Match, complete bool, err error) {
	cut := false
	complete, err = w.search(ctx, dir, pattern, func(name string, _ fs.DirEntry) error {
		whole, err := w.match(ctx, name, expression, func(line Line) error {
			if len(matches) == most {
				return fs.SkipAll
			}
			matches = append(matches, Match{name, line})
			return nil
		})
		cut = cut || !whole
		return err
	})
	return matches, complete && !cut, err
}

// match visits the lines of a text file that an expression matches, and says whether it has
// looked at all of them. A file that cannot be read has none.
func (w *Workspace) match(ctx context.Context, name string, expression *regexp.Regexp, visit func(Line) error) (whole bool, err error) {
	f, err := w.Open(name)
	if err != nil {
		return true, nil
	}
	defer f.Close()
	reader := bufio.NewReader(io.LimitReader(f, DefaultMaxSize))
	if head, _ := reader.Peek(sniffed); !IsText(head) {
		return true, nil
	}
	whole = true
	for number, read := 1, 0; ctx.Err() == nil; number++ {
		line, size, err := nextLine(reader, maxSearched)
		if size == 0 || err != nil && err != io.EOF {
			return whole && read < DefaultMaxSize, nil
		}
		read += size
		if len(line) > maxSearched {
			line, whole = line[:maxSearched], false
		}
		if expression.MatchString(strings.ToValidUTF8(line, "\uFFFD")) {
			if err := visit(Line{number, shown(line)}); err != nil {
				return false, err
			}
		}
	}
	return false, context.Cause(ctx)
}

// search visits the regular files whose names fit a pattern.
func (w *Workspace) search(ctx context.Context, dir, pattern string, visit func(name string, entry fs.DirEntry) error) (complete bool, err error) {
	base, err := w.Name(dir)
	if err != nil {
		return false, err
	}
	if err := checkPattern(pattern); err != nil {
		return false, err
	}
	if w.isBelowProtected(base) {
		return true, nil
	}
	return w.Walk(ctx, dir, func(name string, entry fs.DirEntry) error {
		if w.isProtected(entry.Name()) {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		relative := name
		if base != "." {
			relative = strings.TrimPrefix(strings.TrimPrefix(name, base), "/")
		}
		if !entry.Type().IsRegular() || relative != "" && !matches(pattern, relative) {
			return nil
		}
		return visit(name, entry)
	})
}

// maxBraces bounds how many braces a pattern has: all combinations of their alternatives are
// tried.
const maxBraces = 4

func checkPattern(pattern string) error {
	if len(pattern) > MaxPath || !utf8.ValidString(pattern) || strings.Count(pattern, "{") > maxBraces || !doublestar.ValidatePattern(pattern) {
		return &Error{pattern, ErrPattern}
	}
	return nil
}

// matches reports whether a pattern matches the path of a file; one without a slash, its
// name.
func matches(pattern, name string) bool {
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	return pattern == "" || doublestar.MatchUnvalidated(strings.TrimPrefix(pattern, "./"), name)
}
