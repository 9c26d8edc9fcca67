// Server is the server of docs/describe.md. It adds numbers, and describes itself:
//
//	go run ./docs/describe/server [-http ADDRESS | -write FOLDER]
//
// Without a flag it serves standard input and output. With an address, such as 127.0.0.1:8080, it
// serves HTTP there, and its server card. With a folder, which has its programs calc-linux,
// calc-darwin and calc-windows and an icon.png, it writes calc.mcpb and server.json there.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/describe"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

type AddIn struct {
	A int `json:"a" jsonschema_description:"first summand"`
	B int `json:"b" jsonschema_description:"second summand"`
}

func newServer() *server.Server {
	s := server.New(mcp.Implementation{
		Name: "com.example/calc", Title: "Calculator", Version: "1.0.0", Description: "Adds numbers.",
		WebsiteURL: "https://example.com/calc",
	}, nil)
	server.AddTool(s, server.Tool{Name: "add", Description: "Add two integers."},
		func(ctx context.Context, r *server.Request, in AddIn) (int, error) { return in.A + in.B, nil })
	return s
}

func description(s *server.Server) describe.Server {
	d := describe.Of(s)
	d.Remotes = []describe.Remote{describe.NewRemote("https://example.com/mcp")}
	d.Repository = &describe.Repository{URL: "https://github.com/example/calc", Source: "github"}
	d.Author = describe.Author{Name: "Example"}
	d.License = "Apache-2.0"
	return d
}

func serve(address string, s *server.Server) error {
	cards, err := describe.Handler(description(s))
	if err != nil {
		return err
	}
	return streamable.Run(address, s, &streamable.ServeOptions{Other: cards})
}

func write(folder string, d describe.Server) error {
	file, err := os.Create(filepath.Join(folder, "calc.mcpb"))
	if err != nil {
		return err
	}
	sum := sha256.New()
	err = d.WriteBundle(io.MultiWriter(file, sum), &describe.Bundle{
		Files:    os.DirFS(folder),
		Programs: map[string]string{"darwin": "calc-darwin", "linux": "calc-linux", "windows": "calc-windows"},
		Icon:     "icon.png",
	})
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}

	d.Packages = []describe.Package{{
		Registry:   "mcpb",
		Identifier: "https://github.com/example/calc/releases/download/v" + d.Version + "/calc.mcpb",
		Version:    d.Version,
		SHA256:     hex.EncodeToString(sum.Sum(nil)),
	}}
	text, err := d.Registry()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "server.json"), text, 0o600)
}

func main() {
	address := flag.String("http", "", "serve HTTP at this `address`")
	folder := flag.String("write", "", "write the bundle and server.json to this `folder`")
	flag.Parse()

	s := newServer()
	var err error
	switch {
	case *folder != "":
		err = write(*folder, description(s))
	case *address != "":
		err = serve(*address, s)
	default:
		err = stdio.Run(s, nil)
	}
	if err != nil {
		log.Fatal(err)
	}
}
