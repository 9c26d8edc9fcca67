package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
)

// Skill configures a skill (SEP-2640, for clients of 2026-07-28 and later). Package server/skills
// makes skills of a folder.
type Skill struct {
	// URI is the URI of the skill's SKILL.md. The segment before SKILL.md is the name of the skill.
	URI string
	// Frontmatter is the YAML front matter of SKILL.md as a JSON object, unchanged, with the members
	// name and description.
	Frontmatter json.RawMessage
	// Resources are all files of the skill, at most [mcp.MaxSkillResources] with at most
	// [mcp.MaxSkillBytes]. Register a resource for each of them.
	Resources []mcp.SkillResource
	// Dynamic means that the content is generated, so that there are no Resources. Register resources
	// or a template for the files.
	Dynamic bool
	// Directory lists the direct children of a directory of a dynamic skill. It is called
	// concurrently. If there is no such directory it returns [mcp.ResourceNotFound]. nil: the
	// directories of the skill cannot be listed. For other skills, Resources lists the directories.
	Directory func(ctx context.Context, r *Request, uri string) ([]mcp.Resource, error)
	Meta      mcp.Meta
	// CacheHint says how long, and for whom, clients may cache the answer to skills/get. By default
	// they may not. The answers behind guards are always private.
	CacheHint mcp.CacheHint
	// Guards and CallMiddleware apply to skills/get, and to calls of Directory; see [mcp.Guard].
	// The resource of a file has guards and middleware of its own.
	Guards         []mcp.Guard
	CallMiddleware []mcp.Middleware
	// Scopes are OAuth scopes that a call needs; see [Server.Scopes].
	Scopes []string
	// Metadata is for guards and functions, in [mcp.Target]. It is not sent to clients.
	Metadata map[string]any
}

// AddSkill registers a skill. It panics, with the file and line of the caller, if the skill cannot be
// registered.
func AddSkill(s *Server, skill Skill) { s.mustAdd(NewSkill(skill)) }

// NewSkill returns the entry of a skill, for [Server.Replace] or [NewCatalog]. The error says why the
// skill is invalid; it is a *[mcp.SkillError] if that is a rule of SEP-2640.
func NewSkill(skill Skill) (*Entry, error) {
	listed := &mcp.Skill{
		URI: skill.URI, Frontmatter: skill.Frontmatter, Resources: slices.Clone(skill.Resources), Dynamic: skill.Dynamic, Meta: skill.Meta,
	}
	if err := errors.Join(listed.Validate(), checkSkillLimits(listed), checkCacheHint(skill.CacheHint)); err != nil {
		return nil, err
	}
	if skill.Directory != nil && !skill.Dynamic {
		return nil, &mcp.SkillError{Skill: skill.URI, Reason: "Directory is for dynamic skills only"}
	}
	definition, err := listed.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("the skill %q: %w", skill.URI, err)
	}
	found, err := (&mcp.GetSkillResult{Skill: *listed, CacheHint: skill.CacheHint}).AppendJSON(nil)
	if err != nil {
		return nil, fmt.Errorf("the skill %q: %w", skill.URI, err)
	}
	e := newEntry(mcp.KindSkill, skill.URI, definition, skill.Scopes, skill.Metadata, pending{
		guards: skill.Guards, middleware: skill.CallMiddleware,
		bind: func(s *Server, middleware mcp.Middleware) mcp.Handler {
			return decodeAndRun(s, middleware, noArguments, func(ctx context.Context, r *Request, _ any) (mcp.Result, error) {
				switch {
				case r.call.Method() == mcp.MethodSkillsGet:
					return mcp.Raw(found), nil
				case skill.Directory == nil:
					return nil, notDirectory(r.call.URI())
				}
				children, err := skill.Directory(ctx, r, r.call.URI())
				if err != nil {
					return nil, err
				}
				return pageOfResources(r.call, children)
			})
		},
	})
	return e, e.check()
}

// skillFeature is skills/list, skills/get and resources/directory/read. The files of skills are resources.
var skillFeature = feature{
	methods: []method{
		{name: mcp.MethodSkillsList, list: mcp.KindSkill},
		{name: mcp.MethodSkillsGet, kinds: []mcp.Kind{mcp.KindSkill}},
		{
			name: mcp.MethodDirectoryRead, kinds: []mcp.Kind{mcp.KindSkill}, lookup: (*Catalog).skillOf,
			unknown: func(_ *mcp.Call, _ mcp.Kind, uri string) error { return notDirectory(uri) },
			handle:  (*Server).readDirectory, optional: true,
		},
	},
	needed: func(c *Catalog, more bool) bool { return more || c.Len(mcp.KindSkill) > 0 },
	declare: func(has *mcp.ServerCapabilities) {
		declareResources(has)
		declareExtension(has, mcp.ExtensionSkills, `{"directoryRead":true}`)
	},
}

// checkSkillLimits rejects a skill that clients need not accept.
func checkSkillLimits(skill *mcp.Skill) error {
	if files := len(skill.Resources); files > mcp.MaxSkillResources {
		return &mcp.SkillError{Skill: skill.URI, Reason: fmt.Sprintf("it has %d files, and at most %d are allowed", files, mcp.MaxSkillResources)}
	}
	var size int64
	for i := range skill.Resources {
		file := &skill.Resources[i]
		if size += min(file.Size, mcp.MaxSkillBytes+1); size > mcp.MaxSkillBytes {
			return &mcp.SkillError{Skill: skill.URI, Reason: fmt.Sprintf("its files have more than %d bytes together", mcp.MaxSkillBytes)}
		}
	}
	return nil
}

