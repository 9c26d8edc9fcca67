package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const coldHeader = `//go:build coldtypes

package main

import (
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	gosdkmcp "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dovetail-go/dovetail/server"
)

`

// A coldProgram is this program, built with a type of its own for each tool. A loop would
// not do: a library can reflect a type once and keep the result.
type coldProgram struct{ folder string }

// buildCold generates types for a number of tools into a temporary folder and builds the program there.
// It needs Go, and a working directory in this module or its workspace.
func buildCold(ctx context.Context, tools int) (_ *coldProgram, err error) {
	source, err := sourceFolder(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "dovetail-bench")
	if err != nil {
		return nil, err
	}
	built := &coldProgram{folder}
	defer func() {
		if err != nil {
			err = errors.Join(err, built.remove())
		}
	}()
	types := filepath.Join(folder, "cold_types.go")
	if err := os.WriteFile(types, generateCold(tools), 0o644); err != nil {
		return nil, err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(source, "cold_types.go"): types}})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "coldtypes", "-overlay", filepath.Join(folder, "overlay.json"), "-o", built.path(), ".")
	cmd.Dir = source
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the program for cold starts: %w\n%s", err, said)
	}
	return built, nil
}

// sourceFolder asks Go, because a program that was built with -trimpath does not know.
func sourceFolder(ctx context.Context) (string, error) {
	folder, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "github.com/dovetail-go/dovetail/internal/lab/rivals/bench").Output()
	if err != nil {
		return "", fmt.Errorf("finding the source of this program: %w", err)
	}
	return strings.TrimSpace(string(folder)), nil
}

func (p *coldProgram) path() string { return filepath.Join(p.folder, "cold.exe") }

func (p *coldProgram) remove() error { return os.RemoveAll(p.folder) }

// generateCold returns a type for each tool, and for each library how their tools are registered.
// Tools take pointers to them, for the compiler's sake: it makes one function of all functions
// that have pointers for type arguments. mcp-go's schema of a pointer differs from its schema of
// the type that is pointed to, so mcp-go gets the types.
func generateCold(tools int) []byte {
	var b bytes.Buffer
	b.WriteString(coldHeader)
	for i := range tools {
		fmt.Fprintf(&b, "type cold%04d struct {\n", i)
		fmt.Fprintf(&b, "\tQuery%[1]d string `json:\"query_%[1]d\"`\n", i)
		fmt.Fprintf(&b, "\tLimit%[1]d int `json:\"limit_%[1]d,omitempty\"`\n", i)
		fmt.Fprintf(&b, "\tTags%[1]d []string `json:\"tags_%[1]d,omitempty\"`\n", i)
		fmt.Fprintf(&b, "\tPlace%[1]d struct { X%[1]d, Y%[1]d float64 } `json:\"place_%[1]d\"`\n}\n\n", i)
	}
	for _, table := range []struct{ name, server, star string }{
		{"Dovetail", "*server.Server", "*"},
		{"GoSDK", "*gosdkmcp.Server", "*"},
		{"MCPGo", "*mcpgoserver.MCPServer", ""},
	} {
		fmt.Fprintf(&b, "// cold%s are functions that add a tool that takes and gives one of the types.\n", table.name)
		fmt.Fprintf(&b, "func cold%s() []func(s %s, name string) {\n\treturn []func(%s, string){\n", table.name, table.server, table.server)
		for i := range tools {
			fmt.Fprintf(&b, "add%s[%scold%04d],\n", table.name, table.star, i)
		}
		b.WriteString("}\n}\n\n")
	}
	return b.Bytes()
}
