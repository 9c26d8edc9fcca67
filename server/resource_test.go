package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

func reads[Out any](s *server.Server, resource server.Resource, out Out) {
	server.AddResource(s, resource, func(context.Context, *server.Request) (Out, error) { return out, nil })
}

// contents returns the contents of a resource as JSON.
func contents(t testing.TB, session *client.Session, uri string) string {
	t.Helper()
	result, err := session.ReadResource(t.Context(), uri, nil)
	if err != nil {
		t.Fatalf("reading %s: %v", uri, err)
	}
	var all []string
	for _, c := range result.Contents {
		one, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(one))
	}
	return strings.Join(all, "\n")
}

func TestResources(t *testing.T) {
	s := newServer(nil)
	reads(s, server.Resource{URI: "app:text", MIMEType: "text/plain"}, "text")
	reads(s, server.Resource{URI: "app:blob", MIMEType: "image/png"}, []byte{0, 255})
	reads[mcp.ResourceContents](s, server.Resource{URI: "app:own", MIMEType: "text/plain"}, &mcp.TextResourceContents{URI: "app:own#1", Text: "x"})
	reads(s, server.Resource{URI: "app:several"}, []mcp.ResourceContents{
		&mcp.TextResourceContents{URI: "app:a", Text: "a"}, &mcp.BlobResourceContents{URI: "app:b", Blob: []byte("b")},
	})
	reads(s, server.Resource{URI: "app:result"}, &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{&mcp.TextResourceContents{URI: "app:c", Text: "c"}}})
	reads(s, server.Resource{URI: "app:json"}, map[string]int{"b": 2, "a": 1})
	reads(s, server.Resource{URI: "app:list", MIMEType: "application/vnd.list+json"}, []int{1, 2})
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, s, era)
		wantContents(t, session, map[string]string{
			"app:text":    `{"uri":"app:text","mimeType":"text/plain","text":"text"}`,
			"app:blob":    `{"uri":"app:blob","mimeType":"image/png","blob":"AP8="}`,
			"app:own":     `{"uri":"app:own#1","text":"x"}`,
			"app:several": `{"uri":"app:a","text":"a"}` + "\n" + `{"uri":"app:b","blob":"Yg=="}`,
			"app:result":  `{"uri":"app:c","text":"c"}`,
			"app:json":    `{"uri":"app:json","mimeType":"application/json","text":"{\"a\":1,\"b\":2}"}`,
			"app:list":    `{"uri":"app:list","mimeType":"application/vnd.list+json","text":"[1,2]"}`,
		})
	})
}

// A resource or template may be a path. It is listed, read and subscribed to under that path.
func TestPathsAsURIs(t *testing.T) {
	s := newServer(nil)
	reads(s, server.Resource{URI: "/reports", Name: "reports"}, "all")
	reads(s, server.Resource{URI: "/reports/2026?draft=1"}, []byte{1})
	server.AddTemplate(s, server.Template{URITemplate: "/reports/{name}"}, func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
		return vars["name"], nil
	})
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, s, era)
		wantContents(t, session, map[string]string{
			"/reports":              `{"uri":"/reports","mimeType":"text/plain","text":"all"}`,
			"/reports/2026?draft=1": `{"uri":"/reports/2026?draft=1","mimeType":"application/octet-stream","blob":"AQ=="}`,
			"/reports/may":          `{"uri":"/reports/may","mimeType":"text/plain","text":"may"}`,
		})
		for method, want := range map[string]string{
			mcp.MethodResourcesList:         `"resources":[{"uri":"/reports","name":"reports","mimeType":"text/plain"},{"uri":"/reports/2026?draft=1","name":"/reports/2026?draft=1"}]`,
			mcp.MethodResourceTemplatesList: `"resourceTemplates":[{"uriTemplate":"/reports/{name}","name":"/reports/{name}","mimeType":"text/plain"}]`,
		} {
			if got, err := raw(t, session, method, "{}"); err != nil || !strings.Contains(got, want) {
				t.Errorf("%s: %s, %v, want %s", method, got, err, want)
			}
		}
	})
	for _, uri := range []string{"", "reports", "//host/reports", "?reports", "#reports", "./reports"} {
		_, err := server.NewResource(server.Resource{URI: uri}, func(context.Context, *server.Request) (string, error) { return "", nil })
		if err == nil {
			t.Errorf("the URI %q is accepted", uri)
		}
	}
}

