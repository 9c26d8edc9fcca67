package httptransport

import (
	"context"
	"maps"
	"net/http"
)

// StaticHeader returns a function for the Header of the DialOptions of each transport. It sets these values in every
// request, and may be called concurrently.
func StaticHeader(values map[string]string) func(ctx context.Context, header http.Header) error {
	values = maps.Clone(values)
	return func(_ context.Context, header http.Header) error {
		for name, value := range values {
			header.Set(name, value)
		}
		return nil
	}
}
