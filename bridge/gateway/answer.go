package gateway

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// An answer is the result of a tool call, its members as they came.
type answer struct {
	whole, content, structured json.RawMessage
	isError                    bool
	texts                      [][]byte // raw strings
}

// readAnswer reads a CallToolResult. Content that is none counts for nothing.
func readAnswer(result json.RawMessage) (*answer, *frontend.Failure) {
	members, err := jsonscan.ReadObject(result)
	if err != nil {
		return nil, frontend.MalformedAnswer
	}
	a := &answer{
		whole: result, content: members.Get("content"), structured: members.Get("structuredContent"),
		isError: string(members.Get("isError")) == "true",
	}
	if a.content == nil {
		a.content = json.RawMessage("[]")
	}
	scan := jsonscan.New(a.content)
	if err := scan.EnterArray(); err != nil {
		return nil, frontend.MalformedAnswer
	}
	for first := true; ; first = false {
		ok, err := scan.Element(first)
		if err != nil {
			return nil, frontend.MalformedAnswer
		}
		if !ok {
			return a, nil
		}
		block, err := scan.Value()
		if err != nil {
			return nil, frontend.MalformedAnswer
		}
		read, err := jsonscan.ReadObject(block)
		if kind, said := read.Get("type"), read.Get("text"); err == nil && isText(kind, "text") && jsonscan.KindOf(said) == jsonscan.String {
			a.texts = append(a.texts, said)
		}
	}
}

func isText(raw []byte, value string) bool {
	return jsonscan.KindOf(raw) == jsonscan.String && jsonscan.KeyIs(raw, value)
}

// text is the answer's text, as one raw string; nil if it has none.
func (a *answer) text() json.RawMessage {
	if len(a.texts) == 0 {
		return nil
	}
	joined := []byte{'"'}
	for i, raw := range a.texts {
		if i > 0 {
			joined = append(joined, `\n`...)
		}
		joined = append(joined, raw[1:len(raw)-1]...)
	}
	return append(joined, '"')
}

// A reduction makes one JSON value of an answer.
type reduction func(a *answer) json.RawMessage

// reductions are those that a caller can choose from; nil is the default.
var reductions = map[string]reduction{"": nil, "text": reduceText, "structured": reduceStructured, "full": reduceNothing}

func reduceText(a *answer) json.RawMessage {
	if text := a.text(); text != nil {
		return text
	}
	return a.content
}

func reduceStructured(a *answer) json.RawMessage {
	if a.structured != nil {
		return a.structured
	}
	return reduceText(a)
}

func reduceNothing(a *answer) json.RawMessage { return a.whole }

// proxied is the answer in the form of the proxy.
func (a *answer) proxied(reduce reduction) []byte {
	out := strconv.AppendBool([]byte(`{"success":`), !a.isError)
	out = append(append(out, `,"result":`...), reduce(a)...)
	out = append(out, `,"error":`...)
	switch said := reduceText(a); {
	case !a.isError:
		out = append(out, "null"...)
	case jsonscan.KindOf(said) == jsonscan.String:
		out = append(out, said...)
	default:
		out = jsonscan.AppendString(out, string(bytes.TrimSpace(said)))
	}
	return append(strconv.AppendBool(append(out, `,"is_error":`...), a.isError), '}')
}
