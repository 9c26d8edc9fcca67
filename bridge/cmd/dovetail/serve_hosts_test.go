package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestHosts: names of -host are accepted wherever a client or a browser asks, and no others.
func TestHosts(t *testing.T) {
	for _, flags := range [][]string{nil, {"-host", "gateway.example:8900"}, {"-host", "gateway.example"}} {
		p := start(t, append(flags, "-approve", "page")...)
		for _, route := range []struct{ method, path string }{
			{http.MethodPost, "/mcp"}, {http.MethodGet, "/states"}, {http.MethodGet, "/metrics"}, {http.MethodGet, "/api/v1/rest/tools"}, {http.MethodGet, "/api/v1/mcp/proxy/servers"},
			{http.MethodGet, "/status"}, {http.MethodGet, "/approvals/"}, {http.MethodGet, "/approval"},
		} {
			for host, refused := range map[string]bool{"gateway.example:8900": flags == nil, "other.example": true} {
				request, err := http.NewRequestWithContext(t.Context(), route.method, "http://"+p.address+route.path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				request.Host = host
				request.Header.Set("Authorization", "Bearer "+p.token)
				if route.path == "/approval" { // as the page
					for name, value := range map[string]string{
						"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": "http://" + host,
					} {
						request.Header.Set(name, value)
					}
					if flags != nil && flags[1] == "gateway.example" { // the browser uses the default port
						request.Host = strings.TrimSuffix(host, ":8900")
						request.Header.Set("Origin", "https://"+request.Host)
					}
				}
				response, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if (response.StatusCode == http.StatusForbidden) != refused {
					t.Errorf("%v: %s at %s has the status %d", flags, route.path, request.Host, response.StatusCode)
				}
			}
		}
	}
}
