package archtest

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// eraPackages are the packages that may distinguish the two eras of the protocol. All other
// packages work the same in both: they do not compare versions or name methods and members
// of one era.
var eraPackages = []string{"internal/era", "transport/streamable"}

// eraWords are the methods and members of only one era.
var eraWords = []string{
	"initialize", "notifications/initialized", "logging/setLevel",
	"server/discover", "subscriptions/listen", "requestState", "resultType",
}

// eraMethods are the methods of a version that return its era.
var eraMethods = []string{"IsModern", "Modern"}

var versionDate = regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`)

func TestErasAreEncapsulated(t *testing.T) {
	enforce(t, eraRule(eraNames(t)), exceptions{
		"bridge/internal/transcript/check.go":      "leaves the encrypted state out when it compares messages",
		"bridge/internal/transcript/mock.go":       "recognizes the recorded requests of all versions",
		"internal/quota/quota.go":                  "counts open subscriptions apart from running calls, for every transport",
		"mcp/version.go":                           "defines the versions",
		"server/describe/registry.go":              "the date of the schema of server.json",
		"server/servertest/transcript.go":          "masks the encrypted state in recorded messages",
		"internal/test/faults/child.go":            "a misbehaving server of one version, written without the library",
		"internal/test/sessiontest/sessiontest.go": "a server that loses its sessions, written without the library",
	})
}

func TestEraRule(t *testing.T) {
	names := []string{"MethodInitialize", "LatestVersion"}
	planted(t, "era.go", "server/planted.go", eraRule(names))
	planted(t, "era_words.go", "mcp/planted.go", eraRule(names))
	planted(t, "clean.go", "server/planted.go", eraRule(names))
}

func TestEraNamesAreFound(t *testing.T) {
	names := eraNames(t)
	for _, name := range []string{"LatestVersion", "MethodInitialize", "MethodSetLevel"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s names an era, but is not among %q", name, names)
		}
	}
}

// eraRule refuses era words as string literals and as constants of package mcp. Package mcp,
// which defines the constants, may contain the literals except for version dates.
func eraRule(names []string) rule {
	return func(file *source) []finding {
		if file.isTest() || slices.ContainsFunc(eraPackages, file.in) {
			return nil
		}
		defines := file.in("mcp")
		var found []finding
		ast.Inspect(file.syntax, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.BasicLit:
				text, ok := literal(node)
				if !ok {
					break
				}
				if date := versionDate.FindString(text); date != "" {
					found = append(found, file.at(node.Pos(), "contains the protocol version %s", date))
				}
				if word := eraWord(text); word != "" && !defines {
					found = append(found, file.at(node.Pos(), "names %q, which only one era has", word))
				}
			case *ast.CallExpr:
				method, ok := node.Fun.(*ast.SelectorExpr)
				if ok && len(node.Args) == 0 && slices.Contains(eraMethods, method.Sel.Name) {
					found = append(found, file.at(node.Pos(), "gets the era of a version with %s", method.Sel.Name))
				}
			case *ast.SelectorExpr:
				name := node.Sel.Name
				if x, ok := node.X.(*ast.Ident); ok && x.Name == "mcp" && slices.Contains(names, name) {
					found = append(found, file.at(node.Pos(), "uses mcp.%s, which names an era", name))
				}
			}
			return true
		})
		return found
	}
}

// eraWord returns the era word that a text contains, or "". "initialize", also an English word,
// counts only alone or in quotes.
func eraWord(text string) string {
	for _, word := range eraWords {
		switch {
		case text == word, strings.Contains(text, `"`+word+`"`):
			return word
		case word != "initialize" && regexp.MustCompile(`\b`+regexp.QuoteMeta(word)+`\b`).MatchString(text):
			return word
		}
	}
	return ""
}

// eraNames returns the constants of package mcp whose value is an era word or a version.
func eraNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range moduleSources(t) {
		if file.folder() != "mcp" || file.isTest() {
			continue
		}
		for _, spec := range constants(file.syntax) {
			isVersion := filepath.Base(file.path) == "version.go"
			for i, name := range spec.Names {
				if name.IsExported() && (isVersion || i < len(spec.Values) && isEraWord(spec.Values[i])) {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

func constants(file *ast.File) []*ast.ValueSpec {
	var specs []*ast.ValueSpec
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			specs = append(specs, spec.(*ast.ValueSpec))
		}
	}
	return specs
}

func isEraWord(value ast.Expr) bool {
	lit, ok := value.(*ast.BasicLit)
	if !ok {
		return false
	}
	text, ok := literal(lit)
	return ok && slices.Contains(eraWords, text)
}

func literal(lit *ast.BasicLit) (string, bool) {
	if lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
