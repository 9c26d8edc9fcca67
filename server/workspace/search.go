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

const (
	// maxSearched is how much of one line is searched, in bytes.
	maxSearched = 256 << 10
	// maxBraces bounds the braces of a pattern, because all combinations of their
	// alternatives are tried.
	maxBraces = 4
)

// A File is a result of [Workspace.Find].
type File struct {
	Name     string // as of [Workspace.Name]
	Modified time.Time
}

// Find returns the regular files below a directory that match a pattern, the most recently
// modified first. The pattern is one of doublestar.Match: * and ? match within a path element,
// ** matches any directories. A pattern without a slash is compared with the last element of
// the path; an empty pattern matches all files. Protected files are left out. complete is as
// of [Workspace.Walk].
func (w *Workspace) Find(ctx context.Context, dir, pattern string) (files []File, complete bool, err error) {
	complete, err = w.search(ctx, dir, pattern, func(name string, entry fs.DirEntry) error {
		if info, err := entry.Info(); err == nil { // fails if the file was removed
			files = append(files, File{name, info.ModTime()})
		}
		return nil
	})
	slices.SortStableFunc(files, func(a, b File) int { return b.Modified.Compare(a.Modified) })
	return files, complete, err
}

// A Match is a result of [Workspace.Grep].
type Match struct {
	Name string
	Line
}

// Grep returns at most limit lines that match an expression, in the text files that
// [Workspace.Find] returns, or in dir itself if dir is a file. complete is false if there may
// be more matches: after limit, after the first 10 MiB of a file, or after the
// first 256 KiB of a line.
func (w *Workspace) Grep(ctx context.Context, dir, pattern string, expression *regexp.Regexp, limit int) (matches []Match, complete bool, err error) {
	skipped := false
	complete, err = w.search(ctx, dir, pattern, func(name string, _ fs.DirEntry) error {
		whole, err := w.grepFile(ctx, name, expression, func(line Line) error {
			if len(matches) == limit {
				return fs.SkipAll
			}
			matches = append(matches, Match{name, line})
			return nil
		})
		skipped = skipped || !whole
		return err
	})
	return matches, complete && !skipped, err
}

// grepFile visits the matching lines of a text file. whole reports that it has searched the
// complete file. A file that cannot be read is skipped.
func (w *Workspace) grepFile(ctx context.Context, name string, expression *regexp.Regexp, visit func(Line) error) (whole bool, err error) {
	f, err := w.Open(name)
	if err != nil {
		return true, nil
	}
	defer f.Close()
	reader := bufio.NewReader(io.LimitReader(f, defaultMaxSize))
	if head, _ := reader.Peek(sniffLen); !isText(head) {
		return true, nil
	}
	whole = true
	for number, read := 1, 0; ctx.Err() == nil; number++ {
		line, size, err := readLine(reader, maxSearched)
		if size == 0 || err != nil && err != io.EOF {
			return whole && read < defaultMaxSize, nil
		}
		read += size
		if len(line) > maxSearched {
			line, whole = line[:maxSearched], false
		}
		if expression.MatchString(strings.ToValidUTF8(line, "\uFFFD")) {
			if err := visit(Line{number, displayText(line)}); err != nil {
				return false, err
			}
		}
	}
	return false, context.Cause(ctx)
}

// search visits the regular files that match a pattern.
func (w *Workspace) search(ctx context.Context, dir, pattern string, visit func(name string, entry fs.DirEntry) error) (complete bool, err error) {
	base, err := w.Name(dir)
	if err != nil {
		return false, err
	}
	if err := checkPattern(pattern); err != nil {
		return false, err
	}
	if w.inProtected(base) {
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

func checkPattern(pattern string) error {
	if len(pattern) > maxPath || !utf8.ValidString(pattern) || strings.Count(pattern, "{") > maxBraces || !doublestar.ValidatePattern(pattern) {
		return &Error{pattern, errPattern}
	}
	return nil
}

// matches reports whether a pattern matches a path, or its last element if the pattern has no
// slash.
func matches(pattern, name string) bool {
	if !strings.Contains(pattern, "/") {
		name = path.Base(name)
	}
	return pattern == "" || doublestar.MatchUnvalidated(strings.TrimPrefix(pattern, "./"), name)
}
