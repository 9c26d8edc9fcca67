package openapi

import (
	"encoding/json"
	"errors"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A value is an argument as parameters and forms can hold it: text, a list of texts,
// or named texts. The zero value is absent.
type value struct {
	kind  jsonscan.Kind // String for any scalar, Array or Object; Invalid if absent
	texts []string
	names []string // of an object, beside its texts
}

var errNested = errors.New("a list or object within it cannot be written in this place")

// readValue reads an argument. null is absent; within a list or object it is left out.
func readValue(raw json.RawMessage) (value, error) {
	switch kind := jsonscan.KindOf(raw); kind {
	case jsonscan.Array:
		return readList(raw)
	case jsonscan.Object:
		members, err := jsonscan.ReadObject(raw)
		if err != nil {
			return value{}, err
		}
		v := value{kind: kind}
		for m := range members.All() {
			if jsonscan.KindOf(m.Value) == jsonscan.Null {
				continue
			}
			text, err := scalar(m.Value)
			if err != nil {
				return value{}, err
			}
			v.names, v.texts = append(v.names, m.Name()), append(v.texts, text)
		}
		return v, nil
	case jsonscan.Null, jsonscan.EOF:
		return value{}, nil
	}
	text, err := scalar(raw)
	return value{kind: jsonscan.String, texts: []string{text}}, err
}

func readList(raw json.RawMessage) (value, error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return value{}, err
	}
	v := value{kind: jsonscan.Array}
	for _, element := range elements {
		if jsonscan.KindOf(element) == jsonscan.Null {
			continue
		}
		text, err := scalar(element)
		if err != nil {
			return value{}, err
		}
		v.texts = append(v.texts, text)
	}
	return v, nil
}

// scalar is the text of a string, number or boolean.
func scalar(raw json.RawMessage) (string, error) {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		return jsonscan.Unquote(raw), nil
	case jsonscan.Number, jsonscan.Bool:
		return string(raw), nil
	}
	return "", errNested
}

// isEmpty says whether there is nothing to write.
func (v value) isEmpty() bool { return len(v.texts) == 0 }
