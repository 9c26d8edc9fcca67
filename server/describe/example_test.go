package describe_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing/fstest"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/describe"
)

// calc returns a server and its description.
func calc() (*server.Server, describe.Server) {
	s := server.New(mcp.Implementation{Name: "com.example/calc", Version: "1.0.0", Description: "Adds numbers."}, nil)
	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."},
		func(_ context.Context, _ *server.Request, in struct{ A, B int }) (int, error) {
			return in.A + in.B, nil
		})
	return s, describe.Of(s)
}

func ExampleOf() {
	s, _ := calc()
	d := describe.Of(s)
	fmt.Println(d.Name, d.Version, d.Description)
	fmt.Println(d.Tools)
	// Output:
	// com.example/calc 1.0.0 Adds numbers.
	// [{add Add two integers.}]
}

func ExampleNewRemote() {
	remote := describe.NewRemote("https://example.com/mcp")
	fmt.Println(remote.Transport, remote.URL, remote.Versions[0])
	// Output: streamable-http https://example.com/mcp 2026-07-28
}

func ExampleServer_Card() {
	_, d := calc()
	card, err := d.Card()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", card)

	d.Version = "1.x"
	_, err = d.Card()
	fmt.Println(err)
	// Output:
	// {
	//   "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
	//   "name": "com.example/calc",
	//   "description": "Adds numbers.",
	//   "version": "1.0.0"
	// }
	// describe: Version: expected one version, such as "1.0.2", not a range or "latest"
}

func ExampleCatalog() {
	_, d := calc()
	d.Remotes = []describe.Remote{describe.NewRemote("https://example.com/mcp")}
	catalog, err := describe.Catalog(d)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", catalog)
	// Output:
	// {
	//   "specVersion": "1.0",
	//   "entries": [
	//     {
	//       "identifier": "urn:air:example.com:mcp:calc",
	//       "type": "application/mcp-server-card+json",
	//       "url": "https://example.com/mcp/server-card"
	//     }
	//   ]
	// }
}

func ExampleHandler() {
	_, d := calc()
	d.Remotes = []describe.Remote{describe.NewRemote("https://example.com/mcp")}
	cards, err := describe.Handler(d)
	if err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	cards.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "https://example.com/mcp/server-card", http.NoBody))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	fmt.Println(w.Header().Get("Cache-Control"))
	// Output:
	// 200 application/mcp-server-card+json
	// public, max-age=3600
}

func ExampleDiscover() {
	_, d := calc()
	mux := http.NewServeMux()
	site := httptest.NewServer(mux)
	defer site.Close()
	d.Remotes = []describe.Remote{describe.NewRemote(site.URL + "/mcp")}
	cards, err := describe.Handler(d)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/", cards)

	// In production: "https://example.com", nil.
	for found, err := range describe.Discover(context.Background(), site.URL, &describe.DiscoverOptions{AllowLoopback: true}) {
		if err != nil {
			log.Print(err)
			continue
		}
		fmt.Println(found.Name, found.Remotes[0].Transport)
	}
	// Output: com.example/calc streamable-http
}

// The digest of a bundle belongs in server.json.
func ExampleServer_WriteBundle() {
	_, d := calc()
	d.Author.Name = "Example"
	sum := sha256.New()
	var file bytes.Buffer // or an *os.File
	err := d.WriteBundle(io.MultiWriter(&file, sum), &describe.Bundle{
		Files:    fstest.MapFS{"calc-linux": {Data: []byte("a program")}}, // or os.DirFS("dist")
		Programs: map[string]string{"linux": "calc-linux"},
	})
	if err != nil {
		log.Fatal(err)
	}
	d.Packages = []describe.Package{{
		Registry: "mcpb", Identifier: "https://github.com/example/calc/releases/download/v1.0.0/calc.mcpb",
		SHA256: fmt.Sprintf("%x", sum.Sum(nil)),
	}}
	text, err := d.Registry()
	fmt.Println(bytes.Contains(text, []byte(`"registryType": "mcpb"`)), err)
	// Output: true <nil>
}
