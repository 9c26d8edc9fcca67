package workspace_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/workspace"
	"github.com/dovetail-go/dovetail/transport"
)

// read_file recognizes images by their content, and texts however they begin.
func TestReadFileDetectsImages(t *testing.T) {
	w := openWorkspace(t)
	entries, err := workspace.Tools(w)
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "files", Version: "1"}, nil)
	if err := s.Replace(entries...); err != nil {
		t.Fatal(err)
	}
	session, err := client.Connect(t.Context(), transport.Pipe(s), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for text, want := range map[string]string{
		"BMW,1\nAudi,2\n":                              "     1\tBMW,1\n     2\tAudi,2\n",
		"GIF87a is a format":                           "     1\tGIF87a is a format\n",
		"GIF89a\x01\x00\x01\x00\x80\x00\x00":           "image/gif",
		"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR":          "image/png",
		"\xff\xd8\xff\xe0\x00\x10JFIF":                 "image/jpeg",
		"RIFF\x1a\x00\x00\x00WEBPVP8L\x0e\x00\x00\x00": "image/webp",
		"BM\x36\x00\x00\x00\x00\x00":                   `"a.txt" is a binary file`,
		"\x00\x00\x01\x00\x01\x00":                     `"a.txt" is a binary file`, // an icon
	} {
		if err := os.WriteFile(filepath.Join(w.Dir(), "a.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		result, err := session.CallTool(t.Context(), "read_file", json.RawMessage(`{"path":"a.txt"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		switch content := result.Content[0].(type) {
		case *mcp.TextContent:
			got = content.Text
		case *mcp.ImageContent:
			got = content.MIMEType
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A raw text has the bytes of the file: no line numbers, no cut lines, no changed line breaks.
func TestReadFileRaw(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		for _, rawByDefault := range []bool{false, true} {
			w, err := workspace.Open(t.TempDir(), &workspace.Options{Raw: rawByDefault})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			entries, err := workspace.Tools(w)
			if err != nil {
				t.Fatal(err)
			}
			s := server.New(mcp.Implementation{Name: "files", Version: "1"}, nil)
			if err := s.Replace(entries...); err != nil {
				t.Fatal(err)
			}
			session, err := client.Connect(t.Context(), transport.Pipe(s), &client.Options{Era: era})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			read := func(arguments string) (text string, failed bool) {
				t.Helper()
				result, err := session.CallTool(t.Context(), "read_file", json.RawMessage(arguments), nil)
				if err != nil {
					t.Fatal(err)
				}
				return result.Content[0].(*mcp.TextContent).Text, result.IsError
			}
			for _, content := range []string{
				"import os\nprint('hello')\n", "", "no line break", "\r\n\r\n", "\ufeffa\rb\x00\x1b\u2028\U0001F600\n", strings.Repeat("x", 3*2000) + "\n", strings.Repeat("line\n", 5000),
				strings.Repeat("x", 1<<20),
			} {
				if err := os.WriteFile(filepath.Join(w.Dir(), "a.txt"), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if text, failed := read(`{"path":"a.txt","raw":true}`); failed || text != content {
					t.Errorf("%.40q: %.40q", content, text)
				}
				if text, failed := read(`{"path":"a.txt"}`); !strings.Contains(content, "\x00") && (failed || (text == content) != rawByDefault) {
					t.Errorf("%.40q, raw by default %t: %.40q", content, rawByDefault, text)
				}
			}
			if text, _ := read(`{"path":"a.txt","raw":false}`); !strings.HasPrefix(text, "     1\tx") {
				t.Errorf("raw false: %.40q", text)
			}
			for content, want := range map[string]string{"caf\xe9\n": "is a binary file", strings.Repeat("x", 1<<20+1): "is too large"} {
				if err := os.WriteFile(filepath.Join(w.Dir(), "a.txt"), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if text, failed := read(`{"path":"a.txt","raw":true}`); !failed || !strings.Contains(text, want) {
					t.Errorf("%.40q: %.80q, want %q", content, text, want)
				}
			}
		}
	}
}
