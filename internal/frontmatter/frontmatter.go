// Package frontmatter reads the YAML at the beginning of a SKILL.md as JSON, and compares it with
// what a server says about it. Scalars are read by the core schema of YAML 1.2.2 (chapter 10.3), so a
// date or the word yes is a string.
package frontmatter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/peertext"
)

// Limits of a front matter.
const (
	maxYAML   = 64 << 10  // bytes of YAML
	maxJSON   = 256 << 10 // bytes of JSON, with aliases expanded
	maxNodes  = 10_000    // values, with aliases expanded
	maxDepth  = 32        // nested mappings and sequences
	maxNumber = 400       // characters of a number
	maxError  = 512       // bytes of an error of the parser
)

var (
	errNone      = errors.New("it does not begin with front matter: a line ---, YAML, and a line ---")
	errTooLong   = fmt.Errorf("its front matter has more than %d bytes", maxYAML)
	errNotUTF8   = errors.New("its front matter is not UTF-8")
	errSecond    = errors.New("its front matter has more than one YAML document")
	errNoMapping = errors.New("its front matter is not a mapping")
)

// JSON returns the front matter of a file as a JSON object, with the members in their order.
func JSON(file []byte) (json.RawMessage, error) {
	text, err := split(file)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, errNotUTF8
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document, second yaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("its front matter: %s", peertext.Cut(err.Error(), maxError)) // it may contain a long name
	}
	if len(document.Content) != 1 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errNoMapping
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errSecond
	}
	w := &writer{}
	if err := w.value(document.Content[0], 0); err != nil {
		return nil, fmt.Errorf("its front matter: %w", err)
	}
	return w.dst, nil
}

// split returns the YAML between the line --- at the beginning and the next one.
func split(file []byte) ([]byte, error) {
	rest := bytes.TrimPrefix(file, []byte("\ufeff"))
	line, rest, _ := bytes.Cut(rest, []byte("\n"))
	if string(bytes.TrimSuffix(line, []byte("\r"))) != "---" {
		return nil, errNone
	}
	for start := 0; start < len(rest); {
		if start > maxYAML {
			return nil, errTooLong
		}
		line, _, _ := bytes.Cut(rest[start:], []byte("\n"))
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			return rest[:start], nil
		}
		start += len(line) + 1
	}
	return nil, errNone
}

// A writer writes YAML nodes as JSON.
type writer struct {
	dst   []byte
	nodes int
}

func (w *writer) value(node *yaml.Node, depth int) error {
	w.nodes++
	switch {
	case depth > maxDepth:
		return fmt.Errorf("line %d: it nests more than %d deep", node.Line, maxDepth)
	case w.nodes > maxNodes || len(w.dst) > maxJSON:
		return fmt.Errorf("line %d: it has more than %d values or %d bytes", node.Line, maxNodes, maxJSON)
	case node.Kind == yaml.AliasNode:
		return w.value(node.Alias, depth+1)
	case node.Style&yaml.TaggedStyle != 0 && node.ShortTag() != "!!str":
		return fmt.Errorf("line %d: the tag %.40q is not supported", node.Line, node.Tag)
	case node.Kind == yaml.MappingNode:
		return w.object(node, depth)
	case node.Kind == yaml.SequenceNode:
		return w.array(node, depth)
	}
	return w.scalar(node)
}

func (w *writer) object(node *yaml.Node, depth int) error {
	seen := make(map[string]bool, len(node.Content)/2)
	w.dst = append(w.dst, '{')
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: a key is not a scalar", key.Line)
		}
		if seen[key.Value] {
			return fmt.Errorf("line %d: the key %.40q is duplicated", key.Line, key.Value)
		}
		seen[key.Value] = true
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.dst = append(jsonscan.AppendString(w.dst, key.Value), ':')
		if err := w.value(node.Content[i+1], depth+1); err != nil {
			return err
		}
	}
	w.dst = append(w.dst, '}')
	return nil
}

