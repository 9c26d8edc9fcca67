package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A session cannot keep more than store.MaxValue (512 KiB) of the names of resources.
func TestRecordOfSessionIsBounded(t *testing.T) {
	racetest.Skip(t)
	srv := newServer()
	server.AddTemplate(srv, server.Template{URITemplate: "page:{name}", Name: "page"},
		func(context.Context, *server.Request, struct {
			Name string `json:"name"`
		}) (string, error) {
			return "text", nil
		})
	s := serve(t, srv, &streamable.Options{Logger: quiet}).open(mcp.Version20251125)
	long, kept := strings.Repeat("0", 8000), 0
	for i := range 100 { // 0.8 MB
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"page:%s%d"}}`, i, long, i)
		got := s.post(body)
		text := got.body()
		if got.StatusCode == http.StatusOK && strings.Contains(text, `"result":{}`) {
			kept += len(long)
		}
	}
	if kept > 512<<10 {
		t.Errorf("the record of one session keeps %d bytes of URIs", kept)
	}
}

// A record without a handshake is an error of its session. It does not end the process.
func TestSessionWithoutHandshake(t *testing.T) {
	shared := newStore(t)
	r := serve(t, sharing{newServer(), shared}, &streamable.Options{Logger: quiet})
	if _, err := shared.Create(t.Context(), "sessions/ABCDEFGHIJKLMNOPQRSTUVWXYZ", []byte(`{"version":1,"value":{}}`), time.Hour); err != nil {
		t.Fatal(err)
	}
	if status := r.with("Mcp-Session-Id", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "MCP-Protocol-Version", "2025-11-25").post(ping).StatusCode; status < 400 {
		t.Errorf("got status %d", status)
	}
}