// pageOfResources returns a page of the children of a directory.
func pageOfResources(call *mcp.Call, children []mcp.Resource) (mcp.Result, error) {
	entries := make([]*Entry, len(children))
	for i, child := range children {
		definition, err := child.MarshalJSON()
		if err != nil {
			return nil, err
		}
		entries[i] = childEntry(child.URI, definition)
	}
	return pageOfChildren(call, entries, 0)
}

func childEntry(uri string, definition json.RawMessage) *Entry {
	return &Entry{Target: mcp.Target{Kind: mcp.KindResource, Name: uri, Definition: mcp.NewDefinition(definition)}}
}

// pageOfChildren returns the page of a directory that the cursor of the call asks for.
func pageOfChildren(call *mcp.Call, children []*Entry, size int) (mcp.Result, error) {
	start, err := pageStart(children, cursorOf(call))
	if err != nil {
		return nil, err
	}
	rest := children[start:]
	return encodePage(mcp.KindResource, rest, pageLen(rest, size), nil), nil
}

// maxDirectories bounds the segments of the path in a URI for which a skill is looked up.
const maxDirectories = 64

// skillOf returns the skill of a URI, which is the URI of the skill's directory, or of a file or directory
// below. If skills are nested, it returns the innermost one. It returns nil if there is none.
func (c *Catalog) skillOf(uri string) *Entry {
	skills := c.index[mcp.KindSkill]
	if len(skills) == 0 || strings.Count(uri, "/") > maxDirectories {
		return nil
	}
	for dir := uri; dir != ""; dir = dir[:max(0, strings.LastIndexByte(dir, '/'))] {
		if e := skills[dir+"/"+mcp.SkillFile]; e != nil {
			return e
		}
	}
	return nil
}

// notDirectory is the error for a directory that does not exist, in the same form as
// [mcp.ResourceNotFound].
func notDirectory(uri string) error {
	err := mcp.ResourceNotFound(uri)
	err.Message = "no such directory"
	return err
}

type skillKey struct{ entry *Entry }

// skill returns the decoded definition of a skill, or nil if it is invalid.
func (c *Catalog) skill(e *Entry) *mcp.Skill {
	return c.Memo(skillKey{e}, func() any {
		skill := new(mcp.Skill)
		if skill.UnmarshalJSON(e.Definition.JSON()) != nil {
			return (*mcp.Skill)(nil)
		}
		return skill
	}).(*mcp.Skill)
}

// readDirectory answers resources/directory/read with the children that the caller sees. A skill
// lists its files in its definition. Only a dynamic skill is called.
func (s *Server) readDirectory(ctx context.Context, call *mcp.Call, entry *Entry) (mcp.Result, error) {
	catalog := s.Catalog()
	d := &directory{catalog: catalog, uri: call.URI(), seen: make(map[string]bool)}
	d.visible = func(e *Entry) *Entry { return s.visible(ctx, call.Caller, catalog, e) }
	switch {
	case entry == nil && strings.Contains(d.uri, "://"):
		d.addSkills()
	case entry == nil:
	case d.visible(entry) == nil:
		return nil, notDirectory(d.uri)
	default:
		skill := catalog.skill(entry)
		if skill == nil {
			return nil, notDirectory(d.uri)
		}
		if skill.Dynamic {
			return entry.Handle(ctx, call)
		}
		d.addFiles(skill)
	}
	if len(d.seen) == 0 {
		return nil, notDirectory(d.uri)
	}
	return pageOfChildren(call, d.children, s.options.PageSize)
}

// A directory collects the children of a directory.
type directory struct {
	catalog  *Catalog
	uri      string
	visible  func(e *Entry) *Entry // what the caller sees of an entry, or nil
	seen     map[string]bool       // URIs of children, those that the caller does not see included
	children []*Entry
}

// addFiles adds the children among the files of a skill.
func (d *directory) addFiles(skill *mcp.Skill) {
	for i := range skill.Resources {
		file := &skill.Resources[i]
		child, isFile := d.child(file.URI)
		if child == "" || d.seen[child] {
			continue
		}
		d.seen[child] = true
		if !isFile {
			d.add(&mcp.Resource{URI: child, Name: path.Base(child), MIMEType: mcp.MIMEDirectory})
			continue
		}
		listed := d.catalog.index[mcp.KindResource][child]
		if listed == nil {
			d.add(&mcp.Resource{URI: child, Name: path.Base(child), Size: &file.Size})
		} else if seen := d.visible(listed); seen != nil {
			d.children = append(d.children, seen)
		}
	}
}

// addSkills adds the children of a directory above skills.
func (d *directory) addSkills() {
	for e := range d.catalog.All(mcp.KindSkill) {
		if child, isFile := d.child(e.Name); child != "" && !isFile && !d.seen[child] && d.visible(e) != nil {
			d.seen[child] = true
			d.add(&mcp.Resource{URI: child, Name: path.Base(child), MIMEType: mcp.MIMEDirectory})
		}
	}
}

// child returns the URI of the child that a URI is, or is below, and "" if it is not below the
// directory.
func (d *directory) child(uri string) (child string, isFile bool) {
	below, ok := strings.CutPrefix(uri, d.uri+"/")
	if !ok || below == "" {
		return "", false
	}
	segment, _, more := strings.Cut(below, "/")
	if segment == "" {
		return "", false
	}
	return uri[:len(d.uri)+1+len(segment)], !more
}

func (d *directory) add(child *mcp.Resource) {
	if definition, err := child.MarshalJSON(); err == nil {
		d.children = append(d.children, childEntry(child.URI, definition))
	}
}
