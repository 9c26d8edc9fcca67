package openapi_test

import (
	"context"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/openapi"
)

// The operations of a service are tools, except those of its administration.
//
//	ApiServer = build_openapi_server_class(json.load(open("openapi.json")), http_client=httpx.AsyncClient(base_url=url),
//	    route_map=[RouteEntry(r"/admin", expose_as="exclude")])
func Example_laurenOpenAPI() {
	service := httptest.NewServer(http.HandlerFunc(serveEcho))
	defer service.Close()
	excluded := openapi.Rule{Path: regexp.MustCompile("/admin"), Expose: openapi.Excluded}
	provider, err := openapi.New([]byte(weatherDocument), &openapi.Options{BaseURL: service.URL, Rules: []openapi.Rule{excluded}})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil)
	if err := s.Mount(provider, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	callForecast(s, "Oslo", 3)
	// Output: getForecast /cities/Oslo/forecast days=3
}
