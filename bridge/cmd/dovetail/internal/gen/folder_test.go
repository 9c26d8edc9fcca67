package gen

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/mcp"
)

// corpus returns the 115 tools of a public server.
func corpus(t testing.TB) Server {
	t.Helper()
	file, err := os.Open("../../../../search/testdata/github/tools.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := Server{Name: "github", Version: "1"}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		var tool mcp.Tool
		if err := json.Unmarshal(scanner.Bytes(), &tool); err != nil {
			t.Fatal(err)
		}
		s.Tools = append(s.Tools, tool)
	}
	return s
}

// hostile returns a server whose names, texts and schemas are hard to write as code.
func hostile(t testing.TB) Server {
	t.Helper()
	s := Server{Name: "__init__", Version: "\"\"\"*/"}
	texts := append(testsuites.HostileText(t),
		`ends with a quote "`, `"""`, `\"""`, `a\`, `"""+__import__("os").system("true")+"""`, "*/ process.exit(1) /*", `\u002a/`, "${1}", "`", "# type: ignore", "@ts-nocheck",
		"import", "class", "None", "print", "str", "int", "Any", "Union", "List", "list", "dict", "self", "__class__", "__getattr__", "__all__", "_call", "_tool", "UNSET", "ToolError", "annotations",
		"delete", "arguments", "eval", "await", "then", "Promise", "callText", "CallOptions", "ToolResult", "constructor", "__proto__", "prototype", "type", "a-b", "a.b", "a b", "a_b", "A_B", "1a", "%s", "%", "{}", "keys", "items", "get",
	)
	schema := func(text string) json.RawMessage {
		quoted := func(s string) string {
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		text = strings.ToValidUTF8(text, "\ufffd")
		escaped := strings.NewReplacer("~", "~0", "/", "~1", "%", "%25").Replace(text)
		return json.RawMessage(strings.NewReplacer("TEXT", quoted(text), "REF", quoted("#/$defs/"+escaped)).Replace(`{"type":"object","description":TEXT,"required":[TEXT],
			"properties":{TEXT:{"description":TEXT,"anyOf":[{"$ref":REF},{"enum":[TEXT,"x",1,true,null]},{"type":"object","properties":{TEXT:{"description":TEXT},"b":{"type":"string"}},"required":[TEXT]}]},
			"other":{"$ref":REF},"str":{"type":"string"},"List":{"type":"array","items":{"enum":[TEXT]}},"again":{"items":{"$ref":"#"}}},
			"$defs":{TEXT:{"type":"object","description":TEXT,"properties":{TEXT:{"anyOf":[{"$ref":REF},{"type":"string"}]},"str":{"type":"string"},"other":{"type":"string"}}}}}`))
	}
	for _, text := range texts {
		s.Tools = append(s.Tools, mcp.Tool{Name: text, Title: text, Description: text, InputSchema: schema(text), OutputSchema: schema(text)})
	}
	for _, text := range []string{
		`{"$ref":"#/$defs/J","$defs":{"J":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/J"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/J"}}]}}}`,
		`{"type":"object","properties":{"j":{"$ref":"#/$defs/A"}},"$defs":{"A":{"anyOf":[{"$ref":"#/$defs/B"},{"type":"string"}]},"B":{"anyOf":[{"$ref":"#/$defs/A"},{"type":"number"}]}}}`,
		`{"type":"object","properties":{"j":{"$ref":"#/$defs/A"}},"required":["j"],"$defs":{"A":{"type":"array","items":{"$ref":"#/$defs/A"}}}}`,
		`{"type":"object","properties":{"j":{"$ref":"#/$defs/A"}},"required":["j"],"$defs":{"A":{"type":"object","additionalProperties":{"$ref":"#/$defs/A"}}}}`,
		`{"type":"object","properties":{"a":{},"a-":{},"a_":{}},"additionalProperties":{"type":"string"}}`,
		`{"oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"a":{"type":"integer"},"b":{"type":["null","boolean"]}}}]}`,
		`{"type":"object","additionalProperties":false}`, `{"type":"object","additionalProperties":true}`, `{"type":"object"}`, `true`, `{}`, `[]`,
		`{"type":["object","null"],"properties":{"x":{"type":"object","additionalProperties":false}}}`,
		`{"type":"object","properties":{"$ref":{"type":"string"},"type":{"enum":[]},"enum":{"const":1.5},"e":{"enum":[9007199254740993,-1]}}}`,
	} {
		s.Tools = append(s.Tools, mcp.Tool{Name: "schema", InputSchema: json.RawMessage(text), OutputSchema: json.RawMessage(text)})
	}
	return s
}

// languages are those that write a folder.
var languages = map[string]func([]Server) (Files, error){"python": Python, "typescript": TypeScript}

// The files in testdata are those of a small server. Run with -update after a change.
func TestFoldersAreUpToDate(t *testing.T) {
	session := connect(t)
	s := Server{Name: "shop"}
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.Tools = append(s.Tools, *tool)
	}
	for language, generate := range languages {
		files, err := generate([]Server{s})
		if err != nil {
			t.Fatal(err)
		}
		for name, got := range files {
			if !strings.Contains(name, "shop") {
				continue // copied, with a header
			}
			path := filepath.Join("testdata", language, filepath.FromSlash(name))
			if *update {
				write(t, path, got)
			}
			want, err := os.ReadFile(path)
			if err != nil || string(want) != got {
				t.Errorf("%s differs from what is generated, error %v:\n%s", path, err, got)
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The same servers give the same bytes in any order of servers and tools.
func TestOrderDoesNotMatter(t *testing.T) {
	for language, generate := range languages {
		servers := []Server{corpus(t), hostile(t), {Name: "a"}, {Name: "b"}}
		first, err := generate(servers)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(servers)
		github := &servers[3]
		slices.Reverse(github.Tools)
		second, err := generate(servers)
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(first, second) {
			t.Errorf("%s: another order gives other files", language)
		}
	}
}

// Each server has a module of its own, on file systems without case and with the devices of Windows, too.
func TestModules(t *testing.T) {
	servers := []Server{{Name: "GitHub"}, {Name: "github"}, {Name: "a-b"}, {Name: "a.b"}, {Name: "con"}, {Name: "import"}, {Name: "__init__"}, {Name: "1st"}, {Name: "gateway"}}
	for language, want := range map[string]string{
		"python": "__init__.py _gateway.py mcp/GitHub.py mcp/__init__.py mcp/a_b.py mcp/a_b2.py mcp/con_.py mcp/gateway.py mcp/github2.py mcp/import_.py mcp/init__.py mcp/server_1st.py " +
			"sync/GitHub.py sync/__init__.py sync/a_b.py sync/a_b2.py sync/con_.py sync/gateway.py sync/github2.py sync/import_.py sync/init__.py sync/server_1st.py",
		"typescript": "GitHub.ts a_b.ts a_b2.ts con_.ts gateway.ts gateway_.ts github2.ts import.ts init__.ts server_1st.ts",
	} {
		files, err := languages[language](servers)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(files)), " "); got != want {
			t.Errorf("%s: got %s\nwant %s", language, got, want)
		}
		for name, text := range files {
			if first, _, _ := strings.Cut(text, "\n"); !strings.Contains(first, Marker) {
				t.Errorf("%s begins with %s", name, first)
			}
		}
	}
}

// The source of hostile servers consists of visible characters, and what is not ASCII is in strings and comments.
func TestSourceIsVisible(t *testing.T) {
	strange := regexp.MustCompile(`^\s*(@|async def |def |class |import |from |export (async function|type) )[^"']*[^\x00-\x7f]`)
	for language, generate := range languages {
		files, err := generate([]Server{hostile(t)})
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			for line := range strings.Lines(text) {
				for _, r := range line {
					if r != '\n' && (!unicode.IsPrint(r) || unicode.In(r, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point)) {
						t.Fatalf("%s, %s has %U: %q", language, name, r, line)
					}
				}
				if strange.MatchString(line) {
					t.Errorf("%s, %s: %s", language, name, line)
				}
			}
		}
	}
}

// A folder that would be too long is an error.
func TestFolderIsBounded(t *testing.T) {
	var properties []string
	for range 2000 {
		properties = append(properties, `"p`+strings.Repeat("x", len(properties)%50)+string(rune('a'+len(properties)%26))+`":{"description":"`+strings.Repeat("d", 1000)+`"}`)
	}
	slices.Sort(properties)
	properties = slices.Compact(properties)
	s := Server{Name: "s"}
	for range 50 {
		s.Tools = append(s.Tools, mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`)})
	}
	for language, generate := range languages {
		if _, err := generate([]Server{s}); err != errTooLong {
			t.Errorf("%s: error %v", language, err)
		}
	}
}

// checked returns the program that a variable names. Without it the test is skipped, and fails in CI.
func checked(t *testing.T, variable string) string {
	t.Helper()
	name := os.Getenv(variable)
	switch {
	case name != "":
	case os.Getenv("CI") != "" && variable != "DOVETAIL_MYPY": // which is in the complete run
		t.Fatal(variable, "is not set")
	default:
		t.Skip(variable, "is not set")
	}
	return name
}

// folder writes the bindings of 115 real tools and of a hostile server into a folder.
func folder(t *testing.T, language string) string {
	t.Helper()
	files, err := languages[language]([]Server{corpus(t), hostile(t), {Name: "empty"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, "generated", filepath.FromSlash(name)), text)
	}
	return dir
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v\n%.4000s", name, args, err, out)
	}
}

// Each Python of DOVETAIL_PYTHON, a list of programs, compiles and imports the modules, and evaluates all of their types.
func TestPythonImportsThem(t *testing.T) {
	for python := range strings.FieldsSeq(checked(t, "DOVETAIL_PYTHON")) {
		dir := folder(t, "python")
		command(t, dir, python, "-W", "error", "-m", "compileall", "-q", "generated")
		command(t, dir, python, "-W", "error", "-c", `
import importlib, inspect, typing
for name in ["github", "init__", "empty"]:
    for kind in ["mcp", "sync"]:
        module = importlib.import_module(f"generated.{kind}.{name}")
        for exported in getattr(module, "__all__", []):
            value = getattr(module, exported)
            if inspect.isfunction(value) or inspect.isclass(value):
                typing.get_type_hints(value)
            if inspect.isfunction(value):
                assert inspect.iscoroutinefunction(value) == (kind == "mcp"), exported
`)
	}
}

func TestMypy(t *testing.T) {
	mypy := checked(t, "DOVETAIL_MYPY")
	for _, version := range []string{"3.9", "3.11"} {
		command(t, folder(t, "python"), mypy, "--strict", "--python-version", version, "generated")
	}
}

func TestTSC(t *testing.T) {
	tsc := checked(t, "DOVETAIL_TSC")
	dir := folder(t, "typescript")
	write(t, filepath.Join(dir, "tsconfig.json"), `{"include":["generated"],"compilerOptions":{
		"strict":true,"exactOptionalPropertyTypes":true,"noUncheckedIndexedAccess":true,"noPropertyAccessFromIndexSignature":true,"noImplicitReturns":true,
		"noUnusedLocals":true,"noUnusedParameters":true,"erasableSyntaxOnly":true,"verbatimModuleSyntax":true,"isolatedModules":true,
		"target":"es2022","lib":["es2022","dom"],"module":"nodenext","allowImportingTsExtensions":true,"noEmit":true,"types":[]}}`)
	write(t, filepath.Join(dir, "package.json"), `{"type":"module"}`)
	command(t, dir, tsc, "-p", ".")
}
