//go:build unix

package shell_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/process"
	"github.com/dovetail-go/dovetail/server/shell"
	"github.com/dovetail-go/dovetail/server/workspace"
	"github.com/dovetail-go/dovetail/transport"
)

func ExampleNew() {
	guard := process.Main() // must be the first call in main, as in TestMain of this package
	dir, err := os.MkdirTemp("", "shell")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	files, err := workspace.Open(dir, &workspace.Options{Protected: []string{".git"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer files.Close()
	sh, err := shell.New(guard, files, &shell.Options{PortURL: "https://{port}-host.example"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sh.Close()
	if err := sh.Credentials().Set("github", "GITHUB_TOKEN", "secret-token"); err != nil {
		fmt.Println(err)
		return
	}
	entries, err := sh.Tools()
	if err != nil {
		fmt.Println(err)
		return
	}
	s := server.New(mcp.Implementation{Name: "sandbox", Version: "1"}, nil)
	if err := s.Replace(entries...); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	for _, arguments := range []string{
		`{"command":"echo hello; exit 3"}`,
		`{"command":"echo $GITHUB_TOKEN","credentials":["github"]}`,
	} {
		result, err := session.CallTool(ctx, "run_command", json.RawMessage(arguments), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(result.StructuredContent))
	}
	// Output:
	// {"exit_code":3,"stdout":"hello\n","stderr":"","truncated":false,"timed_out":false}
	// {"exit_code":0,"stdout":"[redacted]\n","stderr":"","truncated":false,"timed_out":false}
}
