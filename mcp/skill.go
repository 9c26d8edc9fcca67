package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// ExtensionSkills identifies the extension for Agent Skills (SEP-2640, for 2026-07-28 and later). It
// is a key of [ServerCapabilities].Extensions. The settings are a [SkillsCapability].
const ExtensionSkills = "io.modelcontextprotocol/skills"

const (
	// SkillFile is the name of the file that each skill has at its root, and the last segment of
	// the URI of a skill.
	SkillFile = "SKILL.md"
	// MaxSkillResources is how many files of a skill every client accepts, and the default limit of
	// this module (SEP-2640).
	MaxSkillResources = 512
	// MaxSkillBytes is how many bytes the files of a skill have together at most, so that every client
	// accepts them. It is the default limit of this module (SEP-2640).
	MaxSkillBytes = 16 << 20
	// MIMEDirectory is the media type of a resource that is a directory, which
	// resources/directory/read lists (SEP-2640).
	MIMEDirectory = "inode/directory"
)

// A SkillsCapability means that a server answers skills/list and skills/get.
type SkillsCapability struct {
	// DirectoryRead: the server answers resources/directory/read too.
	DirectoryRead bool  `json:"directoryRead,omitzero"`
	Extra         Extra `json:",embed"`
}

// A Skill is an Agent Skill, as it is listed: a directory of resources with instructions for a model
// in [SkillFile]. It is the answer to skills/get too.
type Skill struct {
	// URI is the URI of the skill's SKILL.md.
	URI string
	// Frontmatter is the YAML front matter of SKILL.md as a JSON object. It has the members name and
	// description.
	Frontmatter json.RawMessage
	// Resources are all files of the skill, including SKILL.md and the files of nested skills. It is
	// nil if Dynamic is set.
	Resources []SkillResource
	// Dynamic means that the files are generated, so that they have no digests. Nothing can be
	// verified then.
	Dynamic bool
	Meta    Meta
	Extra   Extra
}

// A SkillResource is a file of a skill, with what its content must match.
type SkillResource struct {
	URI string `json:"uri"`
	// Digest is "sha256:" and the SHA-256 of the content in 64 lowercase hexadecimal digits.
	Digest string `json:"digest"`
	// Size is the length of the content in bytes.
	Size  int64 `json:"size"`
	Extra Extra `json:",embed"`
}

// Name returns the member name of the front matter, or "".
func (s *Skill) Name() string { return textOf(objectMember(s.Frontmatter, "name")) }

// Description returns the member description of the front matter, or "".
func (s *Skill) Description() string { return textOf(objectMember(s.Frontmatter, "description")) }

// Root returns the URI of the skill's directory, without a slash at its end. It returns "" if the
// URI does not end with /SKILL.md.
func (s *Skill) Root() string {
	root, ok := strings.CutSuffix(s.URI, "/"+SkillFile)
	if !ok {
		return ""
	}
	return root
}

// skillFields are the members of a skill.
type skillFields struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   json.RawMessage `json:"resources"`
	Meta        Meta            `json:"_meta,omitzero"`
	Extra       Extra           `json:",embed"`
}

// appendJSON appends the skill as a JSON object.
func (s *Skill) appendJSON(dst []byte) ([]byte, error) {
	w := openObject(dst)
	w.string("uri", s.URI)
	w.raw("frontmatter", s.Frontmatter)
	if s.Dynamic {
		w.string("resources", "dynamic")
	} else {
		writeObjects(w, "resources", s.Resources, (*SkillResource).appendJSON)
	}
	w.meta(s.Meta)
	return w.close(s.Extra)
}

// MarshalJSON returns the skill as a JSON object.
func (s Skill) MarshalJSON() ([]byte, error) { return s.appendJSON(nil) }

// UnmarshalJSON decodes the skill. The front matter must be an object, and resources an array or
// "dynamic". The error is a *[DecodeError].
func (s *Skill) UnmarshalJSON(data []byte) error {
	var in skillFields
	if err := decode(data, &in); err != nil {
		return err
	}
	if jsonscan.KindOf(in.Frontmatter) != jsonscan.Object {
		return &DecodeError{Pointer: "/frontmatter", Expected: "an object", Got: gotKind(in.Frontmatter)}
	}
	out := Skill{URI: in.URI, Frontmatter: in.Frontmatter, Meta: in.Meta, Extra: in.Extra}
	switch {
	case textOf(in.Resources) == "dynamic":
		out.Dynamic = true
	case jsonscan.KindOf(in.Resources) == jsonscan.Array:
		if err := decode(in.Resources, &out.Resources); err != nil {
			return prefixPointer("/resources", err)
		}
	default:
		return &DecodeError{Pointer: "/resources", Expected: `an array or "dynamic"`, Got: gotKind(in.Resources)}
	}
	*s = out
	return nil
}

// A ListSkillsResult is one page of a server's skills.
type ListSkillsResult struct {
	Skills []Skill `json:"skills"`
	Page
}

// GetSkillParams are the parameters of skills/get.
type GetSkillParams struct {
	// URI is the URI of the skill's SKILL.md.
	URI   string `json:"uri"`
	Meta  Meta   `json:"_meta,omitzero"`
	Extra Extra  `json:",embed"`
}

