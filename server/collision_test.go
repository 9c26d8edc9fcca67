package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/server"
)

func wantCollision(t testing.TB, err error, kind, name string) {
	t.Helper()
	e, ok := errors.AsType[*server.CollisionError](err)
	if !ok || e.Kind != kind || e.Name != name {
		t.Errorf("the error is %v, want a collision of the %s %q", err, kind, name)
	}
}

// entryOf is one of each kind, by its name, URI or template.
func entryOf(t testing.TB, kind, name string) server.Entry {
	t.Helper()
	var entry server.Entry
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

func replace(t testing.TB, s *server.Server, entries ...server.Entry) {
	t.Helper()
	if err := s.Replace(entries...); err != nil {
		t.Fatal(err)
	}
}

// collisions are names that collide with those of a child mounted as "p_".
var collisions = []struct{ kind, inside, outside string }{
	{"tool", "a", "p_a"}, {"prompt", "a", "p_a"}, {"resource", "app:a", "app:a"}, {"resource template", "app:{x}", "app:{x}"},
}

// TestCollisions are errors, whichever of the two comes first and however deep it is,
// and nothing of what is refused is there.
func TestCollisions(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, test := range collisions {
			inside, outside := entryOf(t, test.kind, test.inside), entryOf(t, test.kind, test.outside)
			other := newTool(t, "other", "")
			for order, collide := range map[string]func(s, child *server.Server) (err error){
				"both, then mounted": func(s, child *server.Server) error {
					replace(t, s, outside)
					replace(t, child, inside, other)
					return s.Mount(child, "p_")
				},
				"both, then mounted while serving": func(s, child *server.Server) error {
					connect(t, s, era)
					replace(t, s, outside)
					replace(t, child, inside, other)
					return s.Mount(child, "p_")
				},
				"mounted, then outside": func(s, child *server.Server) error {
					replace(t, child, inside)
					mount(t, s, child, "p_")
					return s.Replace(other, outside)
				},
				"mounted, then inside": func(s, child *server.Server) error {
					replace(t, s, outside)
					mount(t, s, child, "p_")
					return child.Replace(other, inside)
				},
				"two mounted": func(s, child *server.Server) error {
					sibling := newServer(nil)
					replace(t, sibling, outside)
					mount(t, s, sibling, "")
					replace(t, child, inside, other)
					return s.Mount(child, "p_")
				},
				"two mounted, then inside": func(s, child *server.Server) error {
					sibling := newServer(nil)
					replace(t, sibling, outside)
					mount(t, s, sibling, "")
					mount(t, s, child, "p_")
					return child.Replace(other, inside)
				},
				"deep, then mounted": func(s, child *server.Server) error {
					middle := newServer(nil)
					replace(t, s, outside)
					replace(t, child, inside, other)
					mount(t, middle, child, "_")
					return s.Mount(middle, "p")
				},
				"mounted, then deep": func(s, child *server.Server) error {
					middle := newServer(nil)
					replace(t, s, outside)
					mount(t, s, middle, "p")
					replace(t, child, inside, other)
					return middle.Mount(child, "_")
				},
				"mounted, then deep inside": func(s, child *server.Server) error {
					middle := newServer(nil)
					replace(t, s, outside)
					mount(t, s, middle, "p")
					mount(t, middle, child, "_")
					return child.Replace(other, inside)
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

// TestCollisionPanics where start-up code registers, naming the place.
func TestCollisionPanics(t *testing.T) {
	s, child := newServer(nil), newServer(nil)
	returns(child, "a", "")
	mount(t, s, child, "p_")
	returns(s, "p_b", "")
	for name, add := range map[string]func(){"p_a": func() { returns(s, "p_a", "") }, "p_b": func() { returns(child, "b", "") }} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, ".go:") || !strings.Contains(got, fmt.Sprintf("there are two of the tool %q", name)) {
					t.Errorf("the panic is %s", got)
				}
			}()
			add()
		}()
	}
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
		child.RemoveTools("a")
		replace(t, s, newTool(t, "p_a", "moved"))
		if got := texts(call(t, session, "p_a", `{}`)); got != "moved" {
			t.Errorf("p_a says %q", got)
		}
		wantCollision(t, child.Replace(newTool(t, "a", "")), "tool", "p_a")
	})
}

// TestLongNames: a prefix makes no name longer than names may be, whenever it comes.
func TestLongNames(t *testing.T) {
	long, fits := strings.Repeat("x", 127), strings.Repeat("x", 126)
	for _, kind := range []string{"tool", "prompt"} {
		s, child, full := newServer(nil), newServer(nil), newServer(nil)
		replace(t, full, entryOf(t, kind, long))
		if err := s.Mount(full, "p_"); err == nil || !strings.Contains(err.Error(), "a name has 1 to 128 characters, not 129") {
			t.Errorf("a %s: the error is %v", kind, err)
		}
		replace(t, child, entryOf(t, kind, fits))
		mount(t, s, child, "p_")
		if err := child.Replace(entryOf(t, kind, long)); err == nil || !strings.Contains(err.Error(), "not 129") {
			t.Errorf("a %s: the error is %v", kind, err)
		}
		outer := newServer(nil)
		if err := outer.Mount(s, "q"); err == nil || !strings.Contains(err.Error(), "not 129") {
			t.Errorf("a %s: the error is %v", kind, err)
		}
		mount(t, outer, s, "")
	}
}
