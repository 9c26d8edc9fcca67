package main

import (
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestServer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be told to end")
	}
	for how, want := range map[string]string{
		"behaves":        "",
		"breaks at once": "ended before it said its URL",
		"breaks later":   "ended by itself: exit status 4",
		"ends badly":     "did not end well: exit status 5",
	} {
		t.Run(how, func(t *testing.T) {
			t.Setenv(behaviour, how)
			server, err := start(t.Context(), os.Args[0])
			if err == nil {
				if server.url != "http://127.0.0.1:1/mcp" {
					t.Errorf("the URL is %q", server.url)
				}
				if how == "breaks later" {
					<-server.ended
				}
				err = server.stop()
			}
			switch {
			case want == "" && err != nil:
				t.Error(err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("got the error %v, want %q", err, want)
			}
		})
	}
}

func TestServerThatIsMissing(t *testing.T) {
	if _, err := start(t.Context(), "/nowhere/everything"); err == nil {
		t.Error("a program that does not exist was started")
	}
}
