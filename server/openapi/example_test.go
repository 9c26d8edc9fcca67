package openapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/openapi"
	"github.com/dovetail-go/dovetail/transport"
)

const weatherDocument = `
openapi: 3.1.0
info: {title: Weather, version: "1.0"}
security: [{key: []}]
paths:
  /cities/{city}/forecast:
    get:
      operationId: getForecast
      summary: The weather to come.
      parameters:
      - {name: city, in: path, required: true, schema: {type: string}}
      - {name: days, in: query, schema: {type: integer, minimum: 1, maximum: 7}}
      responses:
        "200": {description: The forecast., content: {application/json: {schema: {type: object}}}}
  /admin/restart:
    post: {operationId: restart}
components:
  securitySchemes: {key: {type: apiKey, in: header, name: X-Key}}
`

func ExampleNew() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"path":%q,"authorized":%t}`, r.URL, r.Header.Get("X-Key") == "secret")
	}))
	defer service.Close()
	ctx := context.Background()

	p, err := openapi.New([]byte(weatherDocument), &openapi.Options{
		BaseURL:   service.URL,
		Authorize: openapi.Credentials{"key": "secret"}.Authorize,
		Rules: []openapi.Rule{
			{Path: regexp.MustCompile("^/admin/"), Expose: openapi.Excluded},
			{OperationID: regexp.MustCompile("^getForecast$"), Name: "forecast"},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "weather", Version: "1.0.0"}, nil)
	if err := s.Mount(p, nil); err != nil {
		log.Fatal(err)
	}
	defer s.Shutdown(ctx)

	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(tool.Name, string(tool.InputSchema))
	}
	result, err := session.CallTool(ctx, "forecast", json.RawMessage(`{"city":"São Paulo?x","days":3}`), nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(result.StructuredContent))
	// Output:
	// forecast {"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":7}},"required":["city"],"additionalProperties":false}
	// {"path":"/cities/S%C3%A3o%20Paulo%3Fx/forecast?days=3","authorized":true}
}

func ExampleCredentials() {
	credentials := openapi.Credentials{"token": "t0ken", "login": "ada:lovelace"}
	request := httptest.NewRequest(http.MethodGet, "https://service.example", nil)
	err := credentials.Authorize(context.Background(), request, openapi.Security{Alternatives: []openapi.Requirement{
		{{Name: "certificate", Type: "apiKey"}}, // without credentials
		{{Name: "token", Type: "http", Scheme: "bearer"}},
	}})
	fmt.Println(request.Header.Get("Authorization"), err)
	// Output: Bearer t0ken <nil>
}

// A custom Authorize can use different credentials for each caller.
func ExampleSecurityScheme_Apply() {
	tokens := map[string]string{"ada": "token-of-ada"}
	authorize := func(_ context.Context, request *http.Request, security openapi.Security) error {
		token, ok := tokens[security.Call.Caller.Principal]
		if !ok {
			return errors.New("this caller has no token")
		}
		return security.Alternatives[0][0].Apply(request, token)
	}
	p, err := openapi.New([]byte(weatherDocument), &openapi.Options{BaseURL: "https://weather.example", Authorize: authorize})
	if err != nil {
		log.Fatal(err)
	}
	for tool := range p.Catalog().All(mcp.KindTool) {
		fmt.Println(tool.Name)
	}
	// Output:
	// getForecast
	// restart
}
