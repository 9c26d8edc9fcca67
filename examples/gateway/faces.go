package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"

	"github.com/dovetail-go/dovetail/bridge/gateway"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// faces are all that callers can come by.
type faces struct {
	access *gateway.Access
	token  string // one that was made up, for whoever starts the program
	mcp    *streamable.Endpoint
	tools  *gateway.ToolServer
	plain  *gateway.Gateway
}

// faces puts each face behind the same access, and each call behind the same interceptors.
func (h *hub) faces(o *options) (*faces, error) {
	f := &faces{}
	opts := &gateway.AccessOptions{Open: o.open, Logger: h.logger}
	switch {
	case o.token != "":
		opts.Tokens = map[string]string{o.token: caller}
	case !o.open:
		f.token = rand.Text()
		opts.Tokens = map[string]string{f.token: caller}
	}
	var err error
	if f.access, err = gateway.NewAccess(opts); err != nil {
		return nil, err
	}
	around := &gateway.ToolServerOptions{Known: h.directory, Around: h.around, Access: f.access, Logger: h.logger}
	if o.launch {
		around.Launch = gateway.LaunchAny
	}
	if f.tools, err = gateway.NewToolServer(around); err != nil {
		return nil, err
	}
	f.plain = gateway.New(h.directory, &gateway.Options{Around: h.around, Access: f.access, Logger: h.logger})
	f.mcp = streamable.Handler(h.face, nil)
	return f, nil
}

// caller is the principal of who has the token. With more tokens, a policy can tell their
// owners apart.
const caller = "caller"

// route adds all faces.
func (f *faces) route(mux *http.ServeMux) {
	mux.Handle("/", f.tools)
	mux.Handle("/mcp", f.access.Handler(f.mcp))
	mux.Handle("/api/v1/mcp/proxy/", http.StripPrefix("/api/v1/mcp/proxy", f.plain.Proxy()))
	mux.Handle("/api/v1/rest/", http.StripPrefix("/api/v1/rest", f.plain.REST(nil)))
}

// introduce tells the operator where the faces are. It is the only place that tells the
// token.
func (f *faces) introduce(said io.Writer, address string) {
	if f.token != "" {
		fmt.Fprintf(said, "callers  Authorization: Bearer %s\n", f.token)
	}
	fmt.Fprintf(said, "serving  http://%s/mcp, /run, /api/v1/mcp/proxy/, /api/v1/rest/ and /metrics\n", address)
}
