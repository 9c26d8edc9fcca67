package mcp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/mcp"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// skillTypes are the types of the extension for skills, which is in no official schema.
var skillTypes = map[string]struct {
	empty func() codec
	text  string
}{
	"Skill":               {of[mcp.Skill], `{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a", "x":1.0},"resources":[{"uri":"skill://a/SKILL.md","digest":"d","size":3,"y":1}],"_meta":{"m":1},"z":[ ]}`},
	"dynamic skill":       {of[mcp.Skill], `{"uri":"skill://a/SKILL.md","frontmatter":{},"resources":"dynamic"}`},
	"SkillsCapability":    {of[mcp.SkillsCapability], `{"directoryRead":true,"z":1}`},
	"ListSkillsResult":    {of[mcp.ListSkillsResult], `{"skills":[{"uri":"u","frontmatter":{},"resources":[]}],"nextCursor":"c","ttlMs":1,"cacheScope":"public"}`},
	"GetSkillParams":      {of[mcp.GetSkillParams], `{"uri":"u","_meta":{"m":1},"z":1}`},
	"GetSkillResult":      {of[mcp.GetSkillResult], `{"skill":{"uri":"u","frontmatter":{},"resources":[]},"ttlMs":1,"cacheScope":"public","resultType":"complete","_meta":{"m":1},"z":1}`},
	"ReadDirectoryParams": {of[mcp.ReadDirectoryParams], `{"uri":"u","cursor":"c","_meta":{"m":1},"z":1}`},
}

