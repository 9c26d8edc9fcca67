package archtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The programs are one server with one typed tool, over stdio and over HTTP, and a gateway.
const (
	stdioServer    = "./internal/test/archtest/testdata/stdioserver"
	httpServer     = "./internal/test/archtest/testdata/httpserver"
	gatewayProgram = "./internal/test/archtest/testdata/gateway"
)

func TestStdioServerLinksNoHTTP(t *testing.T) {
	t.Parallel()
	out, err := goCommand("list", "-deps", stdioServer)
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, modulePath+"/server") {
		t.Fatalf("the program does not link the server package: %q", linked)
	}
	for _, name := range linked {
		if name == "net/http" || strings.HasPrefix(name, "net/http/") {
			t.Errorf("a server that supports only stdio links %s", name)
		}
	}
}

func TestServersAreSmall(t *testing.T) {
	t.Parallel()
	// The limits in bytes are about half a percent above the sizes, which CONTRIBUTING.md explains.
	for program, limit := range map[string]int64{
		stdioServer: 7_290_000,
		httpServer:  10_845_000,
	} {
		t.Run(filepath.Base(program), func(t *testing.T) {
			size := buildSize(t, program)
			t.Logf("stripped: %d bytes of at most %d", size, limit)
			if size > limit {
				t.Errorf("the program has %d bytes, want at most %d", size, limit)
			}
		})
	}
}

// A gateway has a console for at most 400 kB more.
func TestConsoleIsSmall(t *testing.T) {
	t.Parallel()
	const limit = 400_000
	size := buildSize(t, gatewayProgram, "-tags=console") - buildSize(t, gatewayProgram)
	t.Logf("stripped: %d bytes of the console, of at most %d", size, limit)
	if size > limit {
		t.Errorf("the console has %d bytes, want at most %d", size, limit)
	}
}

// buildSize builds a program, and returns the size of its stripped binary in bytes.
func buildSize(t *testing.T, program string, flags ...string) int64 {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "server")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", binary)
	cmd.Args = append(append(cmd.Args, flags...), program)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// A typed tool compiles code for its types, which is a small part of what the server does with them.
func TestTypedToolsAreSmall(t *testing.T) {
	t.Parallel()
	const tools, limit = 100, 12_000 // bytes of a tool
	few, many := buildSize(t, typedTools(t, 1)), buildSize(t, typedTools(t, 1+tools))
	perTool := (many - few) / tools
	t.Logf("stripped: %d bytes of a typed tool, of at most %d", perTool, limit)
	if perTool > limit {
		t.Errorf("a typed tool has %d bytes, want at most %d", perTool, limit)
	}
}

// typedTools writes a server of tools with a struct each for their arguments and results, and returns its path.
func typedTools(t *testing.T, tools int) string {
	var b strings.Builder
	b.WriteString(`package main

import (
	"context"

	"` + modulePath + `/mcp"
	"` + modulePath + `/server"
	"` + modulePath + `/transport/stdio"
)

func main() {
	s := server.New(mcp.Implementation{Name: "typed", Version: "1"}, nil)
`)
	for i := range tools {
		fmt.Fprintf(&b, `	server.AddTool(s, server.Tool{Name: "tool%[1]d", Description: "The tool %[1]d."}, tool%[1]d)
`, i)
	}
	b.WriteString("\t_ = stdio.Run(s, nil)\n}\n")
	for i := range tools {
		fmt.Fprintf(&b, `
type in%[1]d struct {
	Query%[1]d string   `+"`json:\"query\" jsonschema:\"minLength=1\"`"+`
	Limit     int      `+"`json:\"limit,omitempty\"`"+`
	Labels    []string `+"`json:\"labels,omitempty\"`"+`
}

type out%[1]d struct {
	Found%[1]d []string `+"`json:\"found\"`"+`
	More      bool     `+"`json:\"more\"`"+`
}

func tool%[1]d(ctx context.Context, r *server.Request, in in%[1]d) (out%[1]d, error) {
	return out%[1]d{Found%[1]d: in.Labels, More: in.Limit > len(in.Query%[1]d)}, ctx.Err()
}
`, i)
	}
	path := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
