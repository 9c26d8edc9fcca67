package control_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/bridge/control"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/shell"
	"github.com/dovetail-go/dovetail/server/workspace"
)

func ExampleNewServers() {
	servers, err := control.NewServers(&control.ServersOptions{
		Dial:     &config.DialOptions{Wrap: guard.Wrap},
		Reserved: []string{"sandbox"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := server.New(mcp.Implementation{Name: "sandbox", Version: "1"}, nil)
	fmt.Println(s.Mount(servers, &server.MountOptions{Prefix: control.Prefix}))
	found, err := servers.Remove(context.Background(), "time")
	fmt.Println(found, err)
	// Output:
	// <nil>
	// false <nil>
}

// TestMain has stored the result of process.Main in guard.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "control")
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
	sh, err := shell.New(guard, w, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sh.Close()
	c, err := control.New(&control.Options{Shell: sh})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	for _, token := range []string{c.Authenticator().Token(), "wrong"} {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/credential", strings.NewReader(`{"user_api_key":"secret","session_id":"ann"}`))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		c.ServeHTTP(answer, r)
		fmt.Println(answer.Code, sh.Credentials().Len())
	}
	// Output:
	// 200 1
	// 401 1
}
