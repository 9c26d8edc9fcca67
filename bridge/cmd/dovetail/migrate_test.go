package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the tested program needs of mcp-go. The programs in internal/lab/rivals/migrate use mcp-go itself.
const (
	rivalModule = "module github.com/mark3labs/mcp-go\n\ngo 1.24.0\n"
	rivalTypes  = `package mcp

type CallToolRequest struct{ Params struct{ Arguments any } }

func (CallToolRequest) GetString(name, otherwise string) string { return otherwise }

type CallToolResult struct{ IsError bool }

type Tool struct{ Name string }

type ToolOption func(*Tool)

func NewTool(name string, opts ...ToolOption) Tool { return Tool{name} }

func NewToolResultText(text string) *CallToolResult { return &CallToolResult{} }
`
	rivalServer = `package server

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
)

type (
	MCPServer       struct{}
	ServerOption    func(*MCPServer)
	Hooks           struct{}
	ToolHandlerFunc func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error)
)

func NewMCPServer(name, version string, opts ...ServerOption) *MCPServer { return &MCPServer{} }
func WithHooks(*Hooks) ServerOption                                      { return nil }
func (*MCPServer) AddTool(mcp.Tool, ToolHandlerFunc)                     {}
func (*MCPServer) Drain()                                                {}
func ServeStdio(*MCPServer) error                                        { return nil }
`
)

const (
	migratedModule = `module example.com/greeter

go 1.24.0

require github.com/mark3labs/mcp-go v1.0.0

replace github.com/mark3labs/mcp-go => ./rival
`
	migratedProgram = `package main

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// greet stays as it is:   also this comment.
func greet(_ context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText("Hello, " + request.GetString("name", "you")), nil
}

func main() {
	s := server.NewMCPServer("greeter", "1.0.0")
	s.AddTool(mcp.NewTool("greet"), greet)
	_ = server.ServeStdio(s)
}
`
)

// migrated returns the folder of a module with a program, which is committed.
func migrated(t *testing.T, program string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": migratedModule, "main.go": program,
		"rival/go.mod": rivalModule, "rival/mcp/mcp.go": rivalTypes, "rival/server/server.go": rivalServer,
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-q", "-m", "all"}} {
		if _, err := git(t.Context(), folder, args...); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// migrates runs dovetail migrate with the library of this repository.
func migrates(t *testing.T, args ...string) (out, report string, err error) {
	t.Helper()
	library, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err = run(t.Context(), append([]string{"migrate", "-library", library}, args...), nil, &stdout, &stderr)
	return stdout.String(), stderr.String(), err
}

func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == ".git" {
			return fs.SkipDir
		}
		if err == nil && d.Type().IsRegular() {
			text, failed := os.ReadFile(filepath.Join(folder, name))
			files[name], err = string(text), failed
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestMigratePrintsADiffAndWritesTheSame(t *testing.T) {
	folder := migrated(t, migratedProgram)
	before := contents(t, folder)
	diff, report, err := migrates(t, folder)
	if err != nil {
		t.Fatal(err)
	}
	if want := "0 places are left to do by hand. 0 compile errors remain.\n"; !strings.HasSuffix(report, want) {
		t.Errorf("the report is %q", report)
	}
	for name, text := range contents(t, folder) {
		if text != before[name] {
			t.Errorf("%s has changed without -w", name)
		}
	}
	if _, _, err := migrates(t, "-w", folder); err != nil {
		t.Fatal(err)
	}
	written := contents(t, folder)
	for _, part := range []string{"// greet stays as it is:   also this comment.\n", "stdio.Run(s, nil)"} {
		if !strings.Contains(written["main.go"], part) {
			t.Errorf("main.go lacks %q:\n%s", part, written["main.go"])
		}
	}
	if strings.Contains(written["go.mod"], "require github.com/mark3labs/mcp-go") {
		t.Errorf("go.mod still requires the other library:\n%s", written["go.mod"])
	}
	apply := exec.CommandContext(t.Context(), "git", "apply", "-")
	apply.Dir, apply.Stdin = migrated(t, migratedProgram), strings.NewReader(diff)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s", err, out)
	}
	for name, text := range contents(t, apply.Dir) {
		if text != written[name] {
			t.Errorf("%s is not what -w has written:\n%s", name, text)
		}
	}
}

func TestMigrateLeavesToAPerson(t *testing.T) {
	program := strings.NewReplacer(`"1.0.0"`, `"1.0.0", server.WithHooks(&server.Hooks{})`, "_ = server", "s.Drain()\n\t_ = server").Replace(migratedProgram)
	folder := migrated(t, program)
	outside := filepath.Join(t.TempDir(), "linked.go")
	linked := "package main\n\nimport _ \"github.com/mark3labs/mcp-go/server\"\n"
	if err := errors.Join(os.WriteFile(outside, []byte(linked), 0o644), os.Symlink(outside, filepath.Join(folder, "linked.go"))); err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(migratedModule, "go 1.24.0", "go 1.25.0", 1)
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := migrates(t, "-w", folder)
	if err == nil || err.Error() != "go.mod would be written and is not committed; commit it, or use -force" || contents(t, folder)["main.go"] != program {
		t.Fatalf("a file that is not committed: error %v", err)
	}
	_, report, err := migrates(t, "-w", "-force", folder)
	if err != nil {
		t.Fatal(err)
	}
	files := contents(t, folder)
	for _, part := range []string{
		"\t// TODO(dovetail): left out: server.WithHooks(&server.Hooks{}); hooks are Options.Middleware and OnSession",
		"\t// TODO(dovetail): server.MCPServer.Drain has no counterpart that dovetail migrate knows\n\ts.Drain()\n",
	} {
		if !strings.Contains(files["main.go"], part) {
			t.Errorf("main.go lacks %q:\n%s", part, files["main.go"])
		}
	}
	for _, part := range []string{"linked.go: not read", "main.go:18: server.MCPServer.Drain has", "main.go:26:4: s.Drain undefined", "2 places are left"} {
		if !strings.Contains(report, part) {
			t.Errorf("the report lacks %q:\n%s", part, report)
		}
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != linked {
		t.Errorf("a file outside of the module is %q, %v", text, err)
	}
}

func TestMigrateRefuses(t *testing.T) {
	for name, test := range map[string]struct{ program, want string }{
		"a program that does not compile":         {"package main\n\nfunc main() { nothing() }\n", "does not compile: main.go:3:15: undefined: nothing"},
		"a program that uses no other library":    {"package main\n\nfunc main() {}\n", "no package of the module imports"},
		"a program that is not a module's folder": {"", "has no go.mod"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if test.program != "" {
				folder = migrated(t, test.program)
			}
			_, _, err := migrates(t, folder)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
