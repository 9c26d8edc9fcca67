package openapi

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	yaml "github.com/oasdiff/yaml3"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// yamlToJSON converts YAML to JSON. It keeps the order of keys and expands aliases.
func yamlToJSON(data []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) == 0 {
		return nil, errors.New("the document is empty")
	}
	w := yamlWriter{}
	if err := w.node(document.Content[0], 0); err != nil {
		return nil, err
	}
	return w.dst, nil
}

// A yamlWriter writes YAML nodes as JSON.
type yamlWriter struct {
	dst   []byte
	nodes int // number of nodes visited
}

// enter counts a node and checks the limits, because aliases can multiply nodes.
func (w *yamlWriter) enter(node *yaml.Node, depth int) error {
	w.nodes++
	switch {
	case depth > maxNesting:
		return fmt.Errorf("line %d: it nests more than %d deep", node.Line, maxNesting)
	case w.nodes > maxNodes || len(w.dst) > maxDocument:
		return fmt.Errorf("line %d: with its aliases expanded, it has more than %d bytes, or %d nodes", node.Line, maxDocument, maxNodes)
	}
	return nil
}

func (w *yamlWriter) node(node *yaml.Node, depth int) error {
	if err := w.enter(node, depth); err != nil {
		return err
	}
	switch node.Kind {
	case yaml.AliasNode:
		return w.node(node.Alias, depth+1)
	case yaml.SequenceNode:
		w.dst = append(w.dst, '[')
		for i, element := range node.Content {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			if err := w.node(element, depth+1); err != nil {
				return err
			}
		}
		w.dst = append(w.dst, ']')
		return nil
	case yaml.MappingNode:
		w.dst = append(w.dst, '{')
		if err := w.members(node, make(map[string]bool), depth); err != nil {
			return err
		}
		w.dst = append(w.dst, '}')
		return nil
	}
	return w.scalar(node)
}

// members writes the members of a mapping, and then the members of merged mappings that it does not have
// itself ("<<", YAML 1.1, "Merge Key Language-Independent Type").
func (w *yamlWriter) members(mapping *yaml.Node, written map[string]bool, depth int) error {
	if err := w.enter(mapping, depth); err != nil {
		return err
	}
	own := make(map[string]bool)
	var merged []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: a key is not a scalar", key.Line)
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
			continue
		case own[key.Value]:
			return fmt.Errorf("line %d: the key %.200q is duplicated", key.Line, key.Value)
		}
		own[key.Value] = true
		if written[key.Value] {
			continue
		}
		written[key.Value] = true
		if w.dst[len(w.dst)-1] != '{' {
			w.dst = append(w.dst, ',')
		}
		w.dst = append(jsonscan.AppendString(w.dst, key.Value), ':')
		if err := w.node(value, depth+1); err != nil {
			return err
		}
	}
	for _, value := range merged {
		if err := w.merge(value, written, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *yamlWriter) merge(value *yaml.Node, written map[string]bool, depth int) error {
	for value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	switch value.Kind {
	case yaml.MappingNode:
		return w.members(value, written, depth)
	case yaml.SequenceNode:
		if err := w.enter(value, depth); err != nil {
			return err
		}
		for _, one := range value.Content {
			if err := w.merge(one, written, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("line %d: only mappings can be merged", value.Line)
}

// scalar writes a scalar. Numbers that are valid JSON are copied.
func (w *yamlWriter) scalar(node *yaml.Node) error {
	switch node.ShortTag() {
	case "!!null":
		w.dst = append(w.dst, "null"...)
		return nil
	case "!!bool":
		var value bool
		if err := node.Decode(&value); err != nil {
			return err
		}
		w.dst = strconv.AppendBool(w.dst, value)
		return nil
	case "!!int", "!!float":
		if text := []byte(node.Value); jsonscan.KindOf(text) == jsonscan.Number && jsonscan.Valid(text) == nil {
			w.dst = append(w.dst, text...)
			return nil
		}
		return w.number(node)
	}
	w.dst = jsonscan.AppendString(w.dst, node.Value)
	return nil
}

// number converts numbers that are not valid JSON, such as 0x1F and 1_000.
func (w *yamlWriter) number(node *yaml.Node) error {
	var signed int64
	if node.Decode(&signed) == nil {
		w.dst = strconv.AppendInt(w.dst, signed, 10)
		return nil
	}
	var value float64
	if err := node.Decode(&value); err != nil {
		return err
	}
	if math.IsInf(value, 0) || math.IsNaN(value) {
		return fmt.Errorf("line %d: %s is not a number in JSON", node.Line, node.Value)
	}
	w.dst = strconv.AppendFloat(w.dst, value, 'g', -1, 64)
	return nil
}