func TestSkillTypes(t *testing.T) {
	for name, c := range skillTypes {
		value := c.empty()
		if err := value.UnmarshalJSON([]byte(c.text)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		encoded, err := appendTo(nil, value)
		if err != nil || !equalJSON(t, encoded, []byte(c.text)) {
			t.Errorf("%s: %s, %v, want %s", name, encoded, err, c.text)
		}
		again := c.empty()
		if err := json.Unmarshal(encoded, again); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(value, again); diff != "" {
			t.Errorf("%s changes on its way:\n%s", name, diff)
		}
	}
}

func TestSkillDecoding(t *testing.T) {
	for text, pointer := range map[string]string{
		`{"uri":"u","frontmatter":{},"resources":null}`:                             "/resources",
		`{"uri":"u","frontmatter":{}}`:                                              "/resources",
		`{"uri":"u","frontmatter":{},"resources":"static"}`:                         "/resources",
		`{"uri":"u","frontmatter":{},"resources":{}}`:                               "/resources",
		`{"uri":"u","frontmatter":{},"resources":[3]}`:                              "/resources/0",
		`{"uri":"u","frontmatter":{},"resources":[{"uri":"a","size":1.5}]}`:         "/resources/0/size",
		`{"uri":"u","frontmatter":[],"resources":[]}`:                               "/frontmatter",
		`{"uri":"u","resources":[]}`:                                                "/frontmatter",
		`{"uri":1,"frontmatter":{},"resources":[]}`:                                 "/uri",
		`{"uri":"u","frontmatter":{"a":1,"a":2},"resources":[]}`:                    "",
		`{"uri":"u","frontmatter":{},"resources":[{"uri":"a","uri":"b","size":1}]}`: "",
	} {
		err := new(mcp.Skill).UnmarshalJSON([]byte(text))
		if invalid, ok := errors.AsType[*mcp.DecodeError](err); !ok || pointer != "" && invalid.Pointer != pointer {
			t.Errorf("%s: %v, want an error at %s", text, err, pointer)
		}
	}
	if err := new(mcp.GetSkillResult).UnmarshalJSON([]byte(`{"ttlMs":1}`)); err == nil {
		t.Error("a result without a skill was accepted")
	}
}

func validSkill() *mcp.Skill {
	return &mcp.Skill{
		URI: "skill://acme/pdf/SKILL.md", Frontmatter: json.RawMessage(`{"name":"pdf","description":"Fills forms"}`),
		Resources: []mcp.SkillResource{{URI: "skill://acme/pdf/SKILL.md", Digest: digest, Size: 1}, {URI: "skill://acme/pdf/ref/a%20b.md", Digest: digest}},
	}
}

func TestSkillValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *mcp.Skill)
		want   string
	}{
		"valid":           {func(*mcp.Skill) {}, ""},
		"dynamic":         {func(s *mcp.Skill) { s.Dynamic, s.Resources = true, nil }, ""},
		"dynamic files":   {func(s *mcp.Skill) { s.Dynamic = true }, "list of files"},
		"no SKILL.md":     {func(s *mcp.Skill) { s.URI = "skill://acme/pdf" }, "form"},
		"no scheme":       {func(s *mcp.Skill) { s.URI = "acme/pdf/SKILL.md" }, "form"},
		"no path":         {func(s *mcp.Skill) { s.URI = "skill:///SKILL.md" }, "form"},
		"dots":            {func(s *mcp.Skill) { s.URI = "skill://acme/../pdf/SKILL.md" }, `segment ".."`},
		"query":           {func(s *mcp.Skill) { s.URI = "skill://acme?x/pdf/SKILL.md" }, "query"},
		"other name":      {func(s *mcp.Skill) { s.Frontmatter = json.RawMessage(`{"name":"pdg","description":"x"}`) }, "must be equal"},
		"no description":  {func(s *mcp.Skill) { s.Frontmatter = json.RawMessage(`{"name":"pdf","description":" "}`) }, "no description"},
		"name no string":  {func(s *mcp.Skill) { s.Frontmatter = json.RawMessage(`{"name":3,"description":"x"}`) }, "1 to 64"},
		"outside":         {func(s *mcp.Skill) { s.Resources[1].URI = "skill://acme/pdfx/a.md" }, "not below"},
		"outside by dots": {func(s *mcp.Skill) { s.Resources[1].URI = "skill://acme/pdf/../x.md" }, `segment ".."`},
		"encoded dots":    {func(s *mcp.Skill) { s.Resources[1].URI = "skill://acme/pdf/%2e%2E/x.md" }, "segment"},
		"encoded slash":   {func(s *mcp.Skill) { s.Resources[1].URI = "skill://acme/pdf/a%2fb" }, "segment"},
		"bad escape":      {func(s *mcp.Skill) { s.Resources[1].URI = "skill://acme/pdf/%zz" }, "segment"},
		"fragment":        {func(s *mcp.Skill) { s.Resources[1].URI = "skill://acme/pdf/a#b" }, "fragment"},
		"twice":           {func(s *mcp.Skill) { s.Resources[1].URI = s.URI }, "twice"},
		"incomplete":      {func(s *mcp.Skill) { s.Resources = s.Resources[1:] }, "not in the list"},
		"negative":        {func(s *mcp.Skill) { s.Resources[1].Size = -1 }, "size is -1"},
		"upper digest":    {func(s *mcp.Skill) { s.Resources[1].Digest = strings.ToUpper(digest) }, "sha256"},
		"short digest":    {func(s *mcp.Skill) { s.Resources[1].Digest = digest[:70] }, "sha256"},
	} {
		skill := validSkill()
		c.change(skill)
		err := skill.Validate()
		_, typed := errors.AsType[*mcp.SkillError](err)
		if (c.want == "") != (err == nil) || err != nil && (!typed || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for name, ok := range map[string]bool{
		"a": true, "a-b-2": true, "0": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "": false, "-a": false, "a-": false, "a--b": false, "A": false, "a_b": false, "ä": false, "a b": false,
	} {
		skill := &mcp.Skill{URI: "skill://" + name + "/SKILL.md", Dynamic: true, Frontmatter: json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"d"}`, name))}
		if err := skill.Validate(); ok != (err == nil) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

// An entry of a peer never panics, and what is valid can be sent on.
func FuzzSkill(f *testing.F) {
	for _, c := range skillTypes {
		f.Add([]byte(c.text))
	}
	valid, err := validSkill().MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Fuzz(func(t *testing.T, text []byte) {
		var skill mcp.Skill
		if skill.UnmarshalJSON(text) != nil || skill.Validate() != nil {
			return
		}
		encoded, err := skill.MarshalJSON()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var again mcp.Skill
		if err := again.UnmarshalJSON(encoded); err != nil || again.Validate() != nil {
			t.Fatalf("%s: %v, %v", encoded, err, again.Validate())
		}
		if name := skill.Name(); !strings.HasSuffix(skill.Root(), "/"+name) || strings.ContainsAny(name, "/.") {
			t.Fatalf("the name %q of %q", name, skill.URI)
		}
	})
}
