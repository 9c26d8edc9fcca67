package client_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Entries of skills are cached until they expire or the list of resources changes.
func TestSkillsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		hint := mcp.CacheHint{TTLMs: time.Hour.Milliseconds()}
		s := newServer(&server.Options{CacheHint: hint, Middleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				calls.Add(1)
				return next(ctx, call)
			}
		}}})
		entry := func(description string) *server.Entry {
			e, err := server.NewSkill(server.Skill{
				URI: "skill://pdf/SKILL.md", Dynamic: true, CacheHint: hint, Frontmatter: json.RawMessage(`{"name":"pdf","description":"` + description + `"}`),
			})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		if err := s.Replace(entry("old")); err != nil {
			t.Fatal(err)
		}
		session := connect(t, transport.Pipe(s), client.Options{Era: client.Modern})
		if _, err := session.Subscribe(t.Context(), mcp.SubscriptionFilter{ResourcesListChanged: true}); err != nil {
			t.Fatal(err)
		}
		read := func() (descriptions []string) {
			for range 2 {
				for skill, err := range session.Skills(t.Context(), nil) {
					if err != nil {
						t.Fatal(err)
					}
					descriptions = append(descriptions, skill.Description())
				}
				skill, err := session.GetSkill(t.Context(), "skill://pdf/SKILL.md", nil)
				if err != nil {
					t.Fatal(err)
				}
				descriptions = append(descriptions, skill.Description())
			}
			return descriptions
		}
		for i, description := range []string{"old", "new"} {
			if i > 0 {
				if err := s.Replace(entry(description)); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			if got := read(); !slices.Equal(got, slices.Repeat([]string{description}, 4)) {
				t.Errorf("got %q, want %q", got, description)
			}
			if want := int64(2 * (i + 1)); calls.Load() != want {
				t.Errorf("%d calls, want %d", calls.Load(), want)
			}
		}
	})
}

// An entry that is no skill is skipped, and the others are kept.
func TestInvalidSkillIsSkipped(t *testing.T) {
	s := newServer(nil)
	skill := func(uri, definition string) *server.Entry {
		return &server.Entry{
			Target: mcp.Target{Kind: mcp.KindSkill, Name: uri, Definition: mcp.NewDefinition(json.RawMessage(definition))},
			Handle: func(context.Context, *mcp.Call) (mcp.Result, error) {
				return mcp.Raw(`{"skill":` + definition + `}`), nil
			},
		}
	}
	err := s.Replace(skill("skill://a/SKILL.md", `{"uri":"skill://a/SKILL.md","frontmatter":{}}`),
		skill("skill://b/SKILL.md", `{"uri":"skill://b/SKILL.md","frontmatter":{},"resources":"dynamic"}`))
	if err != nil {
		t.Fatal(err)
	}
	session := connect(t, transport.Pipe(s), client.Options{Era: client.Modern})
	var listed []string
	for skill, err := range session.Skills(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, skill.URI)
	}
	if !slices.Equal(listed, []string{"skill://b/SKILL.md"}) {
		t.Errorf("listed %q", listed)
	}
	if got, err := session.GetSkill(t.Context(), "skill://a/SKILL.md", nil); err == nil {
		t.Errorf("got %+v of an entry without resources", got)
	}
}
