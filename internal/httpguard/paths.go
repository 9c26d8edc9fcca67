package httpguard

import "net/http"

// A PathServer is a handler that wraps an endpoint and answers requests for further paths itself, such as the metadata of
// OAuth. Without it, a wrapping handler gets only the requests for the endpoint.
type PathServer interface {
	// ServedPaths returns the further paths. Each is compared with the whole path of a request.
	ServedPaths() []string
}

// ServedPaths returns the further paths of a handler, or nil if it has none.
func ServedPaths(handler http.Handler) []string {
	if server, ok := handler.(PathServer); ok {
		return server.ServedPaths()
	}
	return nil
}
