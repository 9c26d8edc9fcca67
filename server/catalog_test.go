package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func wantCollision(t testing.TB, err error, kind, name string) {
	t.Helper()
	e, ok := errors.AsType[*server.CollisionError](err)
	if !ok || e.Kind.String() != kind || e.Name != name || e.Owner == e.Other || !strings.Contains(err.Error(), e.Owner) || !strings.Contains(err.Error(), e.Other) {
		t.Errorf("the error is %v, want a collision of the %s %q", err, kind, name)
	}
}

// entryOf is one of each kind, by its name, URI or template.
func entryOf(t testing.TB, kind, name string) *server.Entry {
	t.Helper()
	var entry *server.Entry
	var err error
	switch kind {
	case "tool":
		entry, err = server.NewTool(server.Tool{Name: name}, nothing[struct{}])
	case "prompt":
		entry, err = server.NewPrompt(server.Prompt{Name: name}, nothing[struct{}])
	case "resource":
		entry, err = server.NewResource(server.Resource{URI: name}, func(context.Context, *server.Request) (string, error) { return "", nil })
	default:
		entry, err = server.NewTemplate(server.Template{URITemplate: name}, nothing[map[string]string])
	}
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func replace(t testing.TB, s *server.Server, entries ...*server.Entry) {
	t.Helper()
	if err := s.Replace(entries...); err != nil {
		t.Fatal(err)
	}
}

// collisions are names that collide with names of a child mounted as "p_".
var collisions = []struct{ kind, inside, outside string }{
	{"tool", "a", "p_a"}, {"prompt", "a", "p_a"}, {"resource", "app:a", "app:a"}, {"resource template", "app:{x}", "app:{x}"},
}

// TestCollisions checks that a collision is an error in either order and at any depth, and that
// nothing is added.
func TestCollisions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, test := range collisions {
			inside, outside := entryOf(t, test.kind, test.inside), entryOf(t, test.kind, test.outside)
			other := newTool(t, "other", "")
			prefix := &server.MountOptions{Prefix: "p_"}
			for order, collide := range map[string]func(s, child *server.Server) (err error){
				"both, then mounted": func(s, child *server.Server) error {
					replace(t, s, outside)
					replace(t, child, inside, other)
					return s.Mount(child.Provider(), prefix)
				},
				"both, then mounted while serving": func(s, child *server.Server) error {
					connect(t, s, era)
					replace(t, s, outside)
					replace(t, child, inside, other)
					return s.Mount(child.Provider(), prefix)
				},
				"mounted, then outside": func(s, child *server.Server) error {
					replace(t, child, inside)
					mount(t, s, child, "p_")
					return s.Replace(other, outside)
				},
				"two mounted": func(s, child *server.Server) error {
					sibling := newServer(nil)
					replace(t, sibling, outside)
					mount(t, s, sibling, "")
					replace(t, child, inside, other)
					return s.Mount(child.Provider(), prefix)
				},
				"deep, then mounted": func(s, child *server.Server) error {
					middle := newServer(nil)
					replace(t, s, outside)
					replace(t, child, inside, other)
					mount(t, middle, child, "_")
					return s.Mount(middle.Provider(), &server.MountOptions{Prefix: "p"})
				},
			} {
				t.Run(test.kind+" "+order, func(t *testing.T) {
					s, child := newServer(nil), newServer(nil)
					wantCollision(t, collide(s, child), test.kind, test.outside)
					session := connect(t, s, era)
					if names := listed(t, session); len(names) != 1 {
						t.Errorf("listed are %q", names)
					}
				})
			}
		}
	})
}

// TestCollisionsAtStart checks that a collision which appears after the mount fails the start.
func TestCollisionsAtStart(t *testing.T) {
	for _, test := range collisions {
		inside, outside := entryOf(t, test.kind, test.inside), entryOf(t, test.kind, test.outside)
		s, middle, child := newServer(&server.Options{Logger: discardLogger()}), newServer(nil), newServer(nil)
		replace(t, s, outside)
		mount(t, s, middle, "p")
		mount(t, middle, child, "_")
		replace(t, child, inside)
		wantCollision(t, s.Start(t.Context()), test.kind, test.outside)
	}
}

// TestLaterCollisions checks that on a running server the first owner keeps a name, and that the
// collision is logged.
func TestLaterCollisions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, test := range collisions {
			var log bytes.Buffer
			inside, outside := entryOf(t, test.kind, test.inside), entryOf(t, test.kind, test.outside)
			s, middle, child := newServer(&server.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))}), newServer(nil), newServer(nil)
			replace(t, s, outside)
			mount(t, s, middle, "p")
			mount(t, middle, child, "_")
			session := connect(t, s, era)
			listed(t, session)
			for range 2 {
				replace(t, child, inside)
				if names := listed(t, session); !slices.Equal(names, []string{test.outside}) {
					t.Errorf("%s: listed are %q", test.kind, names)
				}
			}
			if n := strings.Count(log.String(), "mount 1"); n != 1 || !strings.Contains(log.String(), "the server itself") {
				t.Errorf("%s: the operator is told %d times: %s", test.kind, n, &log)
			}
			if got := s.Catalog().Collisions(); len(got) != 1 || got[0].Name != test.outside {
				t.Errorf("%s: the collisions are %v", test.kind, got)
			}
			s.Remove(outside.Kind, test.outside)
			if names := listed(t, session); !slices.Equal(names, []string{test.outside}) || len(s.Catalog().Collisions()) > 0 {
				t.Errorf("%s: after the other is gone, listed are %q", test.kind, names)
			}
		}
	})
}

