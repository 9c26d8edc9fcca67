package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// playwrightVersion is the version of @playwright/mcp that browserTools are of.
const playwrightVersion = "0.0.83"

// browserTools are those tools of the Playwright MCP server that are offered, as it lists
// them. They are known beforehand, so that it is started by the first call only.
//
//go:embed browser.json
var browserTools []byte

// A browser is the Playwright MCP server. When it cannot be started, a call says why.
type browser struct {
	*bridge.Upstream
	dialer transport.Dialer
	folder string // for what it writes

	npx, chromium string
}

func newBrowser(guard *process.Guard, o options, logger *slog.Logger) (*browser, error) {
	command := strings.Fields(o.browser)
	if len(command) == 0 {
		return nil, errors.New("-browser: expected the command of the Playwright MCP server")
	}
	var tools []json.RawMessage
	if err := json.Unmarshal(browserTools, &tools); err != nil {
		return nil, err
	}
	var known []*server.Entry
	for _, tool := range tools {
		var entry mcp.Tool
		if err := json.Unmarshal(tool, &entry); err != nil {
			return nil, err
		}
		known = append(known, &server.Entry{Target: mcp.Target{Kind: mcp.KindTool, Name: entry.Name, Definition: mcp.NewDefinition(tool)}})
	}
	b := &browser{npx: command[0], chromium: o.chromium}
	var err error
	if b.folder, err = os.MkdirTemp("", "sandbox-browser-"); err != nil {
		return nil, err
	}
	settings := filepath.Join(b.folder, "settings.json")
	if err := b.configure(settings); err != nil {
		return nil, errors.Join(err, b.close())
	}
	path, args := guard.Wrap(command[0], append(command[1:], "--config", settings)...)
	b.dialer = stdio.Command(path, args, &stdio.CommandOptions{Dir: b.folder, Env: process.Variables(strings.Split(o.pass, ",")...)})
	b.Upstream = bridge.Proxy(b, &bridge.ProxyOptions{
		Select: func(kind mcp.Kind, name string) bool {
			return kind == mcp.KindTool && slices.ContainsFunc(known, func(e *server.Entry) bool { return e.Name == name })
		},
		CachedCatalog: server.NewCatalog(known, nil), Lazy: true, Shared: true, ConnectTimeout: 3 * time.Minute, CallTimeout: 2 * time.Minute, Logger: logger,
	})
	return b, nil
}

// configure writes how the browser is started: with nothing of the user's, and without
// going to the network by itself.
func (b *browser) configure(path string) error {
	program, err := exec.LookPath(b.chromium)
	if err != nil {
		program = b.chromium // whose absence is told to who calls
	}
	settings, err := json.Marshal(map[string]any{
		"browser": map[string]any{
			"browserName": "chromium", "isolated": true,
			"launchOptions": map[string]any{
				"executablePath": program, "headless": true,
				"chromiumSandbox": os.Geteuid() != 0, // it refuses to be root's
				"args": []string{"--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
					"--disable-component-update", "--disable-sync"},
			},
		},
		"outputDir": b.folder, "codegen": "none",
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, settings, 0o600)
}

// Dial starts the server, if there is what it needs.
func (b *browser) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	for _, program := range []string{b.npx, b.chromium} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%q is not installed", program)
		}
	}
	return b.dialer.Dial(ctx, handler)
}

// explain tells the model that the browser cannot be reached, and why.
func explain(next mcp.Handler) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		result, err := next(ctx, call)
		if failed, ok := errors.AsType[*bridge.UpstreamError](err); ok && failed.Delivery == jsonrpc.NotSent && ctx.Err() == nil {
			text := fmt.Sprintf("The browser cannot be used: %v. It takes Node.js with npx, which fetches @playwright/mcp, and Chromium.", failed.Err)
			return &mcp.CallToolResult{IsError: true, Content: mcp.ContentList{mcp.Text(text)}}, nil
		}
		return result, err
	}
}

func (b *browser) close() error { return os.RemoveAll(b.folder) }
