package tomledit

import (
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var values = map[string]any{"command": "npx", "args": []string{"-y", `a "b"`}, "env": map[string]string{"KEY": "x\\y"}}

const added = "[mcp_servers.\"my srv\"]\nargs = [\"-y\", \"a \\\"b\\\"\"]\ncommand = \"npx\"\n\n[mcp_servers.\"my srv\".env]\nKEY = \"x\\\\y\"\n"

func TestSet(t *testing.T) {
	for before, after := range map[string]string{
		"":                               added,
		"\uFEFFa = 1\n":                  "\uFEFFa = 1\n\n" + added,
		"# c\nmodel = \"o\"":             "# c\nmodel = \"o\"\n\n" + added,
		"[mcp_servers.a]\nurl = \"u\"\n": "[mcp_servers.a]\nurl = \"u\"\n\n" + added,
		"[mcp_servers.\"my srv\"]\ncommand = \"old\" # x\n[mcp_servers.'my srv'.env]\nA = \"1\"\n\n# about b\n[b]\nc = 1\n": "# about b\n[b]\nc = 1\n\n" + added,
	} {
		got, err := Set([]byte(before), "mcp_servers", "my srv", values)
		if err != nil || string(got) != after {
			t.Errorf("%q became %q, error %v\nwant %q", before, got, err, after)
		}
		if again, err := Set(got, "mcp_servers", "my srv", values); err != nil || string(again) != string(got) {
			t.Errorf("a second time: %q, error %v", again, err)
		}
	}
}

func TestRemove(t *testing.T) {
	for before, after := range map[string]string{
		"a = 1\n\n[mcp_servers.x]\ncommand = '''\n[b]\n'''\n\n[c]\nd = [\n [1],\n]\n":     "a = 1\n\n[c]\nd = [\n [1],\n]\n",
		"\uFEFF[mcp_servers.x]\nurl = \"u\"\n\n[c]\nd = 1\n":                              "\uFEFF[c]\nd = 1\n",
		"[mcp_servers.x]\nurl = \"u\"\n\n# about y\n[mcp_servers.y]\nurl = \"v\" # [z]\n": "# about y\n[mcp_servers.y]\nurl = \"v\" # [z]\n",
	} {
		if got, err := Remove([]byte(before), "mcp_servers", "x"); err != nil || string(got) != after {
			t.Errorf("%q became %q, error %v, want %q", before, got, err, after)
		}
	}
	if _, err := Remove([]byte("a = 1"), "mcp_servers", "x"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	// Other forms of a table are refused.
	for _, text := range []string{"mcp_servers = { x = { url = \"u\" } }\n", "[mcp_servers]\nx.url = \"u\"\ny.url = \"v\"\n", "x = [\n"} {
		if got, err := Remove([]byte(text), "mcp_servers", "x"); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// Whatever the text, a change is refused or changes the table only.
func FuzzEdit(f *testing.F) {
	f.Add([]byte("a = 1\n\n[mcp_servers.x]\ncommand = '''\n[b]\n'''\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if out, err := Set(text, "mcp_servers", "x", values); err == nil {
			if _, err := Decode(out); err != nil {
				t.Errorf("%q became %q: %v", text, out, err)
			}
		}
	})
}