// TestTemplateCoversLaterResources checks that a template keeps its URIs from later parts.
func TestTemplateCoversLaterResources(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, first, second := newServer(&server.Options{Logger: discardLogger()}), newServer(nil), newServer(nil)
		server.AddTemplate(first, server.Template{URITemplate: "app:{x}"}, func(_ context.Context, _ *server.Request, in xIn) (string, error) { return "first " + in.X, nil })
		mount(t, s, first, "")
		mount(t, s, second, "")
		session := connect(t, s, era)
		listed(t, session)
		reads(second, server.Resource{URI: "app:a"}, "second")
		reads(second, server.Resource{URI: "app:b/c"}, "second")
		if names := listed(t, session); !slices.Equal(names, []string{"app:b/c", "app:{x}"}) {
			t.Errorf("listed are %q", names)
		}
		for uri, want := range map[string]string{"app:a": "first a", "app:b/c": "second"} {
			if got, err := raw(t, session, mcp.MethodResourcesRead, `{"uri":"`+uri+`"}`); err != nil || !strings.Contains(got, want) {
				t.Errorf("%s is %s, %v", uri, got, err)
			}
		}
		if got := s.Catalog().Collisions(); len(got) != 1 || got[0].Name != "app:a" || got[0].Owner == got[0].Other {
			t.Errorf("the collisions are %v", got)
		}
	})
}

// TestCollisionPanics checks that the panic names the caller.
func TestCollisionPanics(t *testing.T) {
	s, child := newServer(nil), newServer(nil)
	returns(child, "a", "")
	mount(t, s, child, "p_")
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, ".go:") || !strings.Contains(got, `the tool "p_a" of the server itself is not offered: mount 1`) {
			t.Errorf("the panic is %s", got)
		}
	}()
	returns(s, "p_a", "")
}

// TestNoCollision checks replacing an entry, reusing a removed name, and mounting a child twice.
func TestNoCollision(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, child := newServer(nil), newServer(nil)
		returns(child, "a", "child")
		returns(s, "own", "server")
		mount(t, s, child, "p_")
		mount(t, s, child, "q_")
		replace(t, s, newTool(t, "own", "again"))
		replace(t, child, newTool(t, "a", "again"), newTool(t, "b", ""))
		session := connect(t, s, era)
		for _, tool := range []string{"own", "p_a", "q_a"} {
			if got := textOf(call(t, session, tool, `{}`)); got != "again" {
				t.Errorf("%s says %q", tool, got)
			}
		}
		wantCollision(t, s.Replace(newTool(t, "p_a", "moved")), "tool", "p_a")
		child.Remove(mcp.KindTool, "a")
		replace(t, s, newTool(t, "p_a", "moved"))
		if got := textOf(call(t, session, "p_a", `{}`)); got != "moved" {
			t.Errorf("p_a says %q", got)
		}
	})
}

// TestLongNames checks names that are too long with their prefix: an error of Mount, and later a
// warning.
func TestLongNames(t *testing.T) {
	long, fits := strings.Repeat("x", 127), strings.Repeat("x", 126)
	for _, kind := range []string{"tool", "prompt"} {
		s, child, full := newServer(&server.Options{Logger: discardLogger()}), newServer(nil), newServer(nil)
		replace(t, full, entryOf(t, kind, long))
		if err := s.Mount(full.Provider(), &server.MountOptions{Prefix: "p_"}); err == nil || !strings.Contains(err.Error(), "a name has 1 to 128 characters, not 129") {
			t.Errorf("a %s: the error is %v", kind, err)
		}
		replace(t, child, entryOf(t, kind, fits))
		mount(t, s, child, "p_")
		replace(t, child, entryOf(t, kind, long))
		if got := s.Catalog().Len(mcp.KindTool) + s.Catalog().Len(mcp.KindPrompt); got != 1 {
			t.Errorf("%d %ss are offered", got, kind)
		}
		outer := newServer(nil)
		if err := outer.Mount(s.Provider(), &server.MountOptions{Prefix: "q"}); err == nil || !strings.Contains(err.Error(), "not 129") {
			t.Errorf("a %s: the error is %v", kind, err)
		}
		mount(t, outer, s, "")
	}
}

