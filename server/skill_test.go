package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

const fileDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// skillOf returns a skill with files, by their paths.
func skillOf(path string, files ...string) server.Skill {
	name := path[strings.LastIndexByte(path, '/')+1:]
	skill := server.Skill{URI: "skill://" + path + "/SKILL.md", Frontmatter: json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"about %s"}`, name, name))}
	for _, file := range append([]string{"SKILL.md"}, files...) {
		skill.Resources = append(skill.Resources, mcp.SkillResource{URI: "skill://" + path + "/" + file, Digest: fileDigest, Size: 1})
	}
	return skill
}

// addFile registers a file of a skill.
func addFile(s *server.Server, uri string, guards ...mcp.Guard) {
	server.AddResource(s, server.Resource{URI: uri, Name: uri[strings.LastIndexByte(uri, '/')+1:], MIMEType: "text/markdown", Guards: guards},
		func(context.Context, *server.Request) (string, error) { return "of " + uri, nil })
}

func connectModern(t *testing.T, s *server.Server) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: client.Modern})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// children returns the URIs in a directory, directories with a slash, or an error.
func children(t *testing.T, session *client.Session, uri string) (uris []string, err error) {
	t.Helper()
	for child, err := range session.Directory(t.Context(), uri, nil) {
		if err != nil {
			return nil, err
		}
		if child.Name != child.URI[strings.LastIndexByte(child.URI, '/')+1:] {
			t.Errorf("%s has the name %q", child.URI, child.Name)
		}
		if child.MIMEType == mcp.MIMEDirectory {
			child.URI += "/"
		}
		uris = append(uris, child.URI)
	}
	return uris, nil
}

func hiding(name string) mcp.Guard {
	return mcp.Guard{Name: name, Visible: func(context.Context, *mcp.Caller, *mcp.Target) bool { return false }}
}

func TestSkills(t *testing.T) {
	s := newServer(nil)
	server.AddSkill(s, skillOf("acme/pdf", "ref/a.md", "ref/deep/b.md", "ref/c.md", "nested/SKILL.md"))
	server.AddSkill(s, skillOf("acme/pdf/nested"))
	hidden := skillOf("acme/secret")
	hidden.Guards = []mcp.Guard{hiding("h")}
	server.AddSkill(s, hidden)
	for _, uri := range []string{"skill://acme/pdf/SKILL.md", "skill://acme/pdf/ref/a.md", "skill://acme/pdf/ref/deep/b.md"} {
		addFile(s, uri)
	}
	addFile(s, "skill://acme/pdf/ref/c.md", hiding("f"))
	session := connectModern(t, s)

	var listed []string
	for skill, err := range session.Skills(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, fmt.Sprint(skill.Name(), " ", skill.Description(), " ", len(skill.Resources)))
	}
	if want := []string{"pdf about pdf 5", "nested about nested 1"}; !slices.Equal(listed, want) {
		t.Errorf("listed %q, want %q", listed, want)
	}
	got, err := session.GetSkill(t.Context(), "skill://acme/pdf/nested/SKILL.md", nil)
	if err != nil || got.Name() != "nested" || got.Validate() != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, uri := range []string{"skill://acme/secret/SKILL.md", "skill://acme/none/SKILL.md", "skill://acme/pdf/ref/a.md", ""} {
		_, err := session.GetSkill(t.Context(), uri, nil)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.InvalidParams {
			t.Errorf("the skill %q: %v, want invalid params", uri, err)
		}
	}

	for uri, want := range map[string][]string{
		"skill://acme/pdf":          {"skill://acme/pdf/SKILL.md", "skill://acme/pdf/ref/", "skill://acme/pdf/nested/"},
		"skill://acme/pdf/ref":      {"skill://acme/pdf/ref/a.md", "skill://acme/pdf/ref/deep/"}, // c.md is hidden
		"skill://acme/pdf/ref/deep": {"skill://acme/pdf/ref/deep/b.md"},
		"skill://acme/pdf/nested":   {"skill://acme/pdf/nested/SKILL.md"},
		"skill://acme":              {"skill://acme/pdf/"},
	} {
		got, err := children(t, session, uri)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", uri, got, err, want)
		}
	}
	for _, uri := range []string{
		"skill://acme/pdf/SKILL.md", "skill://acme/pdf/", "skill://acme/pdf/none", "skill://acme/secret", "skill://none", "", "skill:/", "skill:", "skill://acme/pd", "skill://acme/pdf/ref/a.md/x",
		"skill://" + strings.Repeat("a/", 100),
	} {
		_, err := children(t, session, uri)
		if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.InvalidParams {
			t.Errorf("the directory %q: %v, want invalid params", uri, err)
		}
	}
	if _, err := session.Call(t.Context(), mcp.MethodDirectoryRead, json.RawMessage(`{"uri":3}`), nil); err == nil {
		t.Error("a number is no directory")
	}
}

// A page of a directory has as many entries as a page of a list.
func TestDirectoryPages(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "s", Version: "1"}, &server.Options{PageSize: 2})
	server.AddSkill(s, skillOf("pdf", "a.md", "b.md", "c/d.md"))
	session := connectModern(t, s)
	want := []string{"skill://pdf/SKILL.md", "skill://pdf/a.md", "skill://pdf/b.md", "skill://pdf/c/"}
	if got, err := children(t, session, "skill://pdf"); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	page, err := session.Call(t.Context(), mcp.MethodDirectoryRead, json.RawMessage(`{"uri":"skill://pdf"}`), nil)
	var result mcp.ListResourcesResult
	if err != nil || result.UnmarshalJSON(page) != nil || len(result.Resources) != 2 || result.NextCursor == nil || *result.Resources[1].Size != 1 {
		t.Errorf("the first page: %s, %v", page, err)
	}
	if _, err := session.Call(t.Context(), mcp.MethodDirectoryRead, json.RawMessage(`{"uri":"skill://pdf","cursor":"none"}`), nil); err == nil {
		t.Error("an unknown cursor was accepted")
	}
}

func TestDynamicSkill(t *testing.T) {
	s := newServer(nil)
	skill := skillOf("daily")
	skill.Dynamic, skill.Resources = true, nil
	skill.CacheHint = mcp.CacheHint{TTLMs: 5000, Scope: mcp.CachePublic}
	skill.Directory = func(_ context.Context, _ *server.Request, uri string) ([]mcp.Resource, error) {
		if uri != "skill://daily" {
			return nil, mcp.ResourceNotFound(uri)
		}
		return []mcp.Resource{{URI: "skill://daily/SKILL.md", Name: "SKILL.md"}, {URI: "skill://daily/logs", Name: "logs", MIMEType: mcp.MIMEDirectory}}, nil
	}
	server.AddSkill(s, skill)
	without := skillOf("weekly")
	without.Dynamic, without.Resources = true, nil
	without.CacheHint = skill.CacheHint
	refuses := mcp.Guard{Name: "g", Check: func(context.Context, *mcp.Call) error { return nil }}
	without.Guards = []mcp.Guard{refuses}
	server.AddSkill(s, without)
	session := connectModern(t, s)
	got, err := session.GetSkill(t.Context(), "skill://daily/SKILL.md", nil)
	if err != nil || !got.Dynamic {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := children(t, session, "skill://daily"); err != nil || !slices.Equal(got, []string{"skill://daily/SKILL.md", "skill://daily/logs/"}) {
		t.Errorf("the directory: %q, %v", got, err)
	}
	for _, uri := range []string{"skill://daily/none", "skill://weekly"} {
		if _, err := children(t, session, uri); !mcp.IsResourceNotFound(err) {
			t.Errorf("%s: %v, want that it does not exist", uri, err)
		}
	}
	for uri, scope := range map[string]string{"skill://daily/SKILL.md": "public", "skill://weekly/SKILL.md": "private"} {
		result, err := session.Call(t.Context(), mcp.MethodSkillsGet, json.RawMessage(`{"uri":"`+uri+`"}`), nil)
		if err != nil || !strings.Contains(string(result), `"cacheScope":"`+scope+`"`) || !strings.Contains(string(result), `"ttlMs":5000`) {
			t.Errorf("%s: %s, %v, want the scope %s", uri, result, err, scope)
		}
	}
}

// A list has the hint of the server, a skill its own or none, and a directory none.
func TestSkillCacheHints(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "s", Version: "1"}, &server.Options{CacheHint: mcp.CacheHint{TTLMs: 7000, Scope: mcp.CachePublic}})
	server.AddSkill(s, skillOf("pdf"))
	session := connectModern(t, s)
	for _, c := range []struct{ method, params, ttl, scope string }{
		{mcp.MethodSkillsList, `{}`, "7000", `"public"`}, {mcp.MethodSkillsGet, `{"uri":"skill://pdf/SKILL.md"}`, "0", `"private"`},
		{mcp.MethodDirectoryRead, `{"uri":"skill://pdf"}`, "", ""},
	} {
		result, err := session.Call(t.Context(), c.method, json.RawMessage(c.params), nil)
		var got struct{ TTLMs, CacheScope json.RawMessage }
		if err != nil || json.Unmarshal(result, &got) != nil || string(got.TTLMs) != c.ttl || string(got.CacheScope) != c.scope {
			t.Errorf("%s: %s, %v, want %s and %s", c.method, result, err, c.ttl, c.scope)
		}
	}
}

func TestInvalidSkills(t *testing.T) {
	for name, change := range map[string]func(*server.Skill){
		"no SKILL.md":  func(s *server.Skill) { s.URI = "skill://a" },
		"another name": func(s *server.Skill) { s.URI = "skill://b/SKILL.md" },
		"no files":     func(s *server.Skill) { s.Resources = nil },
		"directory of a list": func(s *server.Skill) {
			s.Directory = func(context.Context, *server.Request, string) ([]mcp.Resource, error) { return nil, nil }
		},
		"too many bytes": func(s *server.Skill) { s.Resources[0].Size = mcp.MaxSkillBytes + 1 },
		"too many bytes again": func(s *server.Skill) {
			s.Resources[0].Size = 1 << 62
			s.Resources = append(s.Resources, mcp.SkillResource{URI: "skill://a/x", Digest: fileDigest, Size: 1 << 62})
		},
		"too many files": func(s *server.Skill) {
			for i := range mcp.MaxSkillResources {
				s.Resources = append(s.Resources, mcp.SkillResource{URI: fmt.Sprintf("skill://a/%d", i), Digest: fileDigest})
			}
		},
	} {
		skill := skillOf("a")
		change(&skill)
		if _, err := server.NewSkill(skill); !isSkillError(err) {
			t.Errorf("%s: %v, want a SkillError", name, err)
		}
	}
	skill := skillOf("a")
	skill.CacheHint.TTLMs = -1
	if _, err := server.NewSkill(skill); err == nil {
		t.Error("an invalid hint was accepted")
	}
}

func isSkillError(err error) bool {
	_, ok := errors.AsType[*mcp.SkillError](err)
	return ok
}

// Before 2026-07-28 there are no extensions: a client sees resources.
func TestSkillsInLegacyEra(t *testing.T) {
	s := newServer(nil)
	server.AddSkill(s, skillOf("pdf"))
	addFile(s, "skill://pdf/SKILL.md")
	session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: client.Legacy})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.GetSkill(t.Context(), "skill://pdf/SKILL.md", nil); !errors.Is(err, client.ErrNoSkills) {
		t.Errorf("skills/get: %v", err)
	}
	for _, err := range session.Skills(t.Context(), nil) {
		if !errors.Is(err, client.ErrNoSkills) {
			t.Errorf("skills/list: %v", err)
		}
	}
	for _, err := range session.Directory(t.Context(), "skill://pdf", nil) {
		if !errors.Is(err, client.ErrNoSkills) {
			t.Errorf("resources/directory/read: %v", err)
		}
	}
	result, err := session.ReadResource(t.Context(), "skill://pdf/SKILL.md", nil)
	if err != nil || result.Text() != "of skill://pdf/SKILL.md" {
		t.Errorf("%+v, %v", result, err)
	}
}

// Files of a skill that are not listed as resources are read by the skill, unless an earlier part or a
// filter has their URIs.
func TestSkillMatchesFiles(t *testing.T) {
	entry := func(kind mcp.Kind, name, definition, says string, match func(string) bool) *server.Entry {
		return &server.Entry{
			Target: mcp.Target{Kind: kind, Name: name, Definition: mcp.NewDefinition(json.RawMessage(definition))},
			Handle: func(_ context.Context, call *mcp.Call) (mcp.Result, error) {
				return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{&mcp.TextResourceContents{URI: call.URI(), Text: says + " " + call.Target().Kind.String()}}}, nil
			},
			Match: match,
		}
	}
	below := func(root string) func(string) bool {
		return func(uri string) bool { return strings.HasPrefix(uri, root) }
	}
	skill := func(path, says string) *server.Entry {
		return entry(mcp.KindSkill, path+"/SKILL.md", `{"uri":"`+path+`/SKILL.md","frontmatter":{},"resources":"dynamic"}`, says, below(path+"/"))
	}
	resource := func(uri, says string) *server.Entry {
		return entry(mcp.KindResource, uri, `{"uri":"`+uri+`","name":"r"}`, says, nil)
	}
	template := entry(mcp.KindResourceTemplate, "skill://{+x}", `{"uriTemplate":"skill://{+x}","name":"t"}`, "t", below("skill://"))
	first := server.NewCatalog([]*server.Entry{skill("skill://a", "first"), resource("skill://a/listed.md", "first"), resource("skill://a/dropped.md", "first")}, nil)
	first = first.Map(func(e *server.Entry) *server.Entry {
		if strings.HasSuffix(e.Name, "/dropped.md") {
			return nil
		}
		return e
	}).Map(func(e *server.Entry) *server.Entry { return e })
	second := server.NewCatalog([]*server.Entry{skill("skill://b", "second"), resource("skill://a/late.md", "second"), template}, nil)
	merged := server.Merge(nil, server.Part{Owner: "1", Catalog: first}, server.Part{Owner: "2", Catalog: second})
	for uri, want := range map[string]string{
		"skill://a/listed.md": "resource skill://a/listed.md", "skill://a/other.md": "skill skill://a/SKILL.md", "skill://a/late.md": "skill skill://a/SKILL.md",
		"skill://b/x.md": "resource template skill://{+x}", "skill://c/x.md": "resource template skill://{+x}",
	} {
		if e := merged.Lookup(mcp.KindResource, uri); e == nil || e.Kind.String()+" "+e.Name != want {
			t.Errorf("%s: %+v, want the %s", uri, e, want)
		}
	}
	if e := first.Lookup(mcp.KindResource, "skill://a/dropped.md"); e != nil {
		t.Errorf("a dropped file was found: %v", e.Name)
	}
	if got := merged.Collisions(); len(got) != 1 || got[0].Name != "skill://a/late.md" {
		t.Errorf("collisions %v", got)
	}
	s := newServer(nil)
	if err := s.Replace(slices.Collect(merged.All(mcp.KindSkill))...); err != nil {
		t.Fatal(err)
	}
	result, err := connectModern(t, s).ReadResource(t.Context(), "skill://a/x.md", nil)
	if err != nil || result.Text() != "first skill" {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestSkillScopes(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "s", Version: "1"}, &server.Options{Scopes: []string{"all"}})
	skill := skillOf("pdf")
	skill.Scopes = []string{"pdf"}
	server.AddSkill(s, skill)
	for _, c := range []struct {
		method, uri string
		want        []string
	}{
		{mcp.MethodSkillsGet, "skill://pdf/SKILL.md", []string{"all", "pdf"}}, {mcp.MethodDirectoryRead, "skill://pdf/x", []string{"all", "pdf"}},
		{mcp.MethodDirectoryRead, "skill://none", []string{"all"}}, {mcp.MethodSkillsGet, "skill://none", []string{"all"}}, {mcp.MethodSkillsList, "", nil},
	} {
		if got := s.Scopes(c.method, c.uri); !slices.Equal(got, c.want) {
			t.Errorf("%s %s: %q, want %q", c.method, c.uri, got, c.want)
		}
	}
}
