package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

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

// collisions are names that collide with those of a child mounted as "p_".
var collisions = []struct{ kind, inside, outside string }{
	{"tool", "a", "p_a"}, {"prompt", "a", "p_a"}, {"resource", "app:a", "app:a"}, {"resource template", "app:{x}", "app:{x}"},
}

// TestCollisions are errors when a server is put together, whichever of the two comes first
// and however deep it is, and nothing of what is refused is there.
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

// TestCollisionsAtStart: what collides because of what came after the mount is an error
// when the server starts.
func TestCollisionsAtStart(t *testing.T) {
	for _, test := range collisions {
		inside, outside := entryOf(t, test.kind, test.inside), entryOf(t, test.kind, test.outside)
		s, middle, child := newServer(&server.Options{Logger: quiet()}), newServer(nil), newServer(nil)
		replace(t, s, outside)
		mount(t, s, middle, "p")
		mount(t, middle, child, "_")
		replace(t, child, inside)
		wantCollision(t, s.Start(t.Context()), test.kind, test.outside)
	}
}

// TestLaterCollisions: in a server that serves, the part that had a name first keeps it. The
// entry of the other is not offered, and the operator's log names both.
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

// TestTemplateCoversLaterResources: a later part cannot take a URI that the template of an
// earlier part matches.
func TestTemplateCoversLaterResources(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, first, second := newServer(&server.Options{Logger: quiet()}), newServer(nil), newServer(nil)
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

// TestCollisionPanics where start-up code registers, naming the place.
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

// TestNoCollision: what was there already may be replaced, what was removed may come
// from elsewhere, and one child may be mounted twice.
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
			if got := texts(call(t, session, tool, `{}`)); got != "again" {
				t.Errorf("%s says %q", tool, got)
			}
		}
		wantCollision(t, s.Replace(newTool(t, "p_a", "moved")), "tool", "p_a")
		child.Remove(mcp.KindTool, "a")
		replace(t, s, newTool(t, "p_a", "moved"))
		if got := texts(call(t, session, "p_a", `{}`)); got != "moved" {
			t.Errorf("p_a says %q", got)
		}
	})
}

// TestLongNames: a prefix makes no name longer than names may be. At mounting that is an
// error; an entry that comes later is not offered.
func TestLongNames(t *testing.T) {
	long, fits := strings.Repeat("x", 127), strings.Repeat("x", 126)
	for _, kind := range []string{"tool", "prompt"} {
		s, child, full := newServer(&server.Options{Logger: quiet()}), newServer(nil), newServer(nil)
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
