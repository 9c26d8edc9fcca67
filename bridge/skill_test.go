package bridge_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/client/skills"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// contentOf is the content of a file of the server.
func contentOf(server, uri string) string {
	if path, ok := strings.CutSuffix(uri, "/SKILL.md"); ok {
		name := path[strings.LastIndexByte(path, '/')+1:]
		return "---\nname: " + name + "\ndescription: of " + server + "\n---\n"
	}
	return server + " has " + uri
}

// skillOf returns a skill of a server, with files by their paths.
func skillOf(of, path string, files ...string) server.Skill {
	name := path[strings.LastIndexByte(path, '/')+1:]
	skill := server.Skill{URI: "skill://" + path + "/SKILL.md", Frontmatter: json.RawMessage(fmt.Sprintf(`{"name":%q,"description":"of %s"}`, name, of))}
	for _, file := range append([]string{"SKILL.md"}, files...) {
		uri := "skill://" + path + "/" + file
		content := contentOf(of, uri)
		skill.Resources = append(skill.Resources, mcp.SkillResource{URI: uri, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))), Size: int64(len(content))})
	}
	return skill
}

// addFiles registers a resource for each file of a skill.
func addFiles(s *server.Server, of string, skill server.Skill) {
	for _, file := range skill.Resources {
		server.AddResource(s, server.Resource{URI: file.URI, Name: file.URI[strings.LastIndexByte(file.URI, '/')+1:], MIMEType: "text/markdown"},
			func(context.Context, *server.Request) (string, error) { return contentOf(of, file.URI), nil })
	}
}

// unlisted returns a middleware that removes resources from the list of a server, which can still be read.
func unlisted(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if call.Method() == mcp.MethodResourcesList {
			return &mcp.ListResourcesResult{}, nil
		}
		return next(ctx, call)
	}
}

// listedSkills returns the skills that a session lists.
func listedSkills(t *testing.T, session *client.Session) (all []string) {
	t.Helper()
	for skill, err := range session.Skills(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, skill.URI+" "+skill.Description())
	}
	return all
}

// Skills of several servers are merged. Their files are read at the server that has the skill, listed
// as resources or not.
func TestSkillsOfServers(t *testing.T) {
	one, two := newServer("one"), server.New(mcp.Implementation{Name: "two", Version: "1"}, &server.Options{Logger: quiet(), Middleware: []mcp.Middleware{unlisted}})
	pdf, same, other := skillOf("one", "pdf", "ref/a.md"), skillOf("two", "pdf", "ref/late.md"), skillOf("two", "acme/refunds", "b.md")
	server.AddSkill(one, pdf)
	addFiles(one, "one", pdf)
	for _, skill := range []server.Skill{same, other} {
		server.AddSkill(two, skill)
		addFiles(two, "two", skill)
	}
	daily := skillOf("two", "daily")
	daily.Resources, daily.Dynamic = nil, true
	daily.Directory = func(context.Context, *server.Request, string) ([]mcp.Resource, error) {
		return []mcp.Resource{{URI: "skill://daily/today.md", Name: "today.md"}}, nil
	}
	server.AddSkill(two, daily)
	server.AddTemplate(two, server.Template{URITemplate: "skill://daily/{file}"}, func(_ context.Context, r *server.Request, in map[string]string) (string, error) {
		return contentOf("two", "skill://daily/"+in["file"]), nil
	})
	log := &recordChannel{wrote: make(chan string, 100)}
	b, err := bridge.New(&bridge.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, bridge.Config{Alias: "one", Dialer: pipeTo(one)}, bridge.Config{Alias: "two", Dialer: pipeTo(two)})
	if err != nil {
		t.Fatal(err)
	}
	session := connect(t, pipeTo(mount(t, b)), client.Options{Era: client.Modern})

	if got, want := listedSkills(t, session), []string{"skill://pdf/SKILL.md of one", "skill://acme/refunds/SKILL.md of two", "skill://daily/SKILL.md of two"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	for uri, files := range map[string][]string{"skill://pdf/SKILL.md": {"SKILL.md", "ref/a.md"}, "skill://acme/refunds/SKILL.md": {"SKILL.md", "b.md"}, "skill://daily/SKILL.md": {"SKILL.md", "today.md"}} {
		skill, err := skills.Get(t.Context(), session, uri, &skills.Options{Dynamic: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if got, err := skill.Read(t.Context(), name); err != nil {
				t.Errorf("%s of %s: %q, %v", name, uri, got, err)
			}
		}
	}
	for uri, want := range map[string][]string{
		"skill://pdf": {"skill://pdf/SKILL.md", "skill://pdf/ref"}, "skill://acme": {"skill://acme/refunds"},
		"skill://acme/refunds": {"skill://acme/refunds/SKILL.md", "skill://acme/refunds/b.md"}, "skill://daily": {"skill://daily/today.md"},
	} {
		var got []string
		for child, err := range session.Directory(t.Context(), uri, nil) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, child.URI)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the directory %s: %q, want %q", uri, got, want)
		}
	}
	for _, uri := range []string{"skill://pdf/ref/none.md", "skill://pdf/ref/late.md", "skill://none/SKILL.md"} {
		if _, err := session.ReadResource(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("%s: %v, want that it does not exist", uri, err)
		}
	}
	if _, err := session.GetSkill(t.Context(), "skill://none/SKILL.md", nil); !mcp.IsResourceNotFound(err) {
		t.Errorf("an unknown skill: %v", err)
	}
	var refused []string
	for len(log.wrote) > 0 {
		if record := waittest.Receive(t, "the line in the log", log.wrote); strings.Contains(record, "not offered") {
			refused = append(refused, record)
		}
	}
	if len(refused) != 1 || !strings.Contains(refused[0], "skill://pdf/SKILL.md") || !strings.Contains(refused[0], "two") {
		t.Errorf("logged %q, want that the skill of the second server is not offered", refused)
	}
}

