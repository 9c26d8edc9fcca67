package server_test

import (
	"context"
	"errors"
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

// contents are a read's contents as JSON.
func contents(t testing.TB, session *client.Session, uri string) string {
	t.Helper()
	result, err := session.Read(t.Context(), uri, nil)
	if err != nil {
		t.Fatalf("reading %s: %v", uri, err)
	}
	var all []string
	for _, c := range result.Contents {
		one, err := c.AppendJSON(nil)
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
		for uri, want := range map[string]string{
			"app:text":    `{"uri":"app:text","mimeType":"text/plain","text":"text"}`,
			"app:blob":    `{"uri":"app:blob","mimeType":"image/png","blob":"AP8="}`,
			"app:own":     `{"uri":"app:own#1","text":"x"}`,
			"app:several": `{"uri":"app:a","text":"a"}` + "\n" + `{"uri":"app:b","blob":"Yg=="}`,
			"app:result":  `{"uri":"app:c","text":"c"}`,
			"app:json":    `{"uri":"app:json","mimeType":"application/json","text":"{\"a\":1,\"b\":2}"}`,
			"app:list":    `{"uri":"app:list","mimeType":"application/vnd.list+json","text":"[1,2]"}`,
		} {
			if got := contents(t, session, uri); got != want {
				t.Errorf("%s holds %s, want %s", uri, got, want)
			}
		}
	})
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
		_, err := session.Read(t.Context(), "app:broken", nil)
		wantCode(t, err, jsonrpc.InternalError)
		if !strings.Contains(err.Error(), "the disk is gone") {
			t.Errorf("the reason is lost: %v", err)
		}
		_, err = session.Read(t.Context(), "app:unknown", nil)
		if !mcp.IsResourceNotFound(err) {
			t.Errorf("an unknown resource is %v", err)
		}
		for _, uri := range []string{"app:nil", "app:channel"} {
			_, err = session.Read(t.Context(), uri, nil)
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
			_, err := session.Read(t.Context(), uri, nil)
			wantCode(t, err, jsonrpc.InvalidParams)
			if mcp.IsResourceNotFound(err) && era == client.Legacy {
				t.Errorf("%s is taken for a resource that does not exist", uri)
			}
		}
		for _, uri := range []string{"none:1", "other:1", "none:{x}"} {
			if _, err := session.Read(t.Context(), uri, nil); !mcp.IsResourceNotFound(err) {
				t.Errorf("reading %s gives %v", uri, err)
			}
		}
	})
}
