package config_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dovetail-go/dovetail/bridge/config"
)

const exampleFile = `{
  "mcpServers": {
    // Runs on this machine.
    "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${HOME}/notes"]},
    "api": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "icon": "🔌"},
  },
}`

// Reads a file and expands the variables. Printed servers do not show secrets.
func ExampleParse() {
	file, err := config.Parse([]byte(exampleFile), "mcp.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, warning := range file.Warnings {
		fmt.Println(warning)
	}
	values := map[string]string{"HOME": "/home/me", "TOKEN": "s3cret"}
	servers, err := file.Expand(context.Background(), &config.Expander{
		LookupEnv: func(name string) (string, bool) { value, ok := values[name]; return value, ok },
	})
	for _, server := range servers {
		fmt.Println(server)
	}
	fmt.Println(servers[0].Args[2].Reveal(), err)
	// Output:
	// 5:96: mcpServers.api.icon: is unknown and has no effect
	// {"alias":"files","type":"stdio","command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","${HOME}/notes"]}
	// {"alias":"api","type":"http","url":"https://example.com/mcp","headers":{"Authorization":"[redacted]"}}
	// /home/me/notes <nil>
}

// Errors name the position, the member and the expected value.
func ExampleError() {
	_, err := config.Parse([]byte(`{"mcpServers": {"files": {"comand": "npx", "args": [1]}}}`), "mcp.json")
	fmt.Println(err)

	file, _ := config.Parse([]byte(exampleFile), "mcp.json")
	_, err = file.Server("api").Expand(context.Background(), &config.Expander{
		LookupEnv: func(string) (string, bool) { return "", false },
	})
	fmt.Println(err)
	var e *config.Error
	fmt.Println(errors.As(err, &e), e.Server, e.Field)
	// Output:
	// mcp.json:1:53: server files: args[0]: expected a string, found a number
	// mcp.json:5:76: server api: headers.Authorization: ${TOKEN} has no value and no default
	// true api headers.Authorization
}

// Each input is asked for once, when the first server needs it.
func ExampleExpander() {
	file, err := config.Parse([]byte(`{
	  "inputs": [{"id": "key", "type": "promptString", "description": "API key", "password": true}],
	  "servers": {"a": {"command": "a", "env": {"KEY": "${input:key}"}}, "b": {"command": "b", "args": ["${input:key}", "${keyring:b}"]}}
	}`), ".vscode/mcp.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	servers, err := file.Expand(context.Background(), &config.Expander{
		Prompt: func(_ context.Context, input config.Input) (string, error) {
			fmt.Println("asked for", input.Description)
			return "s3cret", nil
		},
		Resolve: func(_ context.Context, scheme, name string) (string, bool, error) {
			return "from the " + scheme, scheme == "keyring", nil
		},
	})
	fmt.Println(servers[1].Args[0].Reveal(), servers[1].Args[1].Reveal(), err)
	// Output:
	// asked for API key
	// s3cret from the keyring <nil>
}

func ExampleNewSecret() {
	token := config.NewSecret("s3cret", "${TOKEN}")
	fmt.Printf("%v %+v %#v %q\n", token, token, token, token)
	fmt.Println(token.Reveal())
	// Output:
	// ${TOKEN} ${TOKEN} ${TOKEN} ${TOKEN}
	// s3cret
}

// Follows a file. An invalid version has no effect.
func ExampleWatch() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "mcp.json")
	versions := []string{`{"a":{"command":"a"},"b":{"command":"b"}}`, `{"b":{"command":"b","args":["-v"]},"c":{"command":"c"}}`}
	next := func() bool {
		if len(versions) == 0 {
			return false
		}
		err := os.WriteFile(path, []byte(versions[0]), 0o600)
		versions = versions[1:]
		return err == nil
	}
	next()

	ctx, cancel := context.WithCancel(context.Background())
	err = config.Watch(ctx, path, 10*time.Millisecond, func(file *config.File, err error) {
		if err != nil {
			fmt.Println("the old version stays in use:", err)
			return
		}
		servers, err := file.Expand(ctx, nil)
		if err != nil {
			fmt.Println("some servers cannot be expanded:", err)
		}
		for _, s := range servers {
			fmt.Println(s.Alias, s.Args) // or call file.Bridge and Bridge.Update
		}
		if !next() {
			cancel()
		}
	})
	fmt.Println(err)
	// Output:
	// a []
	// b []
	// b [-v]
	// c []
	// context canceled
}