// A server that does not declare that it lists directories is not asked to.
func TestDirectoryIsNotDeclared(t *testing.T) {
	daily := skillOf("one", "daily")
	daily.Resources, daily.Dynamic = nil, true
	asked := false
	daily.Directory = func(context.Context, *server.Request, string) ([]mcp.Resource, error) {
		asked = true
		return nil, nil
	}
	s := server.New(mcp.Implementation{Name: "one", Version: "1"}, &server.Options{Capabilities: &mcp.ServerCapabilities{
		Resources: &mcp.ResourcesCapability{}, Extensions: map[string]json.RawMessage{mcp.ExtensionSkills: json.RawMessage(`{}`)},
	}})
	server.AddSkill(s, daily)
	if _, err := s.Serve(t.Context(), newCall(t, mcp.MethodDirectoryRead, `{"uri":"skill://daily"}`)); err != nil || !asked {
		t.Fatalf("the server itself: %v", err)
	}
	asked = false
	session := connect(t, pipeTo(mount(t, bridge.Proxy(pipeTo(s), &bridge.ProxyOptions{Logger: quiet()}))), client.Options{Era: client.Modern})
	var err error
	for _, err = range session.Directory(t.Context(), "skill://daily", nil) {
		break
	}
	if refused, ok := errors.AsType[*jsonrpc.Error](err); !ok || refused.Code != jsonrpc.InvalidParams || asked {
		t.Errorf("%v, asked %v", err, asked)
	}
}

// A legacy server has no skills, and its resources are offered as before.
func TestSkillsOfLegacyServer(t *testing.T) {
	s := newServer("old")
	pdf := skillOf("old", "pdf")
	server.AddSkill(s, pdf)
	addFiles(s, "old", pdf)
	frontend := mount(t, bridge.Proxy(pipeTo(s), &bridge.ProxyOptions{Era: client.Legacy, Logger: quiet()}))
	session := connect(t, pipeTo(frontend), client.Options{Era: client.Modern})
	for _, err := range session.Skills(t.Context(), nil) {
		if !errors.Is(err, client.ErrNoSkills) {
			t.Errorf("skills/list: %v", err)
		}
	}
	if result, err := session.ReadResource(t.Context(), "skill://pdf/SKILL.md", nil); err != nil || result.Text() != contentOf("old", "skill://pdf/SKILL.md") {
		t.Errorf("%+v, %v", result, err)
	}
}

// A changed skill of a server is a changed list of resources.
func TestSkillsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("one")
		server.AddSkill(s, skillOf("one", "pdf"))
		changes := make(chan mcp.Change, 10)
		session := connect(t, pipeTo(mount(t, bridge.Proxy(pipeTo(s), &bridge.ProxyOptions{Logger: quiet()}))), client.Options{
			Era: client.Modern, OnChange: func(_ context.Context, change mcp.Change) { changes <- change },
		})
		if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourcesListChanged: true}); err != nil {
			t.Fatal(err)
		}
		advance(time.Second)
		changed, err := server.NewSkill(skillOf("one", "pdf", "more.md"))
		if err == nil {
			err = s.Replace(changed)
		}
		if err != nil {
			t.Fatal(err)
		}
		advance(time.Second)
		synctest.Wait()
		if len(changes) != 1 || <-changes != (mcp.Change{Kind: mcp.KindResource}) {
			t.Errorf("%d changes, want one of the list of resources", len(changes))
		}
		if skill, err := session.GetSkill(t.Context(), "skill://pdf/SKILL.md", nil); err != nil || len(skill.Resources) != 2 {
			t.Errorf("%+v, %v", skill, err)
		}
	})
}

// Select leaves out a skill, and its files that are not listed as resources.
func TestSkillIsNotSelected(t *testing.T) {
	s := server.New(mcp.Implementation{Name: "one", Version: "1"}, &server.Options{Middleware: []mcp.Middleware{unlisted}})
	for _, path := range []string{"pdf", "refunds"} {
		skill := skillOf("one", path)
		server.AddSkill(s, skill)
		addFiles(s, "one", skill)
	}
	frontend := mount(t, bridge.Proxy(pipeTo(s), &bridge.ProxyOptions{Logger: quiet(), Select: func(kind mcp.Kind, name string) bool {
		return kind != mcp.KindSkill || strings.Contains(name, "refunds")
	}}))
	session := connect(t, pipeTo(frontend), client.Options{Era: client.Modern})
	if got := listedSkills(t, session); !slices.Equal(got, []string{"skill://refunds/SKILL.md of one"}) {
		t.Errorf("listed %q", got)
	}
	for uri, ok := range map[string]bool{"skill://pdf/SKILL.md": false, "skill://refunds/SKILL.md": true} {
		if _, err := session.ReadResource(t.Context(), uri, nil); ok != (err == nil) || !ok && !mcp.IsResourceNotFound(err) {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
