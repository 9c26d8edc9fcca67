// Inspect talks to any MCP server from the command line:
//
//	inspect [flags] VERB [ARGS] TARGET
//
// TARGET is the URL of a server (http, https, ws or wss), or -- and a command that
// runs one on its standard streams. Without it,
//
//	inspect -config mcp.json [flags] VERB [ARGS]
//
// looks at all servers of a file as at one, whose tools are called alias__tool. The verbs
// are
//
//	info                                  who the server is and what it can do
//	tools | resources | templates | prompts
//	call NAME [JSON]                      call a tool
//	read URI                              read a resource
//	prompt NAME [JSON]                    get a prompt
//	complete prompt NAME ARG VALUE        complete a prompt's argument
//	complete resource TEMPLATE ARG VALUE  complete a template's variable
//	listen [URI…]                         show changes until interrupted
//	ping                                  ask for a sign of life
//	session                               all of these, a line each, from standard input
//
// With -login, a server at an http URL that demands a token gets one: a browser opens, and
// what comes of it is kept, encrypted, for the next time.
//
// In a session, listen only begins to listen, and wait shows the next change. A line
// that begins with # is a comment, and the lines after a call answer what the server
// asks. Elsewhere a person at the terminal does, or all questions are declined.
//
// Standard output gets one JSON document, the result with all pages merged
// (listen: one line for each change); standard error shows progress. The exit status is 0, 2 when a tool reported
// an error, 1 when anything else went wrong; then standard error says what.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	var status exitStatus
	switch {
	case errors.As(err, &status):
		stop()
		os.Exit(int(status))
	case err != nil:
		fmt.Fprintln(os.Stderr, "inspect:", err)
		stop()
		os.Exit(1)
	}
}

// An exitStatus ends the program without a message.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// toolFailed is the status after a tool's error, which has been printed.
const toolFailed exitStatus = 2
