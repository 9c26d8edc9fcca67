package main

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// serveHTTP serves HTTP until ctx ends, and prints the address.
func serveHTTP(ctx context.Context, s *server.Server, address, staffKey string, said io.Writer) error {
	return streamable.Serve(ctx, address, s, &streamable.ServeOptions{
		Wrap:     func(endpoint http.Handler) http.Handler { return authenticated(endpoint, staffKey) },
		OnListen: func(at net.Addr) { fmt.Fprintf(said, "serving http://%s/mcp\n", at) },
	})
}

// authenticated names a caller who has the key of the staff. Others are customers, who
// need none; a wrong key is refused.
func authenticated(next http.Handler, staffKey string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if given := r.Header.Get("Authorization"); given != "" {
			key, ok := strings.CutPrefix(given, "Bearer ")
			if !ok || staffKey == "" || subtle.ConstantTimeCompare([]byte(key), []byte(staffKey)) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "the key is not that of the staff", http.StatusUnauthorized)
				return
			}
			r = r.WithContext(transport.WithPrincipal(r.Context(), staff))
		}
		next.ServeHTTP(w, r)
	})
}
