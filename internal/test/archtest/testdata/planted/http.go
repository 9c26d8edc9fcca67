package planted

import (
	"net/http"
	"net/http/httptest"
)

// A site has fields of the types, which are allowed.
type site struct {
	server *http.Server
	client *http.Client
}

func serve(h http.Handler) error {
	s := &http.Server{Handler: h}                        // want "http.Server"
	c := http.Client{}                                   // want "http.Client"
	c.Transport = &http.Transport{}                      // want "http.Transport"
	d := new(http.Client)                                // want "http.Client"
	d.Transport = http.DefaultTransport                  // want "http.DefaultTransport"
	_, _ = http.DefaultClient.Get("https://example.com") // want "http.DefaultClient"
	_, _ = http.Get("https://example.com")               // want "http.Get"
	_ = httptest.NewServer(h)                            // want "httptest.NewServer"
	_, _ = c.Transport.(*http.Transport)
	_ = site{s, &c}
	return http.ListenAndServe(":80", h) // want "http.ListenAndServe"
}
