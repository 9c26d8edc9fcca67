package server_test

import (
	"context"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// TestContentsWithoutURI get that of the request, as a resource, through a template and
// through a mount. One that names another URI keeps it, and what the function
// returned stays as it is.
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
	s := newServer(guarded(mcp.Guard{Check: allow}).options())
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
