package gen

import (
	"context"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/dovetail-go/dovetail/bridge/cmd/dovetail/internal/gen/gentest"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var update = flag.Bool("update", false, "write gentest/client.go")

type part struct {
	Name  string  `json:"name" jsonschema:"the name of the part"`
	Parts []*part `json:"parts,omitempty"`
}

type order struct {
	Item   string   `json:"item" jsonschema:"what to order"`
	Count  int      `json:"count,omitempty"`
	Size   string   `json:"size,omitempty" jsonschema:"enum=small,enum=large"`
	Tags   []string `json:"tags,omitempty"`
	Part   *part    `json:"part,omitempty"`
	Limits struct {
		Most float64 `json:"most"`
	} `json:"limits,omitzero"`
}

type receipt struct {
	Text  string         `json:"text"`
	Parts int            `json:"parts"`
	Sums  map[string]int `json:"sums"`
}

func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "shop", Version: "1"}, nil)
	server.AddTool(s, server.Tool{Name: "place-order", Description: "Places an order.\n*/ //go:embed x"}, func(_ context.Context, _ *server.Request, in order) (receipt, error) {
		r := receipt{Text: strings.Join(append([]string{in.Item, in.Size}, in.Tags...), " "), Sums: map[string]int{in.Item: in.Count}}
		for p := in.Part; p != nil; p = p.Parts[0] {
			if r.Parts++; len(p.Parts) == 0 {
				break
			}
		}
		return r, nil
	})
	server.AddTool(s, server.Tool{Name: "place_order"}, func(context.Context, *server.Request, struct{}) (mcp.ContentList, error) {
		return mcp.ContentList{&mcp.TextContent{Text: "other"}}, nil
	})
	server.AddPrompt(s, server.Prompt{Name: "greet"}, func(_ context.Context, _ *server.Request, in struct {
		Name string `json:"name"`
		Tone string `json:"tone,omitempty"`
	}) (string, error) {
		return in.Tone + "hello " + in.Name, nil
	})
	return s
}

func connect(t *testing.T) *client.Session {
	t.Helper()
	session, err := client.Connect(t.Context(), transport.Pipe(newServer()), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// The package in gentest is generated from the server. Run with -update after a change.
func TestGeneratedPackageIsUpToDate(t *testing.T) {
	session := connect(t)
	s := &Server{Name: "shop", Version: "1"}
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.Tools = append(s.Tools, *tool)
	}
	for prompt, err := range session.Prompts(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		s.Prompts = append(s.Prompts, *prompt)
	}
	source, err := Go("gentest", s)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("gentest", "client.go")
	if *update {
		if err := os.WriteFile(path, source, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != string(source) {
		t.Errorf("%s differs from what is generated, error %v:\n%s", path, err, source)
	}
}

// The generated client calls the server.
func TestGeneratedClient(t *testing.T) {
	c := gentest.New(connect(t))
	count, size := int64(3), gentest.PlaceOrderArgsSizeLarge
	result, err := c.PlaceOrder(t.Context(), gentest.PlaceOrderArgs{
		Item: "bread", Count: &count, Size: &size, Tags: []string{"a", "b"},
		Part: &gentest.PlaceOrderArgsPart{Name: "x", Parts: []*gentest.PlaceOrderArgsPart{{Name: "y"}}},
	}, nil)
	if err != nil || result.Text != "bread large a b" || result.Parts != 2 || result.Sums["bread"] != 3 {
		t.Errorf("got %+v, error %v", result, err)
	}
	if other, err := c.PlaceOrder2(t.Context(), gentest.PlaceOrder2Args{}, nil); err != nil || other.Text() != "other" {
		t.Errorf("got %v, error %v", other, err)
	}
	if greeting, err := c.GreetPrompt(t.Context(), gentest.GreetPromptArgs{Name: "Ada"}, nil); err != nil || greeting.Text() != "hello Ada" {
		t.Errorf("got %v, error %v", greeting, err)
	}
}

// Schemas become the closest types.
func TestTypes(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`:                        "A int64 `json:\"a\"`",
		`{"type":"object","properties":{"a":{"type":["string","null"]}},"required":["a"]}`:                "A *string `json:\"a\"`",
		`{"type":"object","properties":{"a":{"type":["string","number"]}}}`:                               "A any `json:\"a,omitempty\"`",
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"boolean"}}}}`:                "A []bool `json:\"a,omitempty\"`",
		`{"type":"object","properties":{"-":{"type":"number"}},"required":["-"]}`:                         "args map[string]any",
		`{"type":"object","properties":{"a":{"additionalProperties":{"type":"string"},"type":"object"}}}`: "A map[string]string `json:\"a,omitempty\"`",
		`{"type":"object","properties":{"a b":{},"a_b":{}}}`:                                              "AB2 any `json:\"a_b,omitempty\"`",
		`{"type":"object","properties":{"a\"` + "`" + `":{}}}`:                                            "args map[string]any",
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/B"}},"$defs":{"B":{"$ref":"#/$defs/B"}}}`:    "A any",
		`{"type":"object","properties":{"a":{"$ref":"https://example.com"}}}`:                             "A any",
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`:              "A *string `json:\"a,omitempty\"`",
		`{"type":"object","properties":{"a":{"type":"integer","enum":[1,2]}},"required":["a"]}`:           "A int64 `json:\"a\"`",
		`{"allOf":[{"properties":{"a":{"type":"string"}}},{"required":["a"]}]}`:                           "A string `json:\"a\"`",
		`{"oneOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{}}}]}`:     "A *string `json:\"a,omitempty\"` B any",
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`:                                               "A *TArgs `json:\"a,omitempty\"`",
		`true`: "args map[string]any",
	} {
		source, err := Go("p", &Server{Tools: []mcp.Tool{{Name: "t", InputSchema: json.RawMessage(schema)}}})
		if err != nil || !strings.Contains(strings.Join(strings.Fields(string(source)), " "), want) {
			t.Errorf("%s: error %v, want %s in:\n%s", schema, err, want, source)
		}
	}
	for _, name := range []string{"", "a-b", "func", "_"} {
		if _, err := Go(name, &Server{}); err == nil {
			t.Errorf("%q is a package", name)
		}
	}
}

