package streamable_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// A client that takes nothing holds its own call up for no longer than the timeout of
// a write. The call of a session goes on without it.
func TestClientsThatNeverRead(t *testing.T) {
	for _, era := range []string{"modern", "legacy"} {
		t.Run(era, func(t *testing.T) {
			ended := make(chan error, 1)
			srv := newServer()
			server.AddTool(srv, server.Tool{Name: "flood"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
				message := strings.Repeat("x", 64<<10)
				var err error
				for i := 0; i < 1000 && err == nil; i++ { // far more than sockets hold
					err = r.Progress(ctx, float64(i+1), 0, message)
				}
				ended <- err
				return "done", err
			})
			r := serve(t, srv, &streamable.Options{WriteTimeout: 100 * time.Millisecond, Logger: quiet})
			header, body := "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: flood\r\n",
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flood",`+modernMeta+`}}`
			if era == "legacy" {
				header, body = "Mcp-Session-Id: "+r.open(mcp.Version20251125).headers["Mcp-Session-Id"]+"\r\n", call(1, "flood", `{}`)
			}
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.http.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body)
			if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); !strings.Contains(line, "200") {
				t.Fatalf("%q, %v", line, err)
			}
			select {
			case err := <-ended:
				if (err != nil) != (era == "modern") {
					t.Errorf("the call ended with %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the call hangs")
			}
		})
	}
}