// wantContents checks the contents of resources by URI.
func wantContents(t *testing.T, session *client.Session, all map[string]string) {
	t.Helper()
	for uri, want := range all {
		if got := contents(t, session, uri); got != want {
			t.Errorf("%s holds %s, want %s", uri, got, want)
		}
	}
}

func TestResourceErrors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddResource(s, server.Resource{URI: "app:broken"}, func(context.Context, *server.Request) (string, error) {
			return "", errors.New("the disk is gone")
		})
		reads[*mcp.ReadResourceResult](s, server.Resource{URI: "app:nil"}, nil)
		reads(s, server.Resource{URI: "app:channel"}, make(chan int))
		session := connect(t, s, era)
		_, err := session.ReadResource(t.Context(), "app:broken", nil)
		wantCode(t, err, jsonrpc.InternalError)
		if !strings.Contains(err.Error(), "the disk is gone") {
			t.Errorf("the reason is lost: %v", err)
		}
		_, err = session.ReadResource(t.Context(), "app:unknown", nil)
		if !mcp.IsResourceNotFound(err) {
			t.Errorf("an unknown resource is %v", err)
		}
		for _, uri := range []string{"app:nil", "app:channel"} {
			_, err = session.ReadResource(t.Context(), uri, nil)
			wantCode(t, err, jsonrpc.InternalError)
		}
	})
}

