package resources

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
)

// names are the paths of the files that are offered, sorted.
func (d *directory) names(ctx context.Context) ([]string, error) {
	names := []string{}
	err := d.walk(ctx, func(name string, _ fs.DirEntry) { names = append(names, name) })
	slices.Sort(names)
	return names, err
}

// stamps are the stamps of the files that are offered, by their URIs.
func (d *directory) stamps(ctx context.Context) (map[string]stamp, error) {
	stamps := make(map[string]stamp)
	err := d.walk(ctx, func(name string, entry fs.DirEntry) {
		if info, err := entry.Info(); err == nil { // else it has just gone
			stamps[uriOf(d.base, name)] = stampOf(info)
		}
	})
	return stamps, err
}

// walk visits the files that are offered, directory by directory.
func (d *directory) walk(ctx context.Context, visit func(name string, entry fs.DirEntry)) error {
	files, bytes, visited := 0, 0, 0
	for dirs := []string{"."}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		err := d.eachEntry(ctx, dir, func(entry fs.DirEntry) error {
			if visited++; visited > maxVisited {
				return errTooBig
			}
			name := path.Join(dir, entry.Name())
			switch {
			case entry.IsDir():
				if d.descends(name) {
					dirs = append(dirs, name)
				}
			case entry.Type().IsRegular() && d.offers(name):
				if files, bytes = files+1, bytes+len(name); files > d.maxFiles || bytes > maxListed {
					return errTooMany
				}
				visit(name, entry)
			}
			return nil
		})
		if dir != "." && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)) {
			continue // what cannot be opened is not offered
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *directory) descends(dir string) bool {
	return isName(dir) && (d.hidden || !isHidden(dir)) && d.pattern.leadsBelow(dir)
}

// eachEntry reads a directory, a few entries at a time.
func (d *directory) eachEntry(ctx context.Context, dir string, visit func(fs.DirEntry) error) error {
	f, err := d.tree.openDir(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := f.ReadDir(visitedAtOnce)
		for _, entry := range entries {
			if err := visit(entry); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// A listing fails rather than be cut off without a word.
var (
	errTooMany = errors.New("it has too many files; a narrower pattern is needed")
	errTooBig  = errors.New("it is too big to be searched for files")
)
