package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// hintOf is how long and by whom what is read may be kept, as the client is told.
func hintOf(t testing.TB, session *client.Session, uri string) string {
	t.Helper()
	result, err := raw(t, session, mcp.MethodResourcesRead, fmt.Sprintf(`{"uri":%q}`, uri))
	if err != nil {
		t.Fatalf("reading %s: %v", uri, err)
	}
	var said struct {
		TTL   any `json:"ttlMs"`
		Scope any `json:"cacheScope"`
	}
	if err := json.Unmarshal([]byte(result), &said); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(said.TTL, " ", said.Scope)
}

func wantHint(t testing.TB, session *client.Session, era client.Era, uri, want string) {
	t.Helper()
	if era == client.Legacy {
		want = "<nil> <nil>" // older versions have no cache hints
	}
	if got := hintOf(t, session, uri); got != want {
		t.Errorf("%s may be kept %s, want %s", uri, got, want)
	}
}

var minutePublic = mcp.CacheHint{TTLMs: 60_000, Scope: mcp.CachePublic}

// An atlas is a service with resources that may be kept.
type atlas struct{}

type atlasMapIn struct {
	_ server.ResourceTag `uri:"atlas:map" ttl:"1m" cache:"public"`
}

type atlasPageIn struct {
	_ server.ResourceTag `uri:"atlas:pages/{n}" ttl:"1500ms"`
	N int                `json:"n"`
}

func (atlas) Map(context.Context, atlasMapIn) (string, error) { return "here", nil }

func (atlas) Page(_ context.Context, in atlasPageIn) (*mcp.ReadResourceResult, error) {
	return &mcp.ReadResourceResult{
		Contents:  []mcp.ResourceContents{&mcp.TextResourceContents{URI: "atlas:page", Text: "text"}},
		CacheHint: mcp.CacheHint{TTLMs: int64(in.N)},
	}, nil
}

// TestCacheHints: what is read may be kept as its resource says, unless the result
// itself says something else.
func TestCacheHints(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		own := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{}, CacheHint: mcp.CacheHint{TTLMs: 1000}}
		reads(s, server.Resource{URI: "app:unsaid"}, "")
		reads(s, server.Resource{URI: "app:text", CacheHint: minutePublic}, "")
		reads(s, server.Resource{URI: "app:json", CacheHint: minutePublic}, map[string]int{})
		reads(s, server.Resource{URI: "app:long", CacheHint: mcp.CacheHint{TTLMs: 60_000}}, "")
		reads(s, server.Resource{URI: "app:shared", CacheHint: mcp.CacheHint{Scope: mcp.CachePublic}}, "")
		reads(s, server.Resource{URI: "app:own", CacheHint: minutePublic}, own)
		reads(s, server.Resource{URI: "app:own/unsaid"}, own)
		reads(s, server.Resource{URI: "app:own/private", CacheHint: minutePublic}, &mcp.ReadResourceResult{CacheHint: mcp.CacheHint{Scope: mcp.CachePrivate}})
		reads(s, server.Resource{URI: "app:own/never", CacheHint: minutePublic}, &mcp.ReadResourceResult{CacheHint: mcp.CacheHint{TTLMs: -1}})
		server.AddTemplate(s, server.Template{URITemplate: "app:t/{x}", CacheHint: minutePublic}, nothing[xIn])
		server.AddService(s, atlas{})
		session := connect(t, s, era)
		for uri, want := range map[string]string{
			"app:unsaid":         "0 private",
			"app:text":           "60000 public",
			"app:json":           "60000 public",
			"app:long":           "60000 private",
			"app:shared":         "0 public",
			"app:own":            "1000 public",
			"app:own/unsaid":     "1000 private",
			"app:own/private":    "60000 private",
			"app:own/never":      "0 public",
			"app:t/1":            "60000 public",
			"atlas:map":          "60000 public",
			"atlas:pages/0":      "1500 private",
			"atlas:pages/700000": "700000 private",
		} {
			wantHint(t, session, era, uri, want)
		}
		if own.CacheHint != (mcp.CacheHint{TTLMs: 1000}) {
			t.Errorf("what the function returned is changed: %+v", own.CacheHint)
		}
	})
}

