package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// serveHTTP serves HTTP until ctx ends, and says where.
func serveHTTP(ctx context.Context, s *server.Server, address, staffKey string, said io.Writer) error {
	endpoint := streamable.Handler(s, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", authenticated(endpoint, staffKey))

	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	web := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	served := make(chan error, 1)
	go func() {
		served <- web.Serve(listener)
		close(served)
	}()
	fmt.Fprintf(said, "serving http://%s/mcp\n", listener.Addr())
	select {
	case err = <-served:
	case <-ctx.Done():
	}

	// Calls may finish; then the database is closed, and streams end, which the web
	// server would wait for.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err = errors.Join(err, s.Shutdown(ending), endpoint.Close(), web.Shutdown(ending))
	<-served
	return err
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
