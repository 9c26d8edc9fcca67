package interop

import (
	"bytes"
	"io"
	"net/http"
	"slices"
)

// Versions. auto leaves the choice to guest and host.
const (
	modern = "2026-07-28"
	auto   = "auto"
)

// legacy are the versions with a handshake.
var legacy = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// A pin makes a client offer another version in its handshake than its newest. All
// versions are equally long.
type pin struct {
	http.RoundTripper
	version string
}

// pinned is the client with a pin, if the version has a handshake.
func pinned(web *http.Client, version string) *http.Client {
	if !slices.Contains(legacy, version) {
		return web
	}
	return &http.Client{Transport: pin{web.Transport, version}}
}

func (p pin) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		return p.RoundTripper.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return nil, err
	}
	if bytes.Contains(body, []byte(`"method":"initialize"`)) {
		body = bytes.Replace(body, []byte(legacy[len(legacy)-1]), []byte(p.version), 1)
	}
	copied := req.Clone(req.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body))
	copied.GetBody = nil
	return p.RoundTripper.RoundTrip(copied)
}