// TestReadBehindGuardsIsPrivate: a shared cache would serve it to callers that a guard
// refuses, wherever the guard stands and whoever calls it public.
func TestReadBehindGuardsIsPrivate(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		guarded := guarded(mcp.Guard{Name: "any", Check: allow})
		public := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{}, CacheHint: minutePublic}
		replaced := func(uri string, with mcp.Result) server.Resource {
			return server.Resource{URI: uri, Guards: guarded.Guards, CallMiddleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
				return func(context.Context, *mcp.Call) (mcp.Result, error) { return with, nil }
			}}}
		}
		fill := func(s *server.Server, around surround) *server.Server {
			reads(s, server.Resource{URI: "app:declared", CacheHint: minutePublic, Guards: around.Guards}, "")
			reads(s, server.Resource{URI: "app:own", Guards: around.Guards}, public)
			server.AddTemplate(s, server.Template{URITemplate: "app:t/{x}", CacheHint: minutePublic, Guards: around.Guards}, nothing[xIn])
			return s
		}
		mounting := func(child *server.Server, around surround) *server.Server {
			s := newServer(around.options())
			shutsDown(t, s)
			if err := s.Mount(child.Provider(), nil); err != nil {
				t.Fatal(err)
			}
			return s
		}
		wantAll := func(where string, s *server.Server, want string) {
			t.Helper()
			session := connect(t, s, era)
			for _, uri := range []string{"app:declared", "app:own", "app:t/1"} {
				t.Run(where+" "+uri, func(t *testing.T) { wantHint(t, session, era, uri, want) })
			}
		}
		wantAll("nowhere", mounting(fill(newServer(nil), surround{}), surround{}), "60000 public")
		wantAll("entry", fill(newServer(nil), guarded), "60000 private")
		wantAll("server", fill(newServer(guarded.options()), surround{}), "60000 private")
		wantAll("child", mounting(fill(newServer(guarded.options()), surround{}), surround{}), "60000 private")
		wantAll("mounting server", mounting(fill(newServer(nil), surround{}), guarded), "60000 private")
		if public.CacheHint != minutePublic {
			t.Errorf("what the function returned is changed: %+v", public.CacheHint)
		}

		s := newServer(nil)
		for uri, result := range map[string]string{
			"raw:plain":   `{"contents":[],"ttlMs":60000,"cacheScope":"public"}`,
			"raw:escaped": `{"contents":[],"ttlMs":60000,"cache\u0053cope":"p\u0075blic"}`,
			"raw:strange": `{"contents":[],"ttlMs":60000,"cacheScope":"PUBLIC"}`,
			"raw:inside":  `{"contents":[{"uri":"a:b","text":"\"cacheScope\":\"public\""}],"ttlMs":60000}`,
		} {
			reads(s, replaced(uri, mcp.Raw(result)), "")
		}
		reads(s, replaced("raw:typed", appended{mcp.Raw(`{"contents":[],"ttlMs":60000,"cacheScope":"public"}`)}), "")
		session := connect(t, s, era)
		for _, uri := range []string{"raw:plain", "raw:escaped", "raw:strange", "raw:inside", "raw:typed"} {
			wantHint(t, session, era, uri, "60000 private")
		}
	})
}

// appended is a result of a type of a program's own.
type appended struct{ mcp.Result }

// TestRefusedCacheHints: what clients would misread is not registered.
func TestRefusedCacheHints(t *testing.T) {
	for says, hint := range map[string]mcp.CacheHint{
		"0 or more milliseconds, not -1":             {TTLMs: -1},
		`"private" or "public", not "shared"`:        {Scope: "shared"},
		`the scope is "private" or "public", not "P`: {Scope: "Public"},
	} {
		_, err := server.NewResource(server.Resource{URI: "app:r", CacheHint: hint}, func(context.Context, *server.Request) (string, error) { return "", nil })
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: the resource's error is %v, want it to say %s", hint, err, says)
		}
		_, err = server.NewTemplate(server.Template{URITemplate: "app:t/{x}", CacheHint: hint}, nothing[xIn])
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: the template's error is %v, want it to say %s", hint, err, says)
		}
	}
}
