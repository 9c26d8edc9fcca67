package skills

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/frontmatter"
	"github.com/dovetail-go/dovetail/mcp"
)

// Options configure [Open] and [Get]. The zero value is ready to use.
type Options struct {
	// Dynamic accepts skills with generated content: they have no list of files and no digests,
	// so only the front matter is verified.
	Dynamic bool
	// MaxFiles is the maximum number of files of a skill. For a dynamic skill it is the number of
	// different files that are read. Default: [mcp.MaxSkillResources].
	MaxFiles int
	// MaxBytes is the maximum number of bytes of all files of a skill. For a dynamic skill it limits the files that are
	// read; a file that is read again counts once, with its largest size. Default: [mcp.MaxSkillBytes].
	MaxBytes int64
	// Call has the options of all calls; nil for none.
	Call *client.CallOptions
}

// A Skill is a skill of a server, with the entry that its files are verified against. Make one with
// [Open] or [Get]. Its methods may be called concurrently.
type Skill struct {
	session *client.Session
	entry   *mcp.Skill
	front   []byte // the canonical front matter
	opts    Options
	files   map[string]*mcp.SkillResource // by URI
	byPath  map[string]*mcp.SkillResource // by path below the root, decoded

	mu   sync.Mutex
	read map[string]int64 // the largest size of each file of a dynamic skill that was read, by URI
	size int64            // their sum
}

// Open returns the skill with an entry of the server's list. It reads nothing. The entry must not be
// changed afterwards. opts may be nil. The error is a *[mcp.SkillError] if the entry is invalid, or
// dynamic without [Options].Dynamic, and a *[mcp.LimitError] if the skill is too large.
func Open(session *client.Session, entry *mcp.Skill, opts *Options) (*Skill, error) {
	s := &Skill{session: session, entry: entry, files: make(map[string]*mcp.SkillResource), byPath: make(map[string]*mcp.SkillResource), read: make(map[string]int64)}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.MaxFiles = cmp.Or(max(s.opts.MaxFiles, 0), mcp.MaxSkillResources)
	s.opts.MaxBytes = cmp.Or(max(s.opts.MaxBytes, 0), mcp.MaxSkillBytes)
	if len(entry.Resources) > s.opts.MaxFiles {
		return nil, s.tooMany()
	}
	if err := entry.Validate(); err != nil {
		return nil, err
	}
	if entry.Dynamic && !s.opts.Dynamic {
		return nil, &mcp.SkillError{Skill: entry.URI, Reason: "its content is dynamic, so that it cannot be verified"}
	}
	var err error
	if s.front, err = frontmatter.Canonical(entry.Frontmatter); err != nil {
		return nil, &mcp.SkillError{Skill: entry.URI, Reason: err.Error()}
	}
	var size int64
	for i := range entry.Resources {
		file := &entry.Resources[i]
		if file.Size > s.opts.MaxBytes-size {
			return nil, s.tooLarge()
		}
		size += file.Size
		below, err := url.PathUnescape(strings.TrimPrefix(file.URI, entry.Root()+"/"))
		if err != nil {
			return nil, &mcp.SkillError{Skill: entry.URI, File: file.URI, Reason: err.Error()}
		}
		if s.byPath[below] != nil {
			return nil, &mcp.SkillError{Skill: entry.URI, File: file.URI, Reason: "another file has the same path"}
		}
		s.files[file.URI], s.byPath[below] = file, file
	}
	return s, nil
}

func (s *Skill) tooMany() error {
	return &mcp.LimitError{Limit: "MaxFiles", Max: s.opts.MaxFiles, Reason: fmt.Sprintf("the skill has more than %d files", s.opts.MaxFiles)}
}

func (s *Skill) tooLarge() error {
	return &mcp.LimitError{Limit: "MaxBytes", Max: int(s.opts.MaxBytes), Reason: fmt.Sprintf("the files of the skill have more than %d bytes", s.opts.MaxBytes)}
}

// Get asks the server for a skill by the URI of its SKILL.md, listed or not, and opens it. Errors are
// as in [client.Session.GetSkill] and [Open].
func Get(ctx context.Context, session *client.Session, uri string, opts *Options) (*Skill, error) {
	var call *client.CallOptions
	if opts != nil {
		call = opts.Call
	}
	entry, err := session.GetSkill(ctx, uri, call)
	if err != nil {
		return nil, err
	}
	if entry.URI != uri {
		return nil, &mcp.SkillError{Skill: uri, Reason: fmt.Sprintf("the server has answered with the skill %.256q", entry.URI)}
	}
	return Open(session, entry, opts)
}

// Entry returns the entry of the skill. It must not be changed.
func (s *Skill) Entry() *mcp.Skill { return s.entry }

