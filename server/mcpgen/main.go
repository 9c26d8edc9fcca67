// Mcpgen makes descriptions of doc comments, which no program can see when it runs:
// what the methods of a service do, and what the fields of their arguments mean.
//
//	mcpgen [-check] [folder]
//
// It reads the Go files of the package in the folder, by default the one it runs in,
// and writes mcp_descriptions.go beside them. For each type with a method that
// server.AddService would register, that is one that takes a context.Context and a
// struct with a blank field of type server.ToolTag, server.ResourceTag or
// server.PromptTag, the file has a method Descriptions, which AddService looks for:
//
//	//go:generate go tool mcpgen
//
//	type SearchIn struct {
//		_ server.ToolTag `readOnly:"true"`
//		// Query is what to look for.
//		Query string `json:"query"`
//		Limit int    `json:"limit,omitempty"` // at most so many items
//	}
//
//	// Search finds items of the catalogue by their words.
//	func (s *Shop) Search(ctx context.Context, in SearchIn) ([]Item, error)
//
// becomes
//
//	func (*Shop) Descriptions() server.Descriptions {
//		return server.Descriptions{
//			"Search":       "Finds items of the catalogue by their words.",
//			"Search.query": "What to look for.",
//			"Search.limit": "at most so many items",
//		}
//	}
//
// A description is the first paragraph of a comment, on one line. A name that it
// begins with is left out where a verb follows, since clients know the method and the
// field by other names. Methods and fields of embedded types are described as well,
// also those that other packages declare. What a tag says of a method or a field wins
// over its comment.
//
// # Running it
//
// "go get -tool github.com/dovetail-go/dovetail/server/mcpgen" makes it a tool of the
// module, for "go generate"; without that,
// "go run github.com/dovetail-go/dovetail/server/mcpgen" does the same. The result
// depends on nothing but the files that a build for GOOS and GOARCH takes, tests left
// out. A file that mcpgen did not write is never overwritten.
//
// With -check nothing is written. The exit status is 1, and standard output has a diff,
// if the file is not what mcpgen would write; that is for tests and continuous
// integration. It is also 1 when anything else goes wrong; then standard error says in
// which line. A wrong command line has the status 2.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program; it returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("mcpgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "write nothing; fail if the file is not up to date")
	flags.Usage = func() {
		fmt.Fprintf(stderr, "usage: mcpgen [-check] [folder]\n")
		flags.PrintDefaults()
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 1:
		flags.Usage()
		return 2
	}
	folder := "."
	if flags.NArg() == 1 {
		folder = flags.Arg(0)
	}
	if err := generate(folder, *check, stdout); err != nil {
		fmt.Fprintf(stderr, "mcpgen: %v\n", err)
		return 1
	}
	return 0
}

// generate brings the file in a folder up to date, or says that it is not.
func generate(folder string, check bool, stdout io.Writer) error {
	before, err := readOutput(folder)
	if err != nil {
		return err
	}
	source := newSource(folder)
	pkg, err := source.own()
	if err != nil {
		return err
	}
	services, err := source.services(pkg)
	if err != nil {
		return err
	}
	after, err := output(pkg, services)
	if err != nil {
		return err
	}
	if check {
		return compare(before, after, stdout)
	}
	return writeOutput(folder, before, after)
}
