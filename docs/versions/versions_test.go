package versions_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// One server and one URL, and clients of both families of versions.
func Example_client() {
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "version"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return "the caller speaks " + string(r.Caller().Version), nil
	})
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewServer(endpoint)
	defer web.Close()

	ctx := context.Background()
	for _, era := range []client.Era{client.Auto, client.Modern, client.Legacy} {
		session, err := client.Connect(ctx, streamable.Dial(web.URL, nil), &client.Options{Era: era})
		if err != nil {
			log.Fatal(err)
		}
		text, err := client.CallAs[string](ctx, session, "version", nil, nil)
		fmt.Println(session.Version(), text, err)
		session.Close()
	}
	// Output:
	// 2026-07-28 the caller speaks 2026-07-28 <nil>
	// 2026-07-28 the caller speaks 2026-07-28 <nil>
	// 2025-11-25 the caller speaks 2025-11-25 <nil>
}

// A server answers the handshake of each version with that version, and the handshake of an unknown one with the newest
// version that has a handshake.
func Example_handshake() {
	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	endpoint := streamable.Handler(s, nil)
	defer endpoint.Close()
	web := httptest.NewServer(endpoint)
	defer web.Close()

	answered := regexp.MustCompile(`"protocolVersion":"([^"]*)"`)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2099-12-31"} {
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
		req, err := http.NewRequest(http.MethodPost, web.URL, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(version, "→", string(answered.FindSubmatch(text)[1]))
	}
	// Output:
	// 2024-11-05 → 2024-11-05
	// 2025-03-26 → 2025-03-26
	// 2025-06-18 → 2025-06-18
	// 2025-11-25 → 2025-11-25
	// 2099-12-31 → 2025-11-25
}