// Each name that can be in a tag is decoded, whether it is required or not.
func TestTags(t *testing.T) {
	for r := rune(1); r < 0x180; r++ {
		for _, name := range []string{string(r), "a" + string(r), string(r) + "a", string(r) + string(r)} {
			if !canBeTag(name) {
				continue
			}
			for _, option := range []string{"", ",omitempty"} {
				tag := reflect.StructTag("json:" + strconv.Quote(name+option))
				value := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "X", Type: reflect.TypeFor[string](), Tag: tag}}))
				text, err := json.Marshal(map[string]string{name: "found"})
				if err != nil {
					t.Fatal(err)
				}
				if err := jsonv2.Unmarshal(text, value.Interface()); err != nil || value.Elem().Field(0).String() != "found" {
					t.Errorf("%s: error %v", tag, err)
				}
			}
		}
	}
}

// Whatever a server lists, the package is valid Go, and its text is in comments and strings only.
func FuzzGo(f *testing.F) {
	f.Add("place-order", "Places.\n//go:embed x", `{"type":"object","properties":{"a":{"enum":["x","y*/"],"type":"string"}}}`)
	f.Add("\n", "*/", `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","properties":{"b":{"$ref":"#/$defs/A"}}}}}`)
	f.Fuzz(func(t *testing.T, name, description, schema string) {
		tool := mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema), OutputSchema: json.RawMessage(schema)}
		source, err := Go("p", &Server{Name: name, Tools: []mcp.Tool{tool, tool}, Prompts: []mcp.Prompt{{Name: name, Description: description, Arguments: []mcp.PromptArgument{{Name: description, Description: name}}}}})
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.ParseComments)
		if err != nil {
			t.Fatalf("%v in:\n%s", err, source)
		}
		var imports []string
		for _, i := range file.Imports {
			imports = append(imports, i.Path.Value)
		}
		if !slices.Contains(imports, `"github.com/dovetail-go/dovetail/client"`) || len(imports) > 3 || strings.Contains(string(source), "\n//go:") {
			t.Errorf("imports are %q:\n%s", imports, source)
		}
	})
}

// A server that gives everything a long name, and nests it, cannot make the package long.
func TestLongNamesAreBounded(t *testing.T) {
	long := strings.Repeat("n", 20_000)
	nested := json.RawMessage(`{"type":"object","properties":{"` + long + `":{"type":"string","enum":["` + long + `a","` + long + `b"]}}}`)
	for range 4 {
		nested = json.RawMessage(`{"type":"object","properties":{"` + long + `":` + string(nested) + `,"` + long + `2":{"type":"array","items":{"type":"object","properties":{"x":{}}}}}}`)
	}
	s := &Server{Name: long, Version: "1"}
	for i := range 4 {
		name := long + strconv.Itoa(i)
		s.Tools = append(s.Tools, mcp.Tool{Name: name, InputSchema: nested, OutputSchema: nested})
		s.Prompts = append(s.Prompts, mcp.Prompt{Name: name, Arguments: []mcp.PromptArgument{{Name: name}, {Name: name + "2"}}})
	}
	source, err := Go("mcpclient", s)
	if err != nil {
		t.Fatal(err)
	}
	identifiers(t, source, func(name string) {
		if len(name) > 80+len("Args99") {
			t.Errorf("an identifier has %d characters: %.100s", len(name), name)
		}
	})
	// Names are in tags, calls and values, which cannot be shorter.
	if most := 4 * 2 * (2*5 + 4) * 2 * len(long); len(source) > most {
		t.Errorf("the package has %d bytes, want at most %d", len(source), most)
	}
}

// identifiers calls visit for each identifier of a package whose declarations have unique names.
func identifiers(t *testing.T, source []byte, visit func(name string)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "client.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string]bool)
	declare := func(name string) {
		if visit(strings.TrimPrefix(name, "Client.")); declared[name] {
			t.Errorf("%.100s is declared twice", name)
		}
		declared[name] = true
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				declare("Client." + d.Name.Name)
			} else {
				declare(d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					declare(spec.Name.Name)
				case *ast.ValueSpec:
					declare(spec.Names[0].Name)
				}
			}
		}
	}
}

// A package that would be too long is an error before it is complete.
func TestPackageIsBounded(t *testing.T) {
	var properties []string
	for i := range 2000 {
		properties = append(properties, `"p`+strconv.Itoa(i)+`":{"description":"`+strings.Repeat("d", 1000)+`"}`)
	}
	s := &Server{}
	for i := range 50 {
		s.Tools = append(s.Tools, mcp.Tool{Name: "t" + strconv.Itoa(i), InputSchema: json.RawMessage(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`)})
	}
	if source, err := Go("mcpclient", s); err != errTooLong {
		t.Errorf("the package has %d bytes, error %v", len(source), err)
	}
}

// Many equal names get numbers in little time.
func TestEqualNames(t *testing.T) {
	s := &Server{}
	for range 2000 {
		s.Prompts = append(s.Prompts, mcp.Prompt{Name: "p"})
	}
	source, err := Go("mcpclient", s)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), "func (c *Client) PPrompt2000(") {
		t.Error("the last prompt has another name")
	}
}
