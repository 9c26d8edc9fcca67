package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	echoTool  = "echo"  // returns its arguments, as structured content and as text
	countTool = "count" // sends Units progress notifications, then returns counted
	counted   = "counted"
)

// Echo is the type of the arguments and of the result of echo.
type Echo struct {
	Message string `json:"message"`
	N       int    `json:"n"`
}

// An echo has the arguments of a call of echo, and checks results.
type echo struct {
	in   Echo
	json json.RawMessage // of in; w.Size bytes
}

func newEcho(w Work) *echo {
	const frame = len(`{"message":"","n":12345}`)
	in := Echo{Message: strings.Repeat("x", max(w.Size-frame, 0)), N: 12345}
	encoded, err := json.Marshal(in)
	if err != nil {
		panic(err) // an Echo is a string and a number
	}
	return &echo{in, encoded}
}

// check checks structured content as a client returns it: an Echo, or a map.
func (e *echo) check(got any) error {
	switch got := got.(type) {
	case Echo:
		if got == e.in {
			return nil
		}
	case map[string]any:
		if got["message"] == e.in.Message && got["n"] == float64(e.in.N) {
			return nil
		}
	}
	return fmt.Errorf("echo returned a %T that differs from the arguments: %.200v", got, got)
}

// checkBytes checks the response to request 7. It allocates nothing.
func (e *echo) checkBytes(answer []byte) error {
	_, content, found := bytes.Cut(answer, []byte(`"structuredContent":`))
	if !found || !bytes.HasPrefix(content, e.json) || !bytes.Contains(answer, []byte(`"id":7`)) {
		return fmt.Errorf("the response is %.200s", answer)
	}
	return nil
}

// request returns a call of echo with the id 7.
func (e *echo) request(era Era) []byte {
	meta := ""
	if era == Modern {
		meta = "," + modernMeta
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, echoTool, e.json, meta)
}

// modernMeta is a member of the params of requests in the modern era.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`

// initialize and initialized open a session of the legacy era.
const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":` +
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// toolDescription is the description of the tools that are named by toolName.
const toolDescription = "One of many tools that return their arguments."

func toolName(i int) string { return fmt.Sprintf("tool_%04d", i) }

// toolNames checks lists of tools.
type toolNames map[string]bool

func newToolNames(w Work) toolNames {
	names := make(toolNames, w.Tools)
	for i := range w.Tools {
		names[toolName(i)] = true
	}
	return names
}

// check checks a list of n tools. tool returns the name of a tool, and whether it has an input schema.
func (names toolNames) check(n int, tool func(i int) (name string, described bool)) error {
	if n != len(names) {
		return fmt.Errorf("%d tools, want %d", n, len(names))
	}
	for i := range n {
		if name, described := tool(i); !names[name] || !described {
			return fmt.Errorf("tool %q, described: %t", name, described)
		}
	}
	return nil
}
