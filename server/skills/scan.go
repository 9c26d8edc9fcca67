package skills

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/frontmatter"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/internal/filetree"
)

const (
	maxVisited     = 100_000 // directory entries visited in a scan
	maxDescription = 1024    // characters of a description: Agent Skills, description field
)

// A file is a file of a skill, as of a scan.
type file struct {
	modified int64
	size     int64
	digest   string
	front    json.RawMessage // of a SKILL.md
}

// A scan is one reading of a folder.
type scan struct {
	folder *Folder
	known  map[string]*file // of the last scan; not read again if they look the same
	found  map[string]fs.FileInfo
	files  map[string]*file    // of skills
	skills map[string][]string // names of the files of each skill, by its directory
}

// run reads the folder.
func (s *scan) run(ctx context.Context) error {
	if err := s.walk(ctx); err != nil {
		return err
	}
	s.files, s.skills = make(map[string]*file), make(map[string][]string)
	for name := range s.found {
		if path.Base(name) == mcp.SkillFile {
			s.skills[path.Dir(name)] = nil
		}
	}
	if len(s.skills) > s.folder.opts.MaxSkills {
		return fmt.Errorf("skills: the folder has %d skills, and at most %d are allowed", len(s.skills), s.folder.opts.MaxSkills)
	}
	if err := s.assign(); err != nil {
		return err
	}
	for _, names := range s.skills {
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.read(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// walk finds the regular files of the folder.
func (s *scan) walk(ctx context.Context) error {
	s.found = make(map[string]fs.FileInfo)
	visited := 0
	for dirs := []string{"."}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		err := filetree.EachEntry(ctx, s.folder.tree, dir, func(entry fs.DirEntry) error {
			if visited++; visited > maxVisited {
				return fmt.Errorf("skills: the folder has more than %d files and folders", maxVisited)
			}
			name := path.Join(dir, entry.Name())
			switch {
			case !filetree.IsName(name) || filetree.IsHidden(name):
			case entry.IsDir():
				dirs = append(dirs, name)
			case entry.Type().IsRegular():
				info, err := entry.Info()
				if err == nil {
					s.found[name] = info
				} else if !errors.Is(err, fs.ErrNotExist) { // the file has been removed
					return err
				}
			}
			return nil
		})
		if dir != "." && errors.Is(err, fs.ErrNotExist) {
			continue // the directory has been removed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// assign adds each file to the skills that it is below, and checks their limits before anything is
// read.
func (s *scan) assign() error {
	sizes := make(map[string]int64)
	for _, name := range slices.Sorted(maps.Keys(s.found)) {
		for dir := path.Dir(name); ; dir = path.Dir(dir) {
			if names, isSkill := s.skills[dir]; isSkill {
				s.skills[dir] = append(names, name)
				sizes[dir] += s.found[name].Size()
				switch {
				case len(names) == mcp.MaxSkillResources:
					return s.invalid(dir, "", fmt.Errorf("it has more than %d files", mcp.MaxSkillResources))
				case sizes[dir] > mcp.MaxSkillBytes:
					return s.invalid(dir, "", fmt.Errorf("its files have more than %d bytes together", mcp.MaxSkillBytes))
				}
			}
			if dir == "." {
				break
			}
		}
	}
	return nil
}

// read reads a file, unless that is known.
func (s *scan) read(name string) error {
	if s.files[name] != nil {
		return nil
	}
	info := s.found[name]
	if old := s.known[name]; old != nil && old.modified == info.ModTime().UnixNano() && old.size == info.Size() {
		s.files[name] = old
		return nil
	}
	data, err := s.folder.read(name)
	if err != nil {
		return s.invalid(s.skillOf(name), name, err)
	}
	sum := sha256.Sum256(data)
	read := &file{modified: info.ModTime().UnixNano(), size: int64(len(data)), digest: "sha256:" + hex.EncodeToString(sum[:])}
	if path.Base(name) == mcp.SkillFile {
		if !utf8.Valid(data) {
			return s.invalid(s.skillOf(name), name, errors.New("it is not UTF-8"))
		}
		if read.front, err = frontmatter.JSON(data); err != nil {
			return s.invalid(s.skillOf(name), name, err)
		}
	}
	s.files[name] = read
	return nil
}

// skillOf returns the directory of the innermost skill that has a file.
func (s *scan) skillOf(name string) string {
	dir := path.Dir(name)
	for s.skills[dir] == nil {
		dir = path.Dir(dir)
	}
	return dir
}

// invalid returns the error for the skill in a directory, or for one of its files. file is "" for the
// skill itself.
func (s *scan) invalid(dir, file string, err error) error {
	invalid := &mcp.SkillError{Skill: s.folder.uri(path.Join(dir, mcp.SkillFile)), Reason: withoutPath(err).Error()}
	if file != "" {
		invalid.File = s.folder.uri(file)
	}
	return invalid
}

// withoutPath returns an error for others, which contains no path of this machine.
func withoutPath(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// read reads the content of a file.
func (f *Folder) read(name string) ([]byte, error) {
	opened, err := f.tree.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	return filetree.Read(opened, mcp.MaxSkillBytes)
}

// entries returns the skills and resources of the scan. It reuses entries of before that have not
// changed, and reports whether all of them are the same.
func (s *scan) entries(before *server.Catalog) (all []*server.Entry, same bool, err error) {
	same = true
	add := func(e *server.Entry, err error) error {
		if err != nil {
			return err
		}
		if old := before.Lookup(e.Kind, e.Name); old != nil && bytes.Equal(old.Definition.JSON(), e.Definition.JSON()) {
			e = old
		} else {
			same = false
		}
		all = append(all, e)
		return nil
	}
	for _, dir := range slices.Sorted(maps.Keys(s.skills)) {
		if err := add(s.skill(dir)); err != nil {
			return nil, false, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if err := add(s.resource(name)); err != nil {
			return nil, false, err
		}
	}
	return all, same && len(all) == before.Len(mcp.KindSkill)+before.Len(mcp.KindResource), nil
}

// skill returns the entry of a skill.
func (s *scan) skill(dir string) (*server.Entry, error) {
	name := path.Join(dir, mcp.SkillFile)
	front := s.files[name].front
	listed := server.Skill{URI: s.folder.uri(name), Frontmatter: front, CacheHint: s.folder.opts.CacheHint}
	for _, name := range s.skills[dir] {
		listed.Resources = append(listed.Resources, mcp.SkillResource{URI: s.folder.uri(name), Digest: s.files[name].digest, Size: s.files[name].size})
	}
	if length := utf8.RuneCountInString(member(front, "description")); length > maxDescription {
		return nil, s.invalid(dir, "", fmt.Errorf("its description has %d characters, and at most %d are allowed", length, maxDescription))
	}
	return server.NewSkill(listed)
}

// resource returns the entry of a file.
func (s *scan) resource(name string) (*server.Entry, error) {
	f, found := s.folder, s.files[name]
	resource := server.Resource{
		URI: f.uri(name), Name: path.Base(name), MIMEType: filetree.MediaType(name), Size: &found.size, CacheHint: f.opts.CacheHint,
	}
	if found.front != nil {
		resource.Name, resource.Description = member(found.front, "name"), member(found.front, "description")
	}
	return server.NewResource(resource, func(context.Context, *server.Request) (mcp.ResourceContents, error) {
		data, err := f.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, mcp.ResourceNotFound(resource.URI)
		case err != nil:
			return nil, fmt.Errorf("%.256q cannot be read: %w", resource.URI, withoutPath(err))
		}
		return filetree.Contents(resource.URI, resource.MIMEType, data), nil
	})
}

// member returns a member of a front matter that is a string, or "".
func member(front json.RawMessage, name string) string {
	value, err := jsonscan.Find(front, name)
	if err != nil || jsonscan.KindOf(value) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(value)
}
