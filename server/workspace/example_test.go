package workspace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/workspace"
	"github.com/dovetail-go/dovetail/transport"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "workspace")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	w, err := workspace.Open(dir, &workspace.Options{Protected: []string{".git"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	created, err := w.WriteFile("docs/hello.txt", []byte("Hello, world!"))
	fmt.Println(created, err)
	err = w.Edit("docs/hello.txt", 0, func(data []byte) ([]byte, error) {
		return bytes.ToUpper(data), nil
	})
	fmt.Println(err)
	data, err := w.ReadFile("docs/hello.txt", 0)
	fmt.Println(string(data), err)
	_, err = w.ReadFile("../../etc/passwd", 0)
	fmt.Println(err)
	_, err = w.WriteFile(".git/config", nil)
	fmt.Println(err)
	// Output:
	// true <nil>
	// <nil>
	// HELLO, WORLD! <nil>
	// "../../etc/passwd" is outside of the workspace
	// ".git/config" is protected: file tools cannot change it
}

func ExampleTools() {
	dir, err := os.MkdirTemp("", "workspace")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	w, err := workspace.Open(dir, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	entries, err := workspace.Tools(w)
	if err != nil {
		fmt.Println(err)
		return
	}
	s := server.New(mcp.Implementation{Name: "files", Version: "1"}, nil)
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
	for _, call := range []struct{ tool, arguments string }{
		{"write_file", `{"path":"hello.txt","content":"Hello!\nBye!\n"}`},
		{"edit_file", `{"path":"hello.txt","old_string":"Bye","new_string":"Good bye"}`},
		{"read_file", `{"path":"hello.txt"}`},
		{"read_file", `{"path":"/etc/passwd"}`},
	} {
		result, err := session.CallTool(ctx, call.tool, json.RawMessage(call.arguments), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	}
	// Output:
	// Successfully wrote 12 bytes to hello.txt
	// Edited hello.txt: 1 replaced
	//      1	Hello!
	//      2	Good bye!
	//
	// "/etc/passwd" is outside of the workspace
}
