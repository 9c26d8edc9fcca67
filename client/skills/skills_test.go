package skills_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/client/skills"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	root     = "skill://acme/pdf"
	skillURI = root + "/SKILL.md"
	text     = "---\nname: pdf\ndescription: Fills forms\nversion: 1.10\n---\nUse ref/a b.md.\n"
)

// A peer is a server with answers that a test chooses.
type peer struct {
	entry *mcp.Skill
	files map[string]any // text or bytes, or a result

	mu   sync.Mutex
	read []string // URIs
}

func digestOf(content string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))) }

func newPeer() *peer {
	p := &peer{files: map[string]any{skillURI: text, root + "/ref/a%20b.md": "# A", root + "/data.bin": []byte("\x00\xff"), "skill://other/a.md": "other"}}
	p.entry = &mcp.Skill{
		URI: skillURI, Frontmatter: json.RawMessage(`{"version":1.1,"description":"Fills forms","name":"pdf"}`),
		Resources: []mcp.SkillResource{
			{URI: skillURI, Digest: digestOf(text), Size: int64(len(text))}, {URI: root + "/ref/a%20b.md", Digest: digestOf("# A"), Size: 3},
			{URI: root + "/data.bin", Digest: digestOf("\x00\xff"), Size: 2},
		},
	}
	return p
}

