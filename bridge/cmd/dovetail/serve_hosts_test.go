package main

import (
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
)

// as returns the status of a request under a host name. With an origin it is that of a page to the channel of approvals.
func (p *program) as(t *testing.T, method, path, host, origin string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.address+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	request.Header.Set("Authorization", "Bearer "+p.token)
	if origin != "" {
		for name, value := range map[string]string{
			"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": origin,
		} {
			request.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// outwardAddress returns an address of this machine that other machines may reach.
func outwardAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if at, ok := a.(*net.IPNet); ok && at.IP.To4() != nil && !at.IP.IsLoopback() && !at.IP.IsLinkLocalUnicast() {
			return at.IP.String()
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("this machine has only loopback addresses")
	}
	t.Skip("this machine has only loopback addresses")
	return ""
}

// TestHostsAtAnOutwardAddress: the names of -host, loopback names and the address itself are accepted, by the approval
// page too, and no page under another name can approve.
func TestHostsAtAnOutwardAddress(t *testing.T) {
	at := outwardAddress(t)
	for _, flags := range [][]string{nil, {"-host", "gateway.example"}} {
		p := start(t, append(flags, "-approve", "page", "-http", at+":0")...)
		for host, named := range map[string]bool{
			p.address: true, "localhost:9000": true, "127.0.0.1:9000": true, "gateway.example": flags != nil, "evil.example": false,
		} {
			for _, path := range []string{"/states", "/metrics", "/approvals/", "/api/v1/rest/tools", "/api/v1/mcp/proxy/servers"} {
				refused := flags != nil && !named
				if status := p.as(t, http.MethodGet, path, host, ""); (status == http.StatusForbidden) != refused {
					t.Errorf("%v: %s at %s has the status %d", flags, path, host, status)
				}
			}
			for origin, own := range map[string]bool{"http://" + host: named, "http://other.example": false, "http://localhost:3000": false} {
				if status := p.as(t, http.MethodGet, "/approval", host, origin); (status == http.StatusForbidden) == own {
					t.Errorf("%v: the page %s at %s has the status %d", flags, origin, host, status)
				}
			}
		}
	}
}

// TestHosts: names of -host are accepted wherever a client or a browser asks, and no others.
func TestHosts(t *testing.T) {
	for _, flags := range [][]string{nil, {"-host", "gateway.example:8900"}, {"-host", "gateway.example"}} {
		p := start(t, append(flags, "-approve", "page")...)
		for _, route := range []struct{ method, path string }{
			{http.MethodPost, "/mcp"}, {http.MethodGet, "/states"}, {http.MethodGet, "/metrics"}, {http.MethodGet, "/api/v1/rest/tools"}, {http.MethodGet, "/api/v1/mcp/proxy/servers"},
			{http.MethodGet, "/status"}, {http.MethodGet, "/approvals/"}, {http.MethodGet, "/approval"},
		} {
			for host, refused := range map[string]bool{"gateway.example:8900": flags == nil, "other.example": true} {
				origin := ""
				if route.path == "/approval" { // as the page
					origin = "http://" + host
					if flags != nil && flags[1] == "gateway.example" { // the browser uses the default port
						host = strings.TrimSuffix(host, ":8900")
						origin = "https://" + host
					}
				}
				if status := p.as(t, route.method, route.path, host, origin); (status == http.StatusForbidden) != refused {
					t.Errorf("%v: %s at %s has the status %d", flags, route.path, host, status)
				}
			}
		}
	}
}
