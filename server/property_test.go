package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/everywhere"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const compositions, fewCompositions = 300, 60 // the latter with -short

// TestCompositions composes providers at random, by Map, Merge and Mount, and compares what a
// server makes of them with the model. The seed of a composition is in the name of its test:
// run TestCompositions/seed_7 to have it again.
func TestCompositions(t *testing.T) {
	rounds := compositions
	if testing.Short() {
		rounds = fewCompositions
	}
	for seed := range uint64(rounds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c := &composer{Rand: rand.New(rand.NewPCG(seed, 0)), t: t}
			era, depth, pageSize := client.Legacy, c.IntN(4), max(0, c.IntN(5)-1)
			if c.IntN(2) == 0 && everywhere.CarriesModern() {
				era = client.Modern
			}
			s, want := c.serve(pageSize, []composed{c.build(depth)})
			shutsDown(t, s)
			if err := s.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkCatalog(t, s, want)
			for _, as := range []string{"staff", "guest"} {
				session, staff := connectAs(t, s, era, as), as == "staff"
				checkLists(t, session, want, staff, pageSize)
				for _, key := range want.keys() {
					c.checkCalls(session, want, key, staff)
				}
				c.checkSubscriptions(session, era, want, staff)
				if t.Failed() {
					t.Fatalf("this was for the %s, era %v, depth %d, pages of %d", as, era, depth, pageSize)
				}
			}
		})
	}
}

// checkCatalog: what is listed or resolved is found by its name, with its definition and all
// scopes, and what is gone is not.
func checkCatalog(t *testing.T, s *server.Server, want *wantCatalog) {
	for _, key := range want.keys() {
		e, w := s.Catalog().Lookup(key.kind, key.name), want.find(key)
		var err error
		if e == nil {
			e, err = s.Catalog().Resolve(t.Context(), key.kind, key.name)
		}
		switch {
		case err != nil || (e == nil) != (w == nil):
			t.Errorf("the %v %q is found: %t, %v; want %t", key.kind, key.name, e != nil, err, w != nil)
		case w != nil && (e.Kind != w.kind || e.Name != w.name || string(e.Definition.JSON()) != w.definition || !slices.Equal(sorted(e.Scopes), sorted(w.scopes))):
			t.Errorf("the %v %q is %+v %s, want %+v", key.kind, key.name, e.Target, e.Definition.JSON(), *w)
		}
	}
}

func sorted(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// checkLists: a list is the definitions of what its reader may see, byte by byte and in order,
// and its pages are full.
func checkLists(t *testing.T, session *client.Session, want *wantCatalog, staff bool, pageSize int) {
	for kind, list := range map[mcp.Kind]struct{ method, member string }{
		mcp.KindTool: {mcp.MethodToolsList, "tools"}, mcp.KindPrompt: {mcp.MethodPromptsList, "prompts"},
		mcp.KindResource: {mcp.MethodResourcesList, "resources"}, mcp.KindResourceTemplate: {mcp.MethodResourceTemplatesList, "resourceTemplates"},
	} {
		var pages, definitions []string
		for params := `{}`; params != ""; {
			text, err := raw(t, session, list.method, params)
			var result map[string]json.RawMessage
			var entries []json.RawMessage
			if err = errors.Join(err, json.Unmarshal([]byte(text), &result), json.Unmarshal(result[list.member], &entries)); err != nil {
				t.Fatalf("%s: %s, %v", list.method, text, err)
			}
			if params = ""; result["nextCursor"] != nil {
				params = `{"cursor":` + string(result["nextCursor"]) + `}`
			}
			if n := len(entries); params != "" && n != pageSize || pageSize > 0 && n > pageSize || n == 0 && len(pages) > 0 || len(pages) > len(want.listed) {
				t.Fatalf("%s: page %d, of up to %d, is %s", list.method, len(pages)+1, pageSize, text)
			}
			pages = append(pages, strings.Trim(string(result[list.member]), "[]"))
		}
		for _, e := range want.listed {
			if e.kind == kind && !e.hides(staff) {
				definitions = append(definitions, e.definition)
			}
		}
		if got, want := strings.Join(pages, ","), strings.Join(definitions, ","); got != want {
			t.Errorf("%s: listed is\n%s, want\n%s", list.method, got, want)
		}
	}
}

// checkCalls: a call by a name, and its completion, ask all guards and reach the function that
// has the name, or none.
func (c *composer) checkCalls(session *client.Session, want *wantCatalog, key wantKey, staff bool) {
	check := func(method, params string, steps []string, answer string) {
		c.t.Helper()
		c.passed.take()
		result, err := raw(c.t, session, method, params)
		if got := c.passed.take(); !slices.Equal(got, steps) {
			c.t.Errorf("%s %s: asked are %q, want %q", method, params, got, steps)
		}
		if (err == nil) != (answer != "") || !strings.Contains(result, answer) {
			c.t.Errorf("%s %s: the answer is %s, %v, want %q", method, params, result, err, answer)
		}
	}
	complete := func(ref string) {
		steps, seen := want.find(key).asked(staff, false)
		var answer string
		if seen {
			var more []string
			more, answer = want.find(key).call(staff)
			steps = append(steps, more...)
		}
		check(mcp.MethodComplete, `{"ref":{"type":"ref/`+ref+`":"`+key.name+`"},"argument":{"name":"x","value":""}}`, steps, answer)
	}
	steps, answer := want.find(key).call(staff)
	switch key.kind {
	case mcp.KindTool:
		check(mcp.MethodToolsCall, `{"name":"`+key.name+`","arguments":{}}`, steps, answer)
	case mcp.KindPrompt:
		check(mcp.MethodPromptsGet, `{"name":"`+key.name+`"}`, steps, answer)
		complete(`prompt","name`)
	case mcp.KindResource:
		check(mcp.MethodResourcesRead, `{"uri":"`+key.uri()+`"}`, steps, answer)
	case mcp.KindResourceTemplate:
		steps, answer = want.find(wantKey{mcp.KindResource, key.uri()}).call(staff)
		check(mcp.MethodResourcesRead, `{"uri":"`+key.uri()+`"}`, steps, answer)
		complete(`resource","uri`)
	}
}

// checkSubscriptions: resources are agreed to if their reader may see them, after all guards
// have been asked.
func (c *composer) checkSubscriptions(session *client.Session, era client.Era, want *wantCatalog, staff bool) {
	has := session.Capabilities().Resources
	for _, key := range want.keys() {
		if key.uri() == "" || has == nil {
			continue
		}
		steps, agreed := want.find(wantKey{mcp.KindResource, key.uri()}).asked(staff, true)
		c.passed.take()
		var err error
		if era == client.Modern {
			err = subscribed(c.t.Context(), session, key.uri())
		} else {
			_, err = raw(c.t, session, mcp.MethodResourcesSubscribe, `{"uri":"`+key.uri()+`"}`)
			_, _ = raw(c.t, session, mcp.MethodResourcesUnsubscribe, `{"uri":"`+key.uri()+`"}`)
		}
		if got := slices.Compact(c.passed.take()); !slices.Equal(got, steps) || agreed && err != nil || !agreed && !mcp.IsResourceNotFound(err) {
			c.t.Errorf("subscribing to %s gives %v, and asked are %q; want %t, %q", key.uri(), err, got, agreed, steps)
		}
	}
}
