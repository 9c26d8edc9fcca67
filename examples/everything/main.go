// Everything is an MCP server that uses every feature of the library. It holds
// the tools, resources, prompts and completions that the official conformance
// suite (github.com/modelcontextprotocol/conformance) calls for, under the names
// and with the texts that it expects, and a few more to try clients on:
//
//	go run ./examples/everything
//
// It speaks over standard input and output.
package main

import (
	"context"
	"log"

	"github.com/dovetail-go/dovetail/transport/stdio"
)

func main() {
	if err := stdio.Serve(context.Background(), newServer(), nil); err != nil {
		log.Fatal(err)
	}
}