// Digest returns the SHA-256, in hexadecimal, of the URI of the skill, its front matter, and the URIs
// and digests of all files. An approval that is stored is for this digest: after any change of these
// the digest differs. It is "" for a dynamic skill: an approval of it must not be stored.
func (s *Skill) Digest() string {
	if s.entry.Dynamic {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %s\n", s.entry.URI, s.front)
	for _, uri := range slices.Sorted(maps.Keys(s.files)) {
		fmt.Fprintf(sum, "%q %s\n", uri, s.files[uri].Digest)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Load reads and verifies SKILL.md, and returns its text with the front matter. Errors are as in
// [Skill.Read].
func (s *Skill) Load(ctx context.Context) (string, error) {
	text, err := s.Read(ctx, mcp.SkillFile)
	return string(text), err
}

// Read reads and verifies one file. name is its path below the skill's directory, as in a link of SKILL.md, or its URI.
// It reads no other file. The error is a *[VerifyError] if the file is not in the entry or differs from it, a
// *[mcp.LimitError] if a dynamic skill is too large, and otherwise the error of [client.Session.ReadResource].
func (s *Skill) Read(ctx context.Context, name string) ([]byte, error) {
	uri, listed := s.resolve(name)
	if uri == "" {
		return nil, &VerifyError{Skill: s.entry.URI, File: name, Check: checkListed, Want: "a file of the skill", Got: "another name"}
	}
	result, err := s.session.ReadResource(ctx, uri, s.opts.Call)
	if err != nil {
		return nil, err
	}
	data, err := s.content(uri, result)
	if err != nil {
		return nil, err
	}
	if err := s.verify(uri, listed, data); err != nil {
		return nil, err
	}
	return data, nil
}

// resolve returns the URI of a file, and its element of the entry unless the skill is dynamic. The URI
// is "" for other names.
func (s *Skill) resolve(name string) (uri string, listed *mcp.SkillResource) {
	if file := s.files[name]; file != nil {
		return name, file
	}
	below, isURI := strings.CutPrefix(name, s.entry.Root()+"/")
	if isURI {
		var err error
		if below, err = url.PathUnescape(below); err != nil {
			return "", nil
		}
	} else if below = path.Clean(name); strings.Contains(name, "://") {
		return "", nil
	}
	if !s.entry.Dynamic {
		if file := s.byPath[below]; file != nil && !isURI {
			return file.URI, file
		}
		return "", nil
	}
	if below != path.Clean(below) || below == "." || below == ".." || strings.HasPrefix(below, "/") || strings.HasPrefix(below, "../") || strings.ContainsAny(below, "\\\x00") {
		return "", nil
	}
	segments := strings.Split(below, "/")
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	return s.entry.Root() + "/" + strings.Join(segments, "/"), nil
}

// content returns the bytes of the only content of a result.
func (s *Skill) content(uri string, result *mcp.ReadResourceResult) ([]byte, error) {
	if len(result.Contents) == 1 {
		switch contents := result.Contents[0].(type) {
		case *mcp.TextResourceContents:
			return []byte(contents.Text), nil
		case *mcp.BlobResourceContents:
			return contents.Blob, nil
		}
	}
	return nil, &VerifyError{Skill: s.entry.URI, File: uri, Check: checkContents, Want: "1 content", Got: strconv.Itoa(len(result.Contents))}
}

// count counts a file of a dynamic skill that was read.
func (s *Skill) count(uri string, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, again := s.read[uri]
	switch more := max(size-before, 0); {
	case !again && len(s.read) >= s.opts.MaxFiles:
		return s.tooMany()
	case more > s.opts.MaxBytes-s.size:
		return s.tooLarge()
	default:
		s.read[uri], s.size = before+more, s.size+more
		return nil
	}
}

// verify compares the content of a file with the entry.
func (s *Skill) verify(uri string, listed *mcp.SkillResource, data []byte) error {
	differs := func(check, field, want, got string) error {
		return &VerifyError{Skill: s.entry.URI, File: uri, Check: check, Field: field, Want: want, Got: got}
	}
	if listed == nil {
		if err := s.count(uri, int64(len(data))); err != nil {
			return err
		}
	} else {
		if int64(len(data)) != listed.Size {
			return differs(checkSize, "", strconv.FormatInt(listed.Size, 10), strconv.Itoa(len(data)))
		}
		sum := sha256.Sum256(data)
		if digest := "sha256:" + hex.EncodeToString(sum[:]); digest != listed.Digest {
			return differs(checkDigest, "", listed.Digest, digest)
		}
	}
	if uri != s.entry.URI {
		return nil
	}
	if !utf8.Valid(data) {
		return differs(checkFrontmatter, "", "UTF-8", "other bytes")
	}
	front, err := frontmatter.JSON(data)
	if err != nil {
		return differs(checkFrontmatter, "", "front matter", err.Error())
	}
	difference, err := frontmatter.Compare(s.entry.Frontmatter, front)
	if err != nil {
		return differs(checkFrontmatter, "", "front matter", err.Error())
	}
	if difference != nil {
		return differs(checkFrontmatter, difference.Field, difference.A, difference.B)
	}
	return nil
}
