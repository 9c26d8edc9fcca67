package search

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/server"
)

// A writer writes the words of one tool into an index.
type writer struct {
	*index
	tool   int32
	length float32
	left   int // how many words may still come
}

func (w *writer) writeTool(tool *server.Entry) {
	entry, err := jsonscan.ReadObject(tool.Definition.JSON())
	if err != nil {
		return // and so it is not listed
	}
	w.write(tool.Name, inName)
	w.writeMember(entry.Get("title"), inTitle)
	w.writeMember(entry.Get("description"), inDescription)
	schema, err := jsonscan.ReadObject(entry.Get("inputSchema"))
	if err != nil {
		return
	}
	arguments, err := jsonscan.ReadObject(schema.Get("properties"))
	if err != nil {
		return
	}
	for argument := range arguments.All() {
		w.write(argument.Name(), inArgument)
	}
	for argument := range arguments.All() {
		if about, err := jsonscan.ReadObject(argument.Value); err == nil {
			w.writeMember(about.Get("description"), inArgumentDescription)
		}
	}
}

// writeMember writes a member that should be a string.
func (w *writer) writeMember(value json.RawMessage, weight float32) {
	if jsonscan.KindOf(value) == jsonscan.String {
		w.write(jsonscan.Unquote(value), weight)
	}
}

func (w *writer) write(text string, weight float32) {
	for word := range words(text) {
		if w.left == 0 {
			return
		}
		w.left--
		w.length += weight
		w.count(word, weight)
	}
}

func (w *writer) count(word []byte, weight float32) {
	id, ok := w.words[string(word)]
	if !ok {
		id = int32(len(w.postings))
		w.words[string(word)] = id
		w.postings = append(w.postings, nil)
	}
	postings := w.postings[id]
	if n := len(postings); n > 0 && postings[n-1].tool == w.tool {
		postings[n-1].weight += weight
		return
	}
	w.postings[id] = append(postings, posting{w.tool, weight})
}