func newTool(t testing.TB, name, says string) *server.Entry {
	t.Helper()
	entry, err := server.NewTool(server.Tool{Name: name}, func(context.Context, *server.Request, struct{}) (string, error) { return says, nil })
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func newPrompt(t testing.TB, name string) *server.Entry {
	t.Helper()
	entry, err := server.NewPrompt(server.Prompt{Name: name}, nothing[struct{}])
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func toolNames(t testing.TB, session *client.Session) []string {
	t.Helper()
	return collectNames(t, session.Tools(t.Context(), nil), func(tool *mcp.Tool) string { return tool.Name })
}

// collectNames returns the name of each entry of a list.
func collectNames[T any](t testing.TB, list iter.Seq2[*T, error], name func(*T) string) (names []string) {
	t.Helper()
	for entry, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name(entry))
	}
	return names
}

// TestReplace checks that Replace is all or nothing, keeps the order, and notifies once for each
// list.
func TestReplace(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		for _, name := range []string{"a", "b", "c"} {
			returns(s, name, "old "+name)
		}
		server.AddPrompt(s, server.Prompt{Name: "p"}, nothing[struct{}])
		var told []mcp.Change
		session := connectInMemory(t, s, &client.Options{Era: era, OnChange: func(_ context.Context, change mcp.Change) { told = append(told, change) }})
		if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true, PromptsListChanged: true}); err != nil {
			t.Fatal(err)
		}
		wantTold := func(want ...mcp.Change) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(told, want) {
				t.Errorf("the client is told %v, want %v", told, want)
			}
			told = nil
		}
		if err := s.Replace(newTool(t, "b", "new b"), newTool(t, "d", "new d"), newTool(t, "e", "new e"), newPrompt(t, "q")); err != nil {
			t.Fatal(err)
		}
		wantTold(mcp.Change{Kind: mcp.KindTool}, mcp.Change{Kind: mcp.KindPrompt})
		if got, want := toolNames(t, session), []string{"a", "b", "c", "d", "e"}; !slices.Equal(got, want) {
			t.Errorf("the tools are %q, want %q", got, want)
		}
		if got := textOf(call(t, session, "b", `{}`)); got != "new b" {
			t.Errorf("b says %q", got)
		}
		if err := s.Replace(newTool(t, "f", ""), newTool(t, "f", "")); err == nil {
			t.Error("the same tool twice is no error")
		}
		wantTold()
		s.Remove(mcp.KindTool, "a", "c", "unknown")
		wantTold(mcp.Change{Kind: mcp.KindTool})
		if got, want := toolNames(t, session), []string{"b", "d", "e"}; !slices.Equal(got, want) {
			t.Errorf("the tools are %q, want %q", got, want)
		}
		s.Remove(mcp.KindTool, "a")
		s.Remove(mcp.KindPrompt, "unknown")
		wantTold()
		if err := s.Replace(); err != nil {
			t.Error(err)
		}
		wantTold()
	})
}

// TestRemoveAll checks that removed entries are neither listed nor called.
func TestRemoveAll(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		reads(s, server.Resource{URI: "app:r"}, "")
		server.AddTemplate(s, server.Template{URITemplate: "app:t/{x}"}, nothing[map[string]string])
		session := connect(t, s, era)
		s.Remove(mcp.KindResource, "app:r")
		s.Remove(mcp.KindResourceTemplate, "app:t/{x}")
		for _, uri := range []string{"app:r", "app:t/1"} {
			if _, err := session.ReadResource(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("reading %s gives %v", uri, err)
			}
		}
		for resource, err := range session.Resources(t.Context(), nil) {
			t.Errorf("there is %v, %v", resource, err)
		}
		for template, err := range session.Templates(t.Context(), nil) {
			t.Errorf("there is %v, %v", template, err)
		}
	})
}

// TestRegisterWhileServing is for the race detector.
func TestRegisterWhileServing(t *testing.T) {
	s := newServer(nil)
	returns(s, "steady", "yes")
	var work sync.WaitGroup
	for i := range 4 {
		work.Go(func() {
			for j := range 50 {
				name := fmt.Sprintf("tool-%d-%d", i, j)
				if err := s.Replace(newTool(t, name, name)); err != nil {
					t.Error(err)
				}
				s.ResourceUpdated("app:x")
				s.Remove(mcp.KindTool, name)
			}
		})
	}
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session := connect(t, s, era)
		work.Go(func() {
			for range 50 {
				if got := textOf(call(t, session, "steady", `{}`)); got != "yes" {
					t.Errorf("the tool says %q", got)
				}
				if names := toolNames(t, session); names[0] != "steady" {
					t.Errorf("the tools are %q", names)
				}
			}
		})
	}
	work.Wait()
}

// TestCollisionNamesTheTemplate: a resource that an earlier template covers is not offered,
// so a collision of a third part names the owner of the template.
func TestCollisionNamesTheTemplate(t *testing.T) {
	part := func(owner, kind, name string) server.Part {
		return server.Part{Owner: owner, Catalog: server.NewCatalog([]*server.Entry{entryOf(t, kind, name)}, nil)}
	}
	merged := server.Merge(nil, part("template", "resource template", "app:{x}"), part("covered", "resource", "app:a"), part("third", "resource", "app:a"))
	for i, owner := range []string{"covered", "third"} {
		if got := merged.Collisions()[i]; got.Owner != owner || got.Other != "template" {
			t.Errorf("the collision is %+v, want one of %q with %q", got, owner, "template")
		}
	}
}