func (w *writer) array(node *yaml.Node, depth int) error {
	w.dst = append(w.dst, '[')
	for i, element := range node.Content {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		if err := w.value(element, depth+1); err != nil {
			return err
		}
	}
	w.dst = append(w.dst, ']')
	return nil
}

// The numbers of the core schema: YAML 1.2.2, 10.3.2.
var (
	integer = regexp.MustCompile(`^[-+]?[0-9]+$`)
	based   = regexp.MustCompile(`^0(?:o[0-7]+|x[0-9a-fA-F]+)$`)
	float   = regexp.MustCompile(`^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$`)
	special = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

// scalar writes a scalar: a string, unless it is plain and the core schema has another type for it.
func (w *writer) scalar(node *yaml.Node) error {
	text := node.Value
	if node.Style != 0 { // quoted, in a block, or with the tag of strings
		w.dst = jsonscan.AppendString(w.dst, text)
		return nil
	}
	switch text {
	case "", "~", "null", "Null", "NULL":
		w.dst = append(w.dst, "null"...)
		return nil
	case "true", "True", "TRUE":
		w.dst = append(w.dst, "true"...)
		return nil
	case "false", "False", "FALSE":
		w.dst = append(w.dst, "false"...)
		return nil
	}
	isNumber := integer.MatchString(text) || based.MatchString(text) || float.MatchString(text)
	switch {
	case special.MatchString(text):
		return fmt.Errorf("line %d: JSON has no number %s", node.Line, text)
	case isNumber && len(text) > maxNumber:
		return fmt.Errorf("line %d: a number has more than %d characters", node.Line, maxNumber)
	case isNumber && jsonscan.KindOf([]byte(text)) == jsonscan.Number && jsonscan.Valid([]byte(text)) == nil:
		w.dst = append(w.dst, text...)
	case integer.MatchString(text):
		value, _ := new(big.Int).SetString(text, 10)
		w.dst = value.Append(w.dst, 10)
	case based.MatchString(text):
		value, _ := new(big.Int).SetString(text, 0)
		w.dst = value.Append(w.dst, 10)
	case isNumber:
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("line %d: the number %.40s is too large", node.Line, text)
		}
		w.dst = strconv.AppendFloat(w.dst, value, 'g', -1, 64)
	default:
		w.dst = jsonscan.AppendString(w.dst, text)
	}
	return nil
}

// A Difference is a field in which two front matters differ. A missing field is "nothing".
type Difference struct{ Field, A, B string }

// Compare returns the first field, by name, in which two JSON objects differ, or nil. The order of
// members does not matter, and numbers are equal if they are equal as float64.
func Compare(a, b json.RawMessage) (*Difference, error) {
	inA, err := fields(a)
	if err != nil {
		return nil, err
	}
	inB, err := fields(b)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(inA)
	maps.Copy(all, inB)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		valueA, hasA := inA[name]
		valueB, hasB := inB[name]
		if hasA != hasB || !equal(valueA, valueB) {
			return &Difference{name, describe(valueA, hasA), describe(valueB, hasB)}, nil
		}
	}
	return nil, nil
}

// Canonical returns a JSON object without spaces, with the members of all objects in the order of
// their names.
func Canonical(object json.RawMessage) ([]byte, error) {
	all, err := fields(object)
	if err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

func fields(object json.RawMessage) (map[string]any, error) {
	var all map[string]any
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	if err := decoder.Decode(&all); err != nil {
		return nil, err
	}
	return all, nil
}

func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equal)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equal)
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		x, errX := a.Float64()
		y, errY := b.Float64()
		return errX == nil && errY == nil && x == y
	}
	return a == b
}

// maxShown bounds a value in a [Difference], in bytes.
const maxShown = 256

func describe(value any, exists bool) string {
	if !exists {
		return "nothing"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "an invalid value"
	}
	if len(text) > maxShown {
		return strings.ToValidUTF8(string(text[:maxShown]), "") + "…"
	}
	return string(text)
}