// connect returns a session with the peer.
func (p *peer) connect(t testing.TB) *client.Session {
	t.Helper()
	s := server.New(mcp.Implementation{Name: "peer", Version: "1"}, nil)
	definition, err := p.entry.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	err = s.Replace(&server.Entry{
		Target: mcp.Target{Kind: mcp.KindSkill, Name: p.entry.URI, Definition: mcp.NewDefinition(definition)},
		Match:  func(string) bool { return true },
		Handle: func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
			if call.Method() == mcp.MethodSkillsGet {
				return &mcp.GetSkillResult{Skill: *p.entry}, nil
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.read = append(p.read, call.URI())
			switch content := p.files[call.URI()].(type) {
			case string:
				return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{&mcp.TextResourceContents{URI: call.URI(), Text: content}}}, nil
			case []byte:
				return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{&mcp.BlobResourceContents{URI: call.URI(), Blob: content}}}, nil
			case *mcp.ReadResourceResult:
				return content, nil
			}
			return nil, mcp.ResourceNotFound(call.URI())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(context.Background(), transport.Pipe(s), &client.Options{Era: client.Modern})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// Nothing is read before it is asked for, and then only that.
func TestRead(t *testing.T) {
	p := newPeer()
	session := p.connect(t)
	var opened *skills.Skill
	for entry, err := range session.Skills(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if opened, err = skills.Open(session, entry, nil); err != nil {
			t.Fatal(err)
		}
	}
	got, err := skills.Get(t.Context(), session, skillURI, nil)
	if err != nil || got.Digest() != opened.Digest() || len(opened.Digest()) != 64 || opened.Entry().URI != skillURI {
		t.Fatalf("%v, %v", got, err)
	}
	if len(p.read) > 0 {
		t.Fatalf("read %q before anything was asked for", p.read)
	}
	if got, err := opened.Load(t.Context()); err != nil || got != text {
		t.Errorf("SKILL.md: %q, %v", got, err)
	}
	for name, want := range map[string]string{
		"ref/a b.md": "# A", "./ref/../ref/a b.md": "# A", root + "/ref/a%20b.md": "# A", "data.bin": "\x00\xff", "SKILL.md": text, skillURI: text,
	} {
		if got, err := opened.Read(t.Context(), name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if want := 7; len(p.read) != want {
		t.Errorf("read %q, want %d reads", p.read, want)
	}
}

// A file that the entry does not list is not even asked for.
func TestUnlisted(t *testing.T) {
	p := newPeer()
	p.files[root+"/new.md"] = "new"
	session := p.connect(t)
	skill, err := skills.Open(session, p.entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"new.md", root + "/new.md", "skill://other/a.md", "../pdf/SKILL.md", "/SKILL.md", "", ".", "ref", "ref/a%20b.md", root + "/ref/a b.md", root + "/%ref", root, root + "/", "skill.md", "file:///etc/passwd",
		root + "/ref/../SKILL.md",
	} {
		got, err := skill.Read(t.Context(), name)
		if failed, ok := errors.AsType[*skills.VerifyError](err); !ok || failed.Check != "listed" || failed.File != name || failed.Skill != skillURI {
			t.Errorf("%q: %q, %v, want that it is not listed", name, got, err)
		}
	}
	if len(p.read) > 0 {
		t.Errorf("read %q", p.read)
	}
}

func TestVerify(t *testing.T) {
	changed := func(from, to string) string { return strings.Replace(text, from, to, 1) }
	contents := func(all ...mcp.ResourceContents) *mcp.ReadResourceResult {
		return &mcp.ReadResourceResult{Contents: all}
	}
	for name, c := range map[string]struct {
		file    string
		content any
		adapt   bool // the entry has the digest and the size of the content
		want    skills.VerifyError
	}{
		"size":              {"SKILL.md", text + "!", false, skills.VerifyError{Check: "size", Want: fmt.Sprint(len(text)), Got: fmt.Sprint(len(text) + 1)}},
		"digest":            {"SKILL.md", changed("Use", "Run"), false, skills.VerifyError{Check: "digest", Want: digestOf(text), Got: digestOf(changed("Use", "Run"))}},
		"digest of a file":  {"data.bin", []byte("\x01\xff"), false, skills.VerifyError{Check: "digest", Want: digestOf("\x00\xff"), Got: digestOf("\x01\xff")}},
		"size of a file":    {"data.bin", []byte{}, false, skills.VerifyError{Check: "size", Want: "2", Got: "0"}},
		"another value":     {"SKILL.md", changed("Fills", "Steals"), true, skills.VerifyError{Check: "front matter", Field: "description", Want: `"Fills forms"`, Got: `"Steals forms"`}},
		"another type":      {"SKILL.md", changed("1.10", "'1.1'"), true, skills.VerifyError{Check: "front matter", Field: "version", Want: "1.1", Got: `"1.1"`}},
		"another field":     {"SKILL.md", changed("version: 1.10", "version: 1.1\nallowed-tools: Bash"), true, skills.VerifyError{Check: "front matter", Field: "allowed-tools", Want: "nothing", Got: `"Bash"`}},
		"a missing field":   {"SKILL.md", changed("version: 1.10\n", ""), true, skills.VerifyError{Check: "front matter", Field: "version", Want: "1.1", Got: "nothing"}},
		"no front matter":   {"SKILL.md", "text", true, skills.VerifyError{Check: "front matter", Want: "front matter", Got: "it does not begin with front matter: a line ---, YAML, and a line ---"}},
		"not UTF-8":         {"SKILL.md", []byte(text + "\xff"), true, skills.VerifyError{Check: "front matter", Want: "UTF-8", Got: "other bytes"}},
		"no content":        {"SKILL.md", contents(), false, skills.VerifyError{Check: "contents", Want: "1 content", Got: "0"}},
		"two contents":      {"SKILL.md", contents(&mcp.TextResourceContents{Text: text}, &mcp.TextResourceContents{Text: text}), false, skills.VerifyError{Check: "contents", Want: "1 content", Got: "2"}},
		"the same as bytes": {"SKILL.md", []byte(text), false, skills.VerifyError{}},
	} {
		p := newPeer()
		uri := root + "/" + c.file
		p.files[uri] = c.content
		if c.adapt {
			content := fmt.Sprintf("%s", c.content)
			i := slices.IndexFunc(p.entry.Resources, func(file mcp.SkillResource) bool { return file.URI == uri })
			p.entry.Resources[i].Digest, p.entry.Resources[i].Size = digestOf(content), int64(len(content))
		}
		skill, err := skills.Open(p.connect(t), p.entry, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := skill.Read(t.Context(), c.file)
		if c.want.Check == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		c.want.Skill, c.want.File = skillURI, uri
		if failed, ok := errors.AsType[*skills.VerifyError](err); !ok || *failed != c.want || got != nil || !strings.Contains(err.Error(), c.want.Got) || !strings.Contains(err.Error(), uri) {
			t.Errorf("%s: %q, %v\nwant %+v", name, got, err, c.want)
		}
	}
	p := newPeer()
	delete(p.files, root+"/data.bin")
	skill, err := skills.Open(p.connect(t), p.entry, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := skill.Read(t.Context(), "data.bin"); !mcp.IsResourceNotFound(err) {
		t.Errorf("a file that is missing: %v", err)
	}
}

func TestOpenInvalid(t *testing.T) {
	session := newPeer().connect(t)
	for name, change := range map[string]func(*mcp.Skill){
		"an invalid entry": func(s *mcp.Skill) { s.Resources = s.Resources[1:] },
		"dynamic":          func(s *mcp.Skill) { s.Dynamic, s.Resources = true, nil },
		"one path twice":   func(s *mcp.Skill) { s.Resources[2].URI = root + "/ref/a%20%62.md" },
	} {
		entry := newPeer().entry
		change(entry)
		if _, err := skills.Open(session, entry, nil); !isSkillError(err) {
			t.Errorf("%s: %v, want a SkillError", name, err)
		}
	}
	for limit, opts := range map[string]*skills.Options{"MaxFiles": {MaxFiles: 2}, "MaxBytes": {MaxBytes: int64(len(text)) + 4}} {
		_, err := skills.Open(session, newPeer().entry, opts)
		if limited, ok := errors.AsType[*mcp.LimitError](err); !ok || limited.Limit != limit {
			t.Errorf("%s: %v", limit, err)
		}
	}
	if _, err := skills.Open(session, newPeer().entry, &skills.Options{MaxFiles: 3, MaxBytes: int64(len(text)) + 5}); err != nil {
		t.Errorf("at the limits: %v", err)
	}
	huge := newPeer().entry
	huge.Resources[0].Size, huge.Resources[1].Size = 1<<62, 1<<62
	if _, err := skills.Open(session, huge, nil); err == nil {
		t.Error("a sum that overflows was accepted")
	}
	if _, err := skills.Get(t.Context(), session, "skill://none/SKILL.md", nil); !mcp.IsResourceNotFound(err) {
		t.Errorf("an unknown skill: %v", err)
	}
	liar := newPeer()
	session = liar.connect(t)
	liar.entry.URI = "skill://acme/other/SKILL.md"
	if _, err := skills.Get(t.Context(), session, skillURI, nil); !isSkillError(err) {
		t.Errorf("the answer for another skill: %v", err)
	}
}

func isSkillError(err error) bool {
	_, ok := errors.AsType[*mcp.SkillError](err)
	return ok
}

func isLimit(err error, limit string) bool {
	limited, ok := errors.AsType[*mcp.LimitError](err)
	return ok && limited.Limit == limit
}

// Of a dynamic skill, any file below its directory can be read, as far as the limit goes.
func TestDynamic(t *testing.T) {
	p := newPeer()
	p.entry.Dynamic, p.entry.Resources = true, nil
	session := p.connect(t)
	opts := &skills.Options{Dynamic: true, MaxBytes: int64(len(text)) + 3}
	skill, err := skills.Open(session, p.entry, opts)
	if err != nil || skill.Digest() != "" {
		t.Fatal(err)
	}
	if got, err := skill.Load(t.Context()); err != nil || got != text {
		t.Errorf("SKILL.md: %q, %v", got, err)
	}
	if got, err := skill.Read(t.Context(), "ref/a b.md"); err != nil || string(got) != "# A" {
		t.Errorf("a file: %q, %v", got, err)
	}
	_, err = skill.Read(t.Context(), root+"/data.bin")
	if !isLimit(err, "MaxBytes") {
		t.Errorf("beyond the limit: %v", err)
	}
	for range 3 { // a file counts once
		if _, err := skill.Load(t.Context()); err != nil {
			t.Errorf("SKILL.md again: %v", err)
		}
	}
	if few, err := skills.Open(session, p.entry, &skills.Options{Dynamic: true, MaxFiles: 1}); err != nil {
		t.Error(err)
	} else if _, err := few.Load(t.Context()); err != nil {
		t.Error(err)
	} else if _, err := few.Read(t.Context(), "ref/a b.md"); !isLimit(err, "MaxFiles") {
		t.Errorf("a second file: %v", err)
	}
	before := len(p.read)
	for _, name := range []string{"skill://other/a.md", "../other/a.md", root + "/../other/a.md", root + "/%2e%2e/x", root + "/a%5cb", "/etc/passwd", "", ".", "..", root + "/", root} {
		_, err := skill.Read(t.Context(), name)
		if failed, ok := errors.AsType[*skills.VerifyError](err); !ok || failed.Check != "listed" {
			t.Errorf("%q: %v, want that it is no file of the skill", name, err)
		}
	}
	if len(p.read) != before {
		t.Errorf("read %q", p.read[before:])
	}
	p.files[skillURI] = strings.Replace(text, "Fills", "Steals", 1)
	if skill, err = skills.Open(session, p.entry, &skills.Options{Dynamic: true}); err != nil {
		t.Fatal(err)
	}
	_, err = skill.Load(t.Context())
	if failed, ok := errors.AsType[*skills.VerifyError](err); !ok || failed.Check != "front matter" {
		t.Errorf("another front matter: %v", err)
	}
}

// The digest differs after any change that an approval is about, and only then.
func TestDigest(t *testing.T) {
	session := newPeer().connect(t)
	digest := func(change func(*mcp.Skill)) string {
		entry := *newPeer().entry
		change(&entry)
		skill, err := skills.Open(session, &entry, nil)
		if err != nil {
			t.Fatal(err)
		}
		return skill.Digest()
	}
	want := digest(func(*mcp.Skill) {})
	for name, test := range map[string]struct {
		change func(*mcp.Skill)
		equal  bool
	}{
		"order of members": {func(s *mcp.Skill) {
			s.Frontmatter = json.RawMessage(`{ "name":"pdf", "version":1.1, "description":"Fills\u0020forms" }`)
		}, true},
		"order of files": {func(s *mcp.Skill) { slices.Reverse(s.Resources) }, true},
		"description": {func(s *mcp.Skill) {
			s.Frontmatter = json.RawMessage(`{"version":1.1,"description":"Other","name":"pdf"}`)
		}, false},
		"tools": {func(s *mcp.Skill) {
			s.Frontmatter = json.RawMessage(`{"version":1.1,"description":"Fills forms","name":"pdf","allowed-tools":"Bash(*)"}`)
		}, false},
		"content": {func(s *mcp.Skill) { s.Resources[0].Digest = digestOf("") }, false},
		"a file":  {func(s *mcp.Skill) { s.Resources = s.Resources[:2] }, false},
		"URI": {func(s *mcp.Skill) {
			s.URI = "skill://other/pdf/SKILL.md"
			for i := range s.Resources {
				s.Resources[i].URI = strings.Replace(s.Resources[i].URI, root, "skill://other/pdf", 1)
			}
		}, false},
	} {
		if got := digest(test.change); (got == want) != test.equal {
			t.Errorf("%s: the digests %q and %q", name, got, want)
		}
	}
}

// An entry of a peer never panics. Only files that it lists, below its directory, can be read.
func FuzzOpen(f *testing.F) {
	seed, err := newPeer().entry.MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, "ref/a b.md")
	f.Add([]byte(`{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a","description":"b"},"resources":"dynamic"}`), "../x")
	p := newPeer()
	session := p.connect(f)
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		var entry mcp.Skill
		if entry.UnmarshalJSON(text) != nil {
			return
		}
		skill, err := skills.Open(session, &entry, &skills.Options{Dynamic: true})
		if err != nil {
			return
		}
		p.mu.Lock()
		p.read = nil
		p.mu.Unlock()
		_, _ = skill.Read(context.Background(), name)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, uri := range p.read {
			listed := slices.ContainsFunc(entry.Resources, func(file mcp.SkillResource) bool { return file.URI == uri })
			if !strings.HasPrefix(uri, entry.Root()+"/") || strings.Contains(uri+"/", "/../") || !entry.Dynamic && !listed {
				t.Fatalf("%s: reading %q has read %q", text, name, uri)
			}
		}
	})
}