type fileVars struct {
	Owner string   `json:"owner"`
	N     int      `json:"n"`
	Deep  *bool    `json:"deep,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}

func TestTemplates(t *testing.T) {
	s := newServer(nil)
	reads(s, server.Resource{URI: "app:o/1"}, "the resource itself")
	server.AddTemplate(s, server.Template{URITemplate: "app:{owner}/{n}{?deep,tags*}", MIMEType: "text/plain"},
		func(_ context.Context, _ *server.Request, vars fileVars) (fileVars, error) { return vars, nil })
	server.AddTemplate(s, server.Template{URITemplate: "app:{+path}"},
		func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
			return "path " + vars["path"], nil
		})
	server.AddTemplate(s, server.Template{URITemplate: "none:{x}"},
		func(_ context.Context, _ *server.Request, vars struct {
			X string `json:"x"`
		}) (string, error) {
			return "", mcp.ResourceNotFound("none:" + vars.X)
		})
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, s, era)
		for uri, want := range map[string]string{
			"app:o/1":                    `"text":"the resource itself"`,
			"app:o/2":                    `"text":"{\"owner\":\"o\",\"n\":2}"`,
			"app:a%20b/2":                `"text":"{\"owner\":\"a b\",\"n\":2}"`,
			"app:o/2?deep=true":          `"text":"{\"owner\":\"o\",\"n\":2,\"deep\":true}"`,
			"app:o/2?tags=a&tags=b":      `"text":"{\"owner\":\"o\",\"n\":2,\"tags\":[\"a\",\"b\"]}"`,
			"app:o/2/3":                  `"text":"path o/2/3"`, // the first template that fits
			"app:o/-9223372036854775808": `-9223372036854775808`,
		} {
			if got := contents(t, session, uri); !strings.Contains(got, want) {
				t.Errorf("%s holds %s, want %s", uri, got, want)
			}
		}
		for _, uri := range []string{"app:o/two", "app:o/2?deep=perhaps", "app:o/9223372036854775808"} {
			_, err := session.ReadResource(t.Context(), uri, nil)
			wantCode(t, err, jsonrpc.InvalidParams)
			if mcp.IsResourceNotFound(err) && era == client.Legacy {
				t.Errorf("%s is taken for a resource that does not exist", uri)
			}
		}
		for _, uri := range []string{"none:1", "other:1", "none:{x}"} {
			if _, err := session.ReadResource(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("reading %s gives %v", uri, err)
			}
		}
	})
}

// hintOf returns the cache hint that a client gets.
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

// An atlas is a service with resources that may be cached.
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

// TestCacheHints checks that a result overrides the hint of its resource.
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

// TestReadBehindGuardsIsPrivate checks that content behind a guard is never public.
func TestReadBehindGuardsIsPrivate(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		guarded := withGuard(mcp.Guard{Name: "any", Check: allow})
		public := &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{}, CacheHint: minutePublic}
		replaced := func(uri string, with mcp.Result) server.Resource {
			return server.Resource{URI: uri, Guards: guarded.Guards, CallMiddleware: []mcp.Middleware{func(mcp.Handler) mcp.Handler {
				return func(context.Context, *mcp.Call) (mcp.Result, error) { return with, nil }
			}}}
		}
		fill := func(s *server.Server, around options) *server.Server {
			reads(s, server.Resource{URI: "app:declared", CacheHint: minutePublic, Guards: around.Guards}, "")
			reads(s, server.Resource{URI: "app:own", Guards: around.Guards}, public)
			server.AddTemplate(s, server.Template{URITemplate: "app:t/{x}", CacheHint: minutePublic, Guards: around.Guards}, nothing[xIn])
			return s
		}
		mounting := func(child *server.Server, around options) *server.Server {
			s := newServer(around.options())
			shutDownAtEnd(t, s)
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
		wantAll("nowhere", mounting(fill(newServer(nil), options{}), options{}), "60000 public")
		wantAll("entry", fill(newServer(nil), guarded), "60000 private")
		wantAll("server", fill(newServer(guarded.options()), options{}), "60000 private")
		wantAll("child", mounting(fill(newServer(guarded.options()), options{}), options{}), "60000 private")
		wantAll("mounting server", mounting(fill(newServer(nil), options{}), guarded), "60000 private")
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

// An appended is a result of a program's own type.
type appended struct{ mcp.Result }

// TestRefusedCacheHints checks that invalid hints are rejected.
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

// TestContentsWithoutURI checks that contents without a URI get the URI of the request, and that the
// function's value stays unchanged.
func TestContentsWithoutURI(t *testing.T) {
	blob, text := &mcp.BlobResourceContents{Blob: []byte("b")}, &mcp.TextResourceContents{Text: "t", MIMEType: "text/plain"}
	part := &mcp.TextResourceContents{URI: "app:part", Text: "p"}
	both := []mcp.ResourceContents{blob, part, text}
	result := &mcp.ReadResourceResult{Contents: both}
	child := newServer(nil)
	for uri, add := range map[string]func(s *server.Server, resource server.Resource, template server.Template){
		"blob": addReading(blob), "text": addReading(text), "any": addReading[mcp.ResourceContents](blob), "list": addReading(both), "result": addReading(result),
	} {
		add(child, server.Resource{URI: "app:" + uri}, server.Template{URITemplate: "app:" + uri + "/{x}"})
	}
	s := newServer(withGuard(mcp.Guard{Check: allow}).options())
	mount(t, s, child, "c_")
	eachEra(t, func(t *testing.T, era client.Era) {
		for _, s := range []*server.Server{child, s} {
			session := connect(t, s, era)
			for range 2 {
				for _, below := range []string{"", "/1", "/a%20b"} {
					for kind, want := range map[string]string{
						"blob": `{"uri":"app:blob` + below + `","blob":"Yg=="}`,
						"text": `{"uri":"app:text` + below + `","mimeType":"text/plain","text":"t"}`,
						"any":  `{"uri":"app:any` + below + `","blob":"Yg=="}`,
						"list": `{"uri":"app:list` + below + `","blob":"Yg=="}` + "\n" + `{"uri":"app:part","text":"p"}` + "\n" +
							`{"uri":"app:list` + below + `","mimeType":"text/plain","text":"t"}`,
						"result": `{"uri":"app:result` + below + `","blob":"Yg=="}` + "\n" + `{"uri":"app:part","text":"p"}` + "\n" +
							`{"uri":"app:result` + below + `","mimeType":"text/plain","text":"t"}`,
					} {
						if got := contents(t, session, "app:"+kind+below); got != want {
							t.Errorf("app:%s%s holds %s, want %s", kind, below, got, want)
						}
					}
				}
			}
		}
	})
	if blob.URI != "" || text.URI != "" || result.Contents[0] != mcp.ResourceContents(blob) {
		t.Errorf("what the functions returned has become %+v, %+v, %+v", blob, text, result)
	}
}

// addReading registers a resource and a template whose functions return the same.
func addReading[Out any](out Out) func(s *server.Server, resource server.Resource, template server.Template) {
	return func(s *server.Server, resource server.Resource, template server.Template) {
		reads(s, resource, out)
		server.AddTemplate(s, template, func(context.Context, *server.Request, map[string]string) (Out, error) { return out, nil })
	}
}

// TestURIs checks which URIs a template matches.
func TestURIs(t *testing.T) {
	s := newServer(nil)
	type item struct {
		ID string `json:"id"`
	}
	type page struct {
		ID   string `json:"id"`
		Page *int   `json:"page,omitempty"`
	}
	server.AddTemplate(s, server.Template{URITemplate: "https://example.com/items/{id}"},
		func(_ context.Context, _ *server.Request, in item) (item, error) { return in, nil })
	server.AddTemplate(s, server.Template{URITemplate: "x-shop+v1:items/{id}{?page}"},
		func(_ context.Context, _ *server.Request, in page) (page, error) { return in, nil })
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, s, era)
		for uri, want := range map[string]string{
			"https://example.com/items/7":         `{"id":"7"}`,
			"https://example.com/items/7?page=2":  `{"id":"7"}`,
			"x-shop+v1:items/7":                   `{"id":"7"}`,
			"x-shop+v1:items/7?page=2&more=3":     `{"id":"7","page":2}`,
			"x-shop+v1:items/7?more=3":            `{"id":"7"}`,
			"x-shop+v1:items/7?more=x&page=-1#at": `{"id":"7","page":-1}`,
		} {
			result, err := session.ReadResource(t.Context(), uri, nil)
			if err != nil {
				t.Errorf("%s: %v", uri, err)
				continue
			}
			got, ok := result.Contents[0].(*mcp.TextResourceContents)
			if !ok || got.Text != want || got.URI != uri || got.MIMEType != "application/json" {
				t.Errorf("%s holds %+v, want %s", uri, result.Contents[0], want)
			}
		}
		for _, uri := range []string{"https://example.com/items/a/b", "https://example.com/items/", "https://example.com/items", "http://example.com/items/7", "x-shop:items/7",
			"https://example.com/items/a%2Fb", "https://example.com/items/..%2F..%2Fetc%2Fpasswd", "https://example.com/items/..", "https://example.com/items/a%5Cb", "https://example.com/items/a%00"} {
			if _, err := session.ReadResource(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("reading %s gives %v", uri, err)
			}
		}
		for _, uri := range []string{"x-shop+v1:items/7?page=two", "x-shop+v1:items/7?page=1.5", "x-shop+v1:items/7?page=99999999999999999999"} {
			_, err := session.ReadResource(t.Context(), uri, nil)
			wantCode(t, err, jsonrpc.InvalidParams)
		}
	})
}

// TestBytesAreABlob checks that bytes are a blob, with a default media type.
func TestBytesAreABlob(t *testing.T) {
	s := newServer(nil)
	reads(s, server.Resource{URI: "app:b"}, []byte{0, 255})
	reads(s, server.Resource{URI: "app:empty"}, []byte(nil))
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, s, era)
		wantContents(t, session, map[string]string{
			"app:b":     `{"uri":"app:b","mimeType":"application/octet-stream","blob":"AP8="}`,
			"app:empty": `{"uri":"app:empty","mimeType":"application/octet-stream","blob":""}`,
		})
	})
}

// TestPathTraversal checks that no value of a variable leads out of a directory, in any encoding.
func TestPathTraversal(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, child := newServer(nil), newServer(nil)
		reads := func(s *server.Server, template, name string) {
			server.AddTemplate(s, server.Template{URITemplate: template}, func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
				return fmt.Sprintf("<%s>", vars[name]), nil
			})
		}
		reads(s, "file:///{+path}{?q}", "path")
		reads(s, "tree:{path*}", "path")
		server.AddTemplate(s, server.Template{URITemplate: "list:/a{/path*}"}, func(_ context.Context, _ *server.Request, vars struct {
			Path []string `json:"path"`
		}) (string, error) {
			return fmt.Sprintf("<%s>", strings.Join(vars.Path, ",")), nil
		})
		reads(child, "child:///{+path}", "path")
		reads(s, "item:{id}", "id")
		reads(s, "query:x{?q}", "q")
		mount(t, s, child, "c_")
		session := connect(t, s, era)
		for _, path := range []string{
			"..", "../a", "a/..", "a/../b", "%2e%2e", "a/%2E%2e/b", "a%2F..%2Fb", "%2F..", "a/.%2e", `a\..\b`, "..%5Ca", "..?q=1", "a/..#x", "/..",
		} {
			for _, base := range []string{"file:///", "tree:", "list:/a/", "child:///"} {
				if _, err := session.ReadResource(t.Context(), base+path, nil); !mcp.IsResourceNotFound(err) {
					t.Errorf("%s%s gives %v", base, path, err)
				}
			}
		}
		for _, uri := range []string{"file:///./a", "item:..", "item:.", "item:%2e%2E", "item:..%2Fetc%2Fpasswd", "item:a%5Cb", "item:a%00"} {
			if _, err := session.ReadResource(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("%s gives %v", uri, err)
			}
		}
		for uri, want := range map[string]string{
			"file:///a/b.c":   "<a/b.c>",
			"file:///...":     "<...>",
			"file:///a..b":    "<a..b>",
			"file:///..a/b..": "<..a/b..>",
			"file:///a?q=..":  "<a>",
			"file:////etc":    "</etc>",
			"tree:a/b":        "<a/b>",
			"list:/a/b/c":     "<b,c>",
			"child:///a/b":    "<a/b>",
			"item:a..b":       "<a..b>",
			"query:x?q=../..": "<../..>",
		} {
			if got := contents(t, session, uri); !strings.Contains(got, want) {
				t.Errorf("%s holds %s, want %s", uri, got, want)
			}
		}
	})
}

// TestSchemesAndHosts checks that schemes and hosts match in any case. RFC 3986, section 6.2.2.1.
func TestSchemesAndHosts(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddTemplate(s, server.Template{URITemplate: "App://Shop.example/Items/{id}"}, func(_ context.Context, _ *server.Request, vars map[string]string) (string, error) {
			return "item " + vars["id"], nil
		})
		session := connect(t, s, era)
		for _, uri := range []string{"App://Shop.example/Items/Ab", "app://shop.example/Items/Ab", "APP://SHOP.EXAMPLE/Items/Ab"} {
			if got := contents(t, session, uri); !strings.Contains(got, `"item Ab"`) || !strings.Contains(got, `"uri":"`+uri+`"`) {
				t.Errorf("%s holds %s", uri, got)
			}
		}
		if _, err := session.ReadResource(t.Context(), "app://shop.example/items/Ab", nil); !mcp.IsResourceNotFound(err) {
			t.Errorf("another path gives %v", err)
		}
	})
}

// TestEquivalentURIs checks that a resource is found by each equivalent spelling of its URI, before a template that
// matches it too, and that guards and functions see the URI that is listed.
func TestEquivalentURIs(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		const listed = "app://Shop.example/a~b%20c?x=A%2FB"
		seen := make(chan string, 100)
		inner := newServer(nil)
		server.AddTemplate(inner, server.Template{URITemplate: "app://shop.example/{+path}"}, func(context.Context, *server.Request, map[string]string) (string, error) {
			return "template", nil
		})
		server.AddResource(inner, server.Resource{URI: listed}, func(_ context.Context, r *server.Request) (string, error) {
			seen <- r.Call().URI()
			return "static", nil
		})
		reads(inner, server.Resource{URI: "app://shop.example/hidden"}, "hidden")
		outer := newServer(nil)
		if err := outer.Mount(inner.Provider(), nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := outer.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
		for name, s := range map[string]*server.Server{"server": inner, "mounted": outer} {
			session := connect(t, s, era)
			for _, uri := range []string{
				listed, "APP://SHOP.EXAMPLE/a~b%20c?x=A%2FB", "app://shop.example/a%7Eb%20c?x=A%2fB", "app://shop.example/%61~%62%20c?x=%41%2FB",
			} {
				if got := contents(t, session, uri); !strings.Contains(got, `"static"`) || !strings.Contains(got, `"uri":"`+listed+`"`) {
					t.Errorf("%s: %s holds %s", name, uri, got)
				}
				for len(seen) > 0 {
					if got := <-seen; got != listed {
						t.Errorf("%s: %s is seen as %s", name, uri, got)
					}
				}
			}
			for _, uri := range []string{"app://shop.example/A~b%20c?x=A%2FB", "app://shop.example/a~b%20c?x=A/B", "app://shop.example/a~b%20c?X=A%2FB"} {
				if got := contents(t, session, uri); !strings.Contains(got, `"template"`) {
					t.Errorf("%s: %s holds %s", name, uri, got)
				}
			}
		}
	})
}

// TestAccessInAnySpelling checks that the spelling of a listed URI changes neither the scopes nor what a guard sees.
func TestAccessInAnySpelling(t *testing.T) {
	for _, listed := range []string{"app://shop/a", "APP://Shop/%61"} {
		guard := mcp.Guard{Name: "by name", Check: func(_ context.Context, call *mcp.Call) error {
			if call.Target().Name == listed && call.URI() == listed {
				return errors.New("it is closed")
			}
			return nil
		}}
		s := newServer(&server.Options{Guards: []mcp.Guard{guard}})
		server.AddTemplate(s, server.Template{URITemplate: "app://shop/{+path}"}, func(context.Context, *server.Request, map[string]string) (string, error) {
			return "template", nil
		})
		reads(s, server.Resource{URI: listed, Scopes: []string{"read"}}, "secret")
		session := connect(t, s, client.Modern)
		for _, uri := range []string{"app://shop/a", "APP://shop/a", "app://SHOP/a", "app://shop/%61", "App://Shop/%61"} {
			if scopes := s.Scopes(mcp.MethodResourcesRead, uri); len(scopes) != 1 || scopes[0] != "read" {
				t.Errorf("%s, listed as %s, needs the scopes %q", uri, listed, scopes)
			}
			if _, err := session.ReadResource(t.Context(), uri, nil); !client.IsForbidden(err) {
				t.Errorf("%s, listed as %s: the guard does not refuse it: %v", uri, listed, err)
			}
		}
	}
}

// TestFirstOfEquivalentURIsThroughMounts checks that other spellings of two equivalent URIs lead to the resource that was
// registered first, also through mounts, whose lists are by name.
func TestFirstOfEquivalentURIsThroughMounts(t *testing.T) {
	for _, order := range [][]string{{"book://shelf/a", "BOOK://shelf/a"}, {"BOOK://shelf/a", "book://shelf/a"}} {
		for _, registrationOrder := range []bool{false, true} {
			opts := &server.Options{Logger: slog.New(slog.DiscardHandler), RegistrationOrder: registrationOrder}
			s := server.New(mcp.Implementation{Name: "inner", Version: "1"}, opts)
			for _, uri := range order {
				server.AddResource(s, server.Resource{URI: uri}, func(context.Context, *server.Request) (string, error) { return uri, nil })
			}
			for level := range 3 {
				if got := s.Provider().Catalog().Lookup(mcp.KindResource, "Book://shelf/a"); got == nil || got.Name != order[0] {
					t.Errorf("%d mounts, in the order of registration: %t: %v leads to %v, want %s", level, registrationOrder, order, got, order[0])
				}
				outer := server.New(mcp.Implementation{Name: "outer", Version: "1"}, opts)
				mapped := server.Provider(mappedProvider{s.Provider()})
				if level == 1 {
					mapped = s.Provider()
				}
				if err := outer.Mount(mapped, nil); err != nil {
					t.Fatal(err)
				}
				s = outer
			}
		}
	}
}

// A mappedProvider copies each entry.
type mappedProvider struct{ server.Provider }

func (p mappedProvider) Catalog() *server.Catalog {
	return p.Provider.Catalog().Map(func(e *server.Entry) *server.Entry {
		changed := *e
		return &changed
	})
}

// TestDroppedResourceInAnySpelling checks that no template matches an equivalent spelling of a resource that was dropped.
func TestDroppedResourceInAnySpelling(t *testing.T) {
	s := newServer(nil)
	server.AddTemplate(s, server.Template{URITemplate: "app://shop.example/{+path}"}, func(context.Context, *server.Request, map[string]string) (string, error) {
		return "template", nil
	})
	reads(s, server.Resource{URI: "app://shop.example/secret"}, "secret")
	dropped := s.Catalog().Map(func(e *server.Entry) *server.Entry {
		if e.Kind == mcp.KindResource {
			return nil
		}
		return e
	})
	for _, uri := range []string{"app://shop.example/secret", "APP://SHOP.example/secret", "app://shop.example/s%65cret"} {
		if e := dropped.Lookup(mcp.KindResource, uri); e != nil {
			t.Errorf("%s is %s", uri, e.Name)
		}
	}
	if e := dropped.Lookup(mcp.KindResource, "app://shop.example/other"); e == nil {
		t.Error("the template matches nothing")
	}
}

// TestResourcesMayShareAName checks that resources are identified by URI.
func TestResourcesMayShareAName(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		reads(s, server.Resource{URI: "app:a", Name: "settings"}, "a")
		reads(s, server.Resource{URI: "app:b", Name: "settings"}, "b")
		session := connect(t, s, era)
		for uri, want := range map[string]string{"app:a": `"text":"a"`, "app:b": `"text":"b"`} {
			if got := contents(t, session, uri); !strings.Contains(got, want) {
				t.Errorf("%s holds %s", uri, got)
			}
		}
		for resource, err := range session.Resources(t.Context(), nil) {
			if err != nil || resource.Name != "settings" {
				t.Errorf("listed is %+v, %v", resource, err)
			}
		}
	})
}

// TestDefaultMIMETypes checks the media types of contents without one.
func TestDefaultMIMETypes(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		reads(s, server.Resource{URI: "app:text"}, "")
		reads(s, server.Resource{URI: "app:blob"}, []byte{})
		session := connect(t, s, era)
		for uri, want := range map[string]string{
			"app:text": `{"uri":"app:text","mimeType":"text/plain","text":""}`, "app:blob": `{"uri":"app:blob","mimeType":"application/octet-stream","blob":""}`,
		} {
			if got := contents(t, session, uri); got != want {
				t.Errorf("%s holds %s, want %s", uri, got, want)
			}
		}
	})
}

// TestInvalidAnnotations checks that invalid annotations are rejected. MCP 2025-11-25,
// server/resources, "Annotations".
func TestInvalidAnnotations(t *testing.T) {
	nan := 0.0
	nan /= nan
	for says, annotations := range map[string]*mcp.Annotations{
		"":                {Audience: []mcp.Role{mcp.RoleAssistant, mcp.RoleUser}, Priority: new(1.0)},
		"not 1.5":         {Priority: new(1.5)},
		"not -0.1":        {Priority: new(-0.1)},
		"not NaN":         {Priority: &nan},
		`not of "system"`: {Audience: []mcp.Role{mcp.RoleUser, "system"}},
		`not of ""`:       {Audience: []mcp.Role{""}},
	} {
		_, resource := server.NewResource(server.Resource{URI: "app:a", Annotations: annotations}, func(context.Context, *server.Request) (string, error) { return "", nil })
		_, template := server.NewTemplate(server.Template{URITemplate: "app:{a}", Annotations: annotations}, nothing[map[string]string])
		for _, err := range []error{resource, template} {
			if (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
				t.Errorf("the error is %v, want %q", err, says)
			}
		}
	}
}
