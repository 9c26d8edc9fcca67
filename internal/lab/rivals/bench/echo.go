package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	echoTool  = "echo"  // gives back its arguments, as structured content and as text
	countTool = "count" // counts to Units by progress notifications, then says counted
	counted   = "counted"
)

// Echo is what echo takes and gives.
type Echo struct {
	Message string `json:"message"`
	N       int    `json:"n"`
}

// echoSchema describes Echo, where a schema has to be given: for Raw.
const echoSchema = `{"type":"object","properties":{"message":{"type":"string"},"n":{"type":"integer"}},"required":["message","n"],"additionalProperties":false}`

// echoOf is an Echo of size bytes as JSON.
func echoOf(size int) Echo {
	const frame = len(`{"message":"","n":12345}`)
	return Echo{Message: strings.Repeat("x", max(size-frame, 0)), N: 12345}
}

// An echo is what a call of echo takes, and the check of what it gives.
type echo struct {
	in   Echo
	json json.RawMessage // of in
}

func newEcho(w Work) *echo {
	in := echoOf(w.Size)
	encoded, err := json.Marshal(in)
	if err != nil {
		panic(err) // an Echo is a string and a number
	}
	return &echo{in, encoded}
}

// check checks structured content that has been decoded to what it is.
func (e *echo) check(got Echo) error {
	if got != e.in {
		return fmt.Errorf("echo gave a message of %d bytes and %d, want %d bytes and %d",
			len(got.Message), got.N, len(e.in.Message), e.in.N)
	}
	return nil
}

// checkAny checks structured content that has been decoded to what JSON is, or not
// at all.
func (e *echo) checkAny(got any) error {
	switch got := got.(type) {
	case map[string]any:
		message, _ := got["message"].(string)
		n, _ := got["n"].(float64)
		return e.check(Echo{message, int(n)})
	case json.RawMessage:
		if bytes.Equal(got, e.json) {
			return nil
		}
		return fmt.Errorf("echo gave %d bytes, want %d", len(got), len(e.json))
	}
	return fmt.Errorf("echo gave a %T", got)
}

// checkBytes checks the answer to request 7. It allocates nothing.
func (e *echo) checkBytes(answer []byte) error {
	_, content, found := bytes.Cut(answer, []byte(`"structuredContent":`))
	if !found || !bytes.HasPrefix(content, e.json) || !bytes.Contains(answer, []byte(`"id":7`)) {
		return fmt.Errorf("the answer is %.200s", answer)
	}
	return nil
}

// request is the call of echo with the id 7, as the era has it.
func (e *echo) request(era Era) []byte {
	meta := ""
	if era == Modern {
		meta = "," + modernMeta
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, echoTool, e.json, meta)
}

// modernMeta is what requests of the modern era say besides.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{},` +
	`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`

// initialize and initialized open a session of the legacy era.
const (
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":` +
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)
