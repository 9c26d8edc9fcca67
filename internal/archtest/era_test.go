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

// The protocol has two eras (see internal/era). Everything else is written once,
// for both: it neither tests a version nor names what only one era has.

// eraHomes may do both.
var eraHomes = []string{"internal/era", "transport/streamable"}

// eraWords are the methods and members that only one era has.
var eraWords = []string{
	"initialize", "notifications/initialized", "logging/setLevel",
	"server/discover", "subscriptions/listen", "requestState", "resultType",
}

// eraQuestions are the methods that ask a version for its era.
var eraQuestions = []string{"IsModern", "Modern"}

var versionDate = regexp.MustCompile(`\b20\d\d-\d\d-\d\d\b`)

func TestErasStayInTheirHomes(t *testing.T) {
	enforce(t, eraRule(eraNames(t)), exceptions{
		"mcp/version.go": "defines the versions",
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

// eraRule refuses the words of one era, as text or as one of mcp's names for
// them. Package mcp defines them and may spell them, save for the dates.
func eraRule(names []string) rule {
	return func(file *source) []finding {
		if file.isTest() || slices.ContainsFunc(eraHomes, file.in) {
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
					found = append(found, file.at(node.Pos(), "spells the protocol version %s", date))
				}
				if word := eraWord(text); word != "" && !defines {
					found = append(found, file.at(node.Pos(), "names %q, which only one era has", word))
				}
			case *ast.CallExpr:
				method, ok := node.Fun.(*ast.SelectorExpr)
				if ok && len(node.Args) == 0 && slices.Contains(eraQuestions, method.Sel.Name) {
					found = append(found, file.at(node.Pos(), "asks a version for its era with %s", method.Sel.Name))
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

// eraWord returns the era's word in a text: alone, quoted as in JSON, or, where it
// is no English word, anywhere.
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

// eraNames returns the constants of package mcp that stand for an era's words,
// and all that name a version.
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
