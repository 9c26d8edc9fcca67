// Server is the server of docs/start.md. It calculates, over standard input and output:
//
//	go run ./docs/start/server [-http ADDRESS]
//
// With an address, such as 127.0.0.1:8080, it serves HTTP there.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"math"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

type DivideIn struct {
	Dividend float64 `json:"dividend" jsonschema_description:"the number to divide"`
	Divisor  float64 `json:"divisor" jsonschema_description:"the number to divide by, not 0"`
	Digits   int     `json:"digits,omitempty" jsonschema_description:"digits after the point" jsonschema:"default=2,minimum=0,maximum=9"`
}

func divide(ctx context.Context, r *server.Request, in DivideIn) (float64, error) {
	if in.Divisor == 0 {
		return 0, errors.New("the divisor is 0: choose another one")
	}
	scale := math.Pow10(in.Digits)
	return math.Round(in.Dividend/in.Divisor*scale) / scale, nil
}

func main() {
	address := flag.String("http", "", "serve HTTP at this `address`; default: standard input and output")
	flag.Parse()

	s := server.New(mcp.Implementation{Name: "calc", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "divide", Description: "Divide two numbers."}, divide)

	var err error
	if *address == "" {
		err = stdio.Run(s, nil)
	} else {
		err = streamable.Run(*address, s, nil)
	}
	if err != nil {
		log.Fatal(err)
	}
}
