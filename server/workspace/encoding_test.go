package workspace_test

import (
	"encoding/json"
	"maps"
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

// A caller calls the tools of a workspace.
type caller struct {
	t       *testing.T
	session *client.Session
	files   *workspace.Workspace
}

func newCaller(t *testing.T, era client.Era) *caller {
	t.Helper()
	w := openWorkspace(t)
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
	t.Cleanup(func() { session.Close() })
	return &caller{t, session, w}
}

// call returns the text of a result. That of a failure begins with "error: ".
func (c *caller) call(tool string, arguments map[string]any) string {
	c.t.Helper()
	encoded, err := json.Marshal(arguments)
	if err != nil {
		c.t.Fatal(err)
	}
	result, err := c.session.CallTool(c.t.Context(), tool, json.RawMessage(encoded), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	text := result.Text()
	if result.IsError {
		return "error: " + text
	}
	return text
}

func (c *caller) put(data string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.files.Dir(), "a.txt"), []byte(data), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) get() string {
	c.t.Helper()
	data, err := os.ReadFile(filepath.Join(c.files.Dir(), "a.txt"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

// A file is read, edited and written in its encoding, and keeps all bytes that were not edited.
func TestEncodings(t *testing.T) {
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		c := newCaller(t, era)
		for _, test := range []struct{ encoding, data, text string }{
			{"utf-8", "caf\u00e9\r\n", "caf\u00e9\r\n"},
			{"UTF_8", "caf\u00e9\r\n", "caf\u00e9\r\n"},
			{"utf-8-sig", "\xef\xbb\xbfcaf\u00e9\r\n", "caf\u00e9\r\n"},
			{"latin-1", "caf\xe9\x85 \xa4\n", "caf\u00e9\u0085 \u00a4\n"},
			{"latin1", "caf\xe9\n", "caf\u00e9\n"},
			{"iso-8859-1", "caf\xe9\n", "caf\u00e9\n"},
			{"ISO8859-15", "caf\xe9 \xa4\n", "caf\u00e9 \u20ac\n"},
			{"cp1252", "caf\xe9 \x80\n", "caf\u00e9 \u20ac\n"},
			{"windows-1251", "\xc4\xe0\n", "\u0414\u0430\n"},
			{"cp437", "caf\x82\n", "caf\u00e9\n"},
			{"koi8-r", "\xe4\xc1\n", "\u0414\u0430\n"},
			{"mac_roman", "caf\x8e\n", "caf\u00e9\n"},
			{"shift_jis", "\x93\xfa\x96\x7b\n", "\u65e5\u672c\n"},
			{"sjis", "\x93\xfa\x96\x7b\n", "\u65e5\u672c\n"},
			{"euc-jp", "\xc6\xfc\xcb\xdc\n", "\u65e5\u672c\n"},
			{"iso2022_jp", "\x1b$BF|K\\\x1b(B\n", "\u65e5\u672c\n"},
			{"gbk", "\xc8\xd5\xb1\xbe\n", "\u65e5\u672c\n"},
			{"gb18030", "\xc8\xd5\xb1\xbe\x84\x31\xa4\x37\n", "\u65e5\u672c\ufffd\n"},
			{"big5", "\xa4\xe9\xa5\xbb\n", "\u65e5\u672c\n"},
			{"euc_kr", "\xc0\xcf\n", "\uc77c\n"},
			{"utf-16", "\xff\xfea\x00\xe9\x00\n\x00", "a\u00e9\n"},
			{"utf-16", "\xfe\xff\x00a\x00\xe9\x00\n", "a\u00e9\n"},
			{"utf-16", "a\x00\xe9\x00\n\x00", "a\u00e9\n"},
			{"utf_16_le", "a\x00\xe9\x00\n\x00", "a\u00e9\n"},
			{"utf-16be", "\x00a\x00\xe9\x00\n", "a\u00e9\n"},
		} {
			c.put(test.data)
			in := func(more map[string]any) map[string]any {
				more["path"], more["encoding"] = "a.txt", test.encoding
				return more
			}
			if got := c.call("read_file", in(map[string]any{"raw": true})); got != test.text {
				t.Errorf("%s: read %q, want %q", test.encoding, got, test.text)
			}
			line, _, _ := strings.Cut(test.text, "\n")
			if got := c.call("read_file", in(map[string]any{})); got != "     1\t"+strings.TrimSuffix(line, "\r")+"\n" {
				t.Errorf("%s: read the line %q", test.encoding, got)
			}
			if got := c.call("write_file", in(map[string]any{"content": test.text})); strings.HasPrefix(got, "error") || c.get() != test.data {
				t.Errorf("%s: %s: wrote %q, want %q", test.encoding, got, c.get(), test.data)
			}
			first := string([]rune(test.text)[:1])
			for _, edit := range [][2]string{{first, first + first + "#"}, {first + first + "#", first}} { // there and back
				got := c.call("edit_file", in(map[string]any{"old_string": edit[0], "new_string": edit[1]}))
				if strings.HasPrefix(got, "error") || strings.Contains(edit[1], "#") && c.get() == test.data {
					t.Errorf("%s: %s", test.encoding, got)
				}
			}
			if got := c.get(); got != test.data {
				t.Errorf("%s: an edit has changed other bytes: %q, want %q", test.encoding, got, test.data)
			}
		}
	}
}

// What has no meaning in an encoding is refused, and nothing is changed.
func TestEncodingsRefuse(t *testing.T) {
	c := newCaller(t, client.Auto)
	for _, test := range []struct {
		tool, encoding, data string
		arguments            map[string]any
		want                 string
	}{
		{"read_file", "utf-9", "a", nil, `"utf-9" is no encoding that is known`},
		{"write_file", "rot13", "a", map[string]any{"content": "x"}, "is no encoding that is known"},
		{"edit_file", "hex", "a", map[string]any{"old_string": "a", "new_string": "b"}, "is no encoding that is known"},
		{"read_file", "shift_jis", "\x93", nil, `"a.txt" is not a text in the encoding shift_jis`},
		{"read_file", "utf-16", "a", nil, "is not a text in the encoding utf-16"},
		{"read_file", "utf-16-le", "\x00\xd8a\x00", nil, "is not a text"}, // half a pair
		{"read_file", "utf-8-sig", "\xef\xbb\xbf\xe9", nil, "is not a text"},
		{"read_file", "ascii", "caf\xe9", nil, "is not a text in the encoding ascii"},
		{"read_file", "latin-1", "\x00\x01\x02", nil, "is not a text"},
		{"write_file", "latin-1", "a", map[string]any{"content": "1 \u20ac"}, "it has no character '\u20ac'"},
		{"write_file", "ascii", "a", map[string]any{"content": "caf\u00e9"}, "it has no character '\u00e9'"},
		{"edit_file", "cp1252", "a", map[string]any{"old_string": "a", "new_string": "\u65e5"}, "it has no character '\u65e5'"},
		{"edit_file", "shift_jis", "a\x93", map[string]any{"old_string": "a", "new_string": "b"}, "is not a text"},
		{"edit_file", "iso-2022-jp", "\x1b$B\x1b(Ba", map[string]any{"old_string": "a", "new_string": "b"}, "is not a text"}, // other bytes would change
		{"multi_edit", "cp1252", "a", map[string]any{"edits": []any{map[string]any{"old_string": "b", "new_string": "c"}}}, "the old text is not in"},
	} {
		c.put(test.data)
		arguments := map[string]any{"path": "a.txt", "encoding": test.encoding}
		maps.Copy(arguments, test.arguments)
		if got := c.call(test.tool, arguments); !strings.HasPrefix(got, "error: ") || !strings.Contains(got, test.want) {
			t.Errorf("%s %v of %q: %q, want %q", test.tool, arguments, test.data, got, test.want)
		}
		if got := c.get(); got != test.data {
			t.Errorf("%s %v has changed %q to %q", test.tool, arguments, test.data, got)
		}
	}
	if got := c.call("write_file", map[string]any{"path": "new.txt", "encoding": "utf-16", "content": "a"}); got != "Successfully wrote 4 bytes to new.txt" {
		t.Error(got)
	}
	if data, err := c.files.ReadFile("new.txt", 0); err != nil || string(data) != "\xff\xfea\x00" {
		t.Errorf("a new file in UTF-16 has %q, %v", data, err)
	}
}

func TestResolve(t *testing.T) {
	w := openWorkspace(t)
	for dir, want := range map[string]string{"": "", ".": "", "sub": "sub", "insidedir": "sub", w.Dir() + "/sub": "sub", "..": "outside", "outsidedir": "outside", "a.txt": "not a directory", "none": "no such", "loop": "link"} {
		got, err := w.Resolve(dir)
		if err == nil {
			if got != filepath.Join(w.Dir(), want) {
				t.Errorf("%q is %s", dir, got)
			}
		} else if !strings.Contains(err.Error(), want) || want == "" || want == "sub" {
			t.Errorf("%q: %v, want %q", dir, err, want)
		}
	}
	for path, want := range map[string]bool{".git": true, ".git/config": true, "sub/.GIT/x": true, "a.txt": false, "../.git": false, "": false, "sub/\xff": true, strings.Repeat("a/", 5000): true} {
		if got := w.IsProtected(path); got != want {
			t.Errorf("%q is protected: %t", path, got)
		}
	}
}
