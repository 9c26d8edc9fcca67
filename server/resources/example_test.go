package resources_test

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/resources"
	"github.com/dovetail-go/dovetail/transport"
)

// bakery creates a directory with a few files.
func bakery() *os.Root {
	dir, err := os.MkdirTemp("", "bakery")
	if err != nil {
		log.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	if err := root.MkdirAll("recipes/.drafts", 0o777); err != nil {
		log.Fatal(err)
	}
	for name, text := range map[string]string{
		"opening.txt": "7 to 18", "recipes/rye.md": "500 g of flour", "recipes/.drafts/cake.md": "sugar",
	} {
		if err := root.WriteFile(name, []byte(text), 0o666); err != nil {
			log.Fatal(err)
		}
	}
	return root
}

// connect connects a client to a server with these entries.
func connect(opts *client.Options, entries ...*server.Entry) (*client.Session, *server.Server) {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	if err := s.Replace(entries...); err != nil {
		log.Fatal(err)
	}
	session, err := client.Connect(context.Background(), transport.Pipe(s), opts)
	if err != nil {
		log.Fatal(err)
	}
	return session, s
}

// show reads a resource and prints it.
func show(session *client.Session, uri string) {
	result, err := session.ReadResource(context.Background(), uri, nil)
	if err != nil {
		fmt.Println(uri, "not found:", mcp.IsResourceNotFound(err))
		return
	}
	for _, contents := range result.Contents {
		if text, ok := contents.(*mcp.TextResourceContents); ok {
			fmt.Println(text.URI, text.MIMEType, text.Text)
		}
	}
}

func ExampleFile() {
	root := bakery()
	defer os.RemoveAll(root.Name())
	defer root.Close()

	entry, err := resources.File(root, "opening.txt", &resources.FileOptions{
		Resource: server.Resource{URI: "bakery://opening", Title: "Opening hours"},
	})
	if err != nil {
		log.Fatal(err)
	}
	session, _ := connect(nil, entry)
	defer session.Close()
	show(session, "bakery://opening")
	// Output:
	// bakery://opening text/plain 7 to 18
}

func ExampleDirectory() {
	root := bakery()
	defer os.RemoveAll(root.Name())
	defer root.Close()

	entries, err := resources.Directory(root, &resources.DirectoryOptions{
		Resource: server.Resource{URI: "bakery://files"},
		Pattern:  "**",
	})
	if err != nil {
		log.Fatal(err)
	}
	session, _ := connect(nil, entries...)
	defer session.Close()
	show(session, "bakery://files")
	show(session, "bakery://files/recipes/rye.md")
	show(session, "bakery://files/recipes/.drafts/cake.md")
	show(session, "bakery://files/..%2Fetc%2Fpasswd")
	// Output:
	// bakery://files application/json ["opening.txt","recipes/rye.md"]
	// bakery://files/recipes/rye.md text/markdown 500 g of flour
	// bakery://files/recipes/.drafts/cake.md not found: true
	// bakery://files/..%2Fetc%2Fpasswd not found: true
}

//go:embed testdata/docs
var manual embed.FS

// Embedded files are resources.
func ExampleFS() {
	docs, err := fs.Sub(manual, "testdata/docs")
	if err != nil {
		log.Fatal(err)
	}
	entries, err := resources.FS(docs, &resources.DirectoryOptions{
		Resource: server.Resource{URI: "docs://manual"},
		Pattern:  "**/*.json",
	})
	if err != nil {
		log.Fatal(err)
	}
	session, _ := connect(nil, entries...)
	defer session.Close()
	show(session, "docs://manual")
	show(session, "docs://manual/api/index.json")
	show(session, "docs://manual/guide.md") // does not match
	// Output:
	// docs://manual application/json ["api/index.json"]
	// docs://manual/api/index.json application/json {}
	//
	// docs://manual/guide.md not found: true
}

// A server on this machine must be permitted.
func ExampleHTTP() {
	weather := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprintf(w, `{"sky":"clear","for":%q}`, r.Header.Get("Authorization"))
	}))
	defer weather.Close()

	opts := &resources.HTTPOptions{
		Resource: server.Resource{URI: "weather://now"},
		Header:   http.Header{"Authorization": {"Bearer token"}},
	}
	_, err := resources.HTTP("https://127.0.0.1/", opts)
	fmt.Println(err)

	opts.AllowLoopback = true
	entry, err := resources.HTTP(weather.URL, opts)
	if err != nil {
		log.Fatal(err)
	}
	session, _ := connect(nil, entry)
	defer session.Close()
	show(session, "weather://now")
	// Output:
	// "https://127.0.0.1/" is not fetched: 127.0.0.1 is this machine (RFC 1122)
	// weather://now application/json {"sky":"clear","for":"Bearer token"}
}

// Subscribers are notified when files change.
func ExampleWatch() {
	root := bakery()
	defer os.RemoveAll(root.Name())
	defer root.Close()

	entries, err := resources.Directory(root, nil)
	if err != nil {
		log.Fatal(err)
	}
	told := make(chan mcp.Change, 1)
	session, s := connect(&client.Options{OnChange: func(_ context.Context, change mcp.Change) { told <- change }}, entries...)
	defer session.Close()
	stop, err := resources.Watch(context.Background(), s, 10*time.Millisecond, entries...)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	_, err = session.Subscribe(context.Background(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"file:///opening.txt"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := root.WriteFile(".new", []byte("closed today"), 0o666); err != nil {
		log.Fatal(err)
	}
	if err := root.Rename(".new", "opening.txt"); err != nil {
		log.Fatal(err)
	}
	show(session, (<-told).URI)
	// Output:
	// file:///opening.txt text/plain closed today
}

// A file and a directory by their paths.
func ExampleFileAt() {
	root := bakery()
	defer os.RemoveAll(root.Name())
	defer root.Close()
	hours, err := resources.FileAt(root.Name()+"/opening.txt", &resources.FileOptions{Resource: server.Resource{URI: "file:///bakery/opening.txt"}})
	if err != nil {
		log.Fatal(err)
	}
	files, err := resources.DirectoryAt(root.Name(), &resources.DirectoryOptions{Resource: server.Resource{URI: "file:///bakery"}, Pattern: "**/*.md"})
	if err != nil {
		log.Fatal(err)
	}
	session, _ := connect(nil, append(files, hours)...)
	defer session.Close()
	show(session, "file:///bakery/opening.txt")
	show(session, "file:///bakery")
	// Output:
	// file:///bakery/opening.txt text/plain 7 to 18
	// file:///bakery application/json ["recipes/rye.md"]
}