// A GetSkillResult has one skill.
type GetSkillResult struct {
	Skill Skill `json:"skill"`
	CacheHint
	ResultType ResultType `json:"resultType,omitzero"`
	Meta       Meta       `json:"_meta,omitzero"`
	Extra      Extra      `json:",embed"`
}

// UnmarshalJSON decodes the result. The error is a *[DecodeError].
func (g *GetSkillResult) UnmarshalJSON(data []byte) error {
	type fields GetSkillResult
	if err := decode(data, (*fields)(g)); err != nil {
		return err
	}
	if g.Skill.Frontmatter == nil {
		return &DecodeError{Pointer: "/skill", Expected: "an object", Got: gotKind(nil)}
	}
	return nil
}

// ReadDirectoryParams are the parameters of resources/directory/read. The result is a
// [ListResourcesResult] with the direct children of the directory.
type ReadDirectoryParams struct {
	// URI is the URI of the directory, without a slash at its end.
	URI string `json:"uri"`
	// Cursor is the NextCursor of the previous page, or nil for the first page.
	Cursor *string `json:"cursor,omitzero"`
	Meta   Meta    `json:"_meta,omitzero"`
	Extra  Extra   `json:",embed"`
}

// A SkillError says why a skill is not valid.
type SkillError struct {
	// Skill is the URI of the skill. File is the URI of one of its files, or "".
	Skill, File string
	// Reason says which rule is broken.
	Reason string
}

// Error contains the URIs and the reason.
func (e *SkillError) Error() string {
	if e.File != "" {
		return fmt.Sprintf("the skill %q: the file %q: %s", truncate(e.Skill), truncate(e.File), e.Reason)
	}
	return fmt.Sprintf("the skill %q: %s", truncate(e.Skill), e.Reason)
}

// Validate checks the rules of SEP-2640 for an entry: the last segment of the directory is the name in
// the front matter, there is a description, and the files are complete, distinct, below the
// directory, and have digests and sizes. It does not check limits. The error is a *[SkillError].
func (s *Skill) Validate() error {
	fail := func(file, format string, args ...any) error {
		return &SkillError{Skill: s.URI, File: file, Reason: fmt.Sprintf(format, args...)}
	}
	root := s.Root()
	scheme, path, ok := strings.Cut(root, "://")
	if !ok || scheme == "" || path == "" {
		return fail("", "its URI must have the form skill://PATH/%s", SkillFile)
	}
	if err := checkPath(path); err != nil {
		return fail("", "its URI: %v", err)
	}
	name := s.Name()
	if err := checkSkillName(name); err != nil {
		return fail("", "%v", err)
	}
	if last := root[strings.LastIndexByte(root, '/')+1:]; last != name {
		return fail("", "its directory is %q, and its name %q; they must be equal", truncate(last), truncate(name))
	}
	if strings.TrimSpace(s.Description()) == "" {
		return fail("", "the front matter has no description")
	}
	switch {
	case s.Dynamic && s.Resources != nil:
		return fail("", "it is dynamic, and has a list of files")
	case s.Dynamic:
		return nil
	}
	seen := make(map[string]bool, len(s.Resources))
	for i := range s.Resources {
		file := &s.Resources[i]
		below, inside := strings.CutPrefix(file.URI, root+"/")
		if !inside {
			return fail(file.URI, "it is not below the directory of the skill")
		}
		if err := checkPath(below); err != nil {
			return fail(file.URI, "%v", err)
		}
		switch {
		case seen[file.URI]:
			return fail(file.URI, "it is listed twice")
		case !isDigest(file.Digest):
			return fail(file.URI, "its digest must be sha256: and 64 lowercase hexadecimal digits, not %q", truncate(file.Digest))
		case file.Size < 0:
			return fail(file.URI, "its size is %d", file.Size)
		}
		seen[file.URI] = true
	}
	if !seen[s.URI] {
		return fail(s.URI, "it is not in the list of files")
	}
	return nil
}

// maxSkillName is the maximum length of the name of a skill: Agent Skills, name field.
const maxSkillName = 64

// checkSkillName returns an error unless a name follows the rules of Agent Skills: 1 to 64 lowercase
// letters a–z, digits and hyphens, without a hyphen at the beginning, at the end or after another.
func checkSkillName(name string) error {
	valid := name != "" && len(name) <= maxSkillName && name[0] != '-' && name[len(name)-1] != '-' && !strings.Contains(name, "--")
	for _, c := range []byte(name) {
		valid = valid && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !valid {
		return fmt.Errorf("the name of a skill has 1 to %d characters of a–z, 0–9 and single hyphens between them, not %q", maxSkillName, truncate(name))
	}
	return nil
}

// checkPath rejects a path that another program may read as the path of something else.
func checkPath(path string) error {
	if strings.ContainsAny(path, "?#\\") {
		return errors.New("a path has no query, fragment or backslash")
	}
	for segment := range strings.SplitSeq(path, "/") {
		decoded, err := url.PathUnescape(segment)
		if err != nil || decoded == "" || decoded == "." || decoded == ".." || strings.ContainsAny(decoded, "/\\\x00") {
			return fmt.Errorf("a path has no segment %q", truncate(segment))
		}
	}
	return nil
}

// isDigest reports whether a text is sha256: and 64 lowercase hexadecimal digits.
func isDigest(text string) bool {
	digits, ok := strings.CutPrefix(text, "sha256:")
	if !ok || len(digits) != 64 {
		return false
	}
	for _, c := range []byte(digits) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
