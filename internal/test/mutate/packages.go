package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// corePackages returns the folders of the packages that are mutated. They work for every user of
// the module and have tests of their own. A package that is tested only through others is not
// among them.
func corePackages() []string {
	return []string{
		"approval", "approval/channel", "bridge", "bridge/pin", "client", "client/webhook",
		"internal/backoff", "internal/bufpool", "internal/deadline",
		"internal/era", "internal/era/forward", "internal/httpclient", "internal/httpguard",
		"internal/jsonscan", "internal/netguard", "internal/paramheader",
		"internal/pattern", "internal/quota", "internal/sse", "internal/task", "internal/token",
		"internal/uritemplate", "internal/webhook/signature",
		"jsonrpc", "mcp", "policy", "schema", "server", "server/webhook",
		"transport", "transport/oauth", "transport/oauth/proxy", "transport/sse", "transport/stdio",
		"transport/store", "transport/streamable", "transport/ws",
	}
}

// A testedPackage is a package with its possible mutations.
type testedPackage struct {
	folder     string // slash-separated, relative to the module
	mutations  []mutation
	concurrent bool   // uses locks, channels or goroutines, so its tests run with the race detector
	overAll    bool   // its tests run over every transport
	plain      bool   // some of its tests do not run with the race detector
	sourceSum  string // of the package's files
	testSum    string // of the files of its tests
}

// loadPackage parses a package as it is built on this system.
func loadPackage(root, folder string) (*testedPackage, error) {
	dir := filepath.Join(root, filepath.FromSlash(folder))
	files, err := build.Default.ImportDir(dir, 0)
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", folder, err)
	}
	tests := append(files.TestGoFiles, files.XTestGoFiles...)
	if len(tests) == 0 {
		return nil, fmt.Errorf("package %s has no tests", folder)
	}
	p := &testedPackage{folder: folder}
	sum := sha256.New()
	for _, name := range files.GoFiles {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		sum.Write(text)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.concurrent = p.concurrent || isConcurrent(file)
		if !ast.IsGenerated(file) {
			p.mutations = append(p.mutations, mutationsOf(folder, name, text, fset, file)...)
		}
	}
	p.sourceSum = hex.EncodeToString(sum.Sum(nil)[:8])
	sum.Reset()
	for _, name := range tests {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		sum.Write(text)
		p.overAll = p.overAll || strings.Contains(string(text), "transporttests.Main(")
		p.plain = p.plain || strings.Contains(string(text), "racetest.Enabled")
	}
	p.testSum = hex.EncodeToString(sum.Sum(nil)[:8])
	return p, nil
}

// isConcurrent reports whether a file has channels or goroutines or uses package sync.
func isConcurrent(file *ast.File) bool {
	for _, spec := range file.Imports {
		if spec.Path.Value == `"sync"` || spec.Path.Value == `"sync/atomic"` {
			return true
		}
	}
	found := false
	ast.Inspect(file, func(node ast.Node) bool {
		switch node.(type) {
		case *ast.GoStmt, *ast.ChanType:
			found = true
		}
		return !found
	})
	return found
}
