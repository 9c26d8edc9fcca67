package main

import (
	"bytes"
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
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/workspace"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// playwrightVersion is the version of @playwright/mcp with the tools of browser.json.
const playwrightVersion = "0.0.83"

// browserTools are the offered tools of the Playwright MCP server, as it lists them. They are
// embedded, so that the server starts with the first call.
//
//go:embed browser.json
var browserTools []byte

// A browser is the Playwright MCP server. If it does not start, a call returns the reason.
type browser struct {
	*bridge.Upstream
	dialer transport.Dialer
	folder string // the working directory and the settings of the server
	files  *browserFiles

	npx, chromium string
}

func newBrowser(guard *process.Guard, o options, files *workspace.Workspace, logger *slog.Logger) (*browser, error) {
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
	// A call may choose names of files, so the folder that they are written to has neither the settings nor packages for npx.
	output, settings := filepath.Join(b.folder, "files"), filepath.Join(b.folder, "settings.json")
	if err = os.Mkdir(output, 0o700); err == nil {
		b.files, err = openBrowserFiles(output, files)
	}
	if err == nil {
		err = b.configure(settings)
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	path, args := guard.Wrap(command[0], append(command[1:], "--config", settings)...)
	b.dialer = stdio.Command(path, args, &stdio.CommandOptions{Dir: b.folder, Env: process.Variables(strings.Split(o.pass, ",")...)})
	b.Upstream = bridge.Proxy(b, &bridge.ProxyOptions{
		Select: func(kind mcp.Kind, name string) bool {
			return kind == mcp.KindTool && slices.ContainsFunc(known, func(e *server.Entry) bool { return e.Name == name })
		},
		Rename:        map[string]string{"browser_mouse_wheel": "browser_scroll"},
		Era:           client.Legacy, // in the modern era, questions for roots would not pass through browserRoot
		CachedCatalog: server.NewCatalog(known, nil), Lazy: true, Sessions: 1, ConnectTimeout: 3 * time.Minute, CallTimeout: 2 * time.Minute, Logger: logger,
	})
	return b, nil
}

// configure writes the configuration of the browser: without the user's profile and without
// network access of its own.
func (b *browser) configure(path string) error {
	program, err := exec.LookPath(b.chromium)
	if err != nil {
		program = b.chromium // a call reports that it is missing
	}
	settings, err := json.Marshal(map[string]any{
		"browser": map[string]any{
			"browserName": "chromium", "isolated": true,
			"launchOptions": map[string]any{
				"executablePath": program, "headless": true,
				"chromiumSandbox": os.Geteuid() != 0, // the sandbox of Chromium does not work for root
				"args": []string{"--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
					"--disable-component-update", "--disable-sync"},
			},
		},
		"capabilities": []string{"vision"}, // for browser_mouse_wheel
		"outputDir":    b.files.dir, "outputMaxSize": maxBrowserBytes, "filePaths": "absolute", "codegen": "none",
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, settings, 0o600)
}

// Dial starts the server.
func (b *browser) Dial(ctx context.Context, handler jsonrpc.Handler) (transport.Conn, error) {
	for _, program := range []string{b.npx, b.chromium} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%q is not installed", program)
		}
	}
	return b.dialer.Dial(ctx, browserRoot{handler, b.files.dir})
}

// screenshot returns the tool browser_screenshot: browser_take_screenshot under a shorter name.
// Rules for the longer name apply to it.
func (b *browser) screenshot() *server.Entry {
	const name, original = `"browser_screenshot"`, `"browser_take_screenshot"`
	known := b.Catalog().Lookup(mcp.KindTool, strings.Trim(original, `"`))
	handle := func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		var params map[string]json.RawMessage
		if err := json.Unmarshal(call.Params(), &params); err != nil {
			return nil, err
		}
		renamed := []byte(`{"name":` + original)
		for key, value := range params {
			if key != "name" {
				renamed = fmt.Appendf(renamed, ",%q:%s", key, value) // json.Marshal would change the arguments
			}
		}
		inner, err := call.Enter(&known.Target, append(renamed, '}'), nil)
		if err != nil {
			return nil, err
		}
		return b.files.middleware(known.Handle)(ctx, inner)
	}
	definition := bytes.Replace(known.Definition.JSON(), []byte(original), []byte(name), 1)
	return &server.Entry{Target: mcp.Target{
		Kind: mcp.KindTool, Name: strings.Trim(name, `"`), Definition: mcp.NewDefinition(definition), Origin: known.Origin,
	}, Handle: explain(handle), Task: known.Task, Tasks: known.Tasks}
}

// explain returns a tool error with the reason if the browser is not available.
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

func (b *browser) close() error {
	err := os.RemoveAll(b.folder)
	if b.files != nil {
		err = errors.Join(err, b.files.close())
	}
	return err
}
