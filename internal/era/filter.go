package era

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// What older versions have no words for is left out of what this server sends
// them; most of their peers would ignore it, some refuse it.

// A filter is what one version has no words for in the result of one method.
type filter struct {
	method  string
	list    string   // the member that is a list of entries, if any
	entries []string // members to leave out of each entry
	result  []string // members to leave out of the result
	content string   // the member that holds content, if kinds must be translated
	kinds   []string // the kinds to translate into text
	object  string   // a member that may only be an object
}

const (
	memberStructured   = "structuredContent"
	memberOutputSchema = "outputSchema"
)

// onlyModern are members of an [envelope].
var onlyModern = []string{"resultType", "ttlMs", "cacheScope"}

// filterFor is what a legacy version leaves out.
func filterFor(version mcp.Version, method string) filter {
	f := filter{method: method, result: onlyModern}
	switch method {
	case mcp.MethodToolsList:
		f.list, f.object = "tools", memberOutputSchema
	case mcp.MethodPromptsList:
		f.list = "prompts"
	case mcp.MethodResourcesList:
		f.list = "resources"
	case mcp.MethodResourceTemplatesList:
		f.list = "resourceTemplates"
	case mcp.MethodToolsCall:
		f.content, f.object = "content", memberStructured
	case mcp.MethodPromptsGet:
		f.list, f.content = "messages", "content"
	}
	if version < mcp.Version20251125 {
		f.entries = append(f.entries, "icons", "execution")
	}
	if version < mcp.Version20250618 {
		f.entries = append(f.entries, "title", "_meta", memberOutputSchema)
		f.result = append(f.result, memberStructured)
		f.kinds = append(f.kinds, "resource_link")
	}
	if version < mcp.Version20250326 {
		f.kinds = append(f.kinds, "audio")
		if method == mcp.MethodToolsList {
			f.entries = append(f.entries, "annotations")
		}
	}
	return f
}

// concernsBare reports whether there may be anything to leave out of a [Bare] result.
func (f *filter) concernsBare() bool { return len(f.result) > len(onlyModern) || len(f.kinds) > 0 }

// append appends a result that stands elsewhere, without what the version has no
// words for.
func (f filter) append(dst, body []byte) ([]byte, error) {
	result, err := jsonscan.ReadObject(body)
	if err != nil {
		return dst, f.failed(err)
	}
	edits, err := leaveOutServer(leaveOut(&result, f.result), result.Get(memberMeta))
	if err != nil {
		return dst, f.failed(err)
	}
	if f.list != "" {
		entries, err := rewriteEach(result.Get(f.list), f.entry)
		if err != nil {
			return dst, f.failed(err)
		}
		edits = append(edits, edit(f.list, entries)...)
	} else {
		more, err := f.contentEdits(&result)
		if err != nil {
			return dst, f.failed(err)
		}
		edits = append(edits, more...)
	}
	if len(edits) == 0 {
		return append(dst, body...), nil
	}
	return jsonscan.Splice(dst, body, edits...)
}

// apply leaves out of the result that begins at start and ends the buffer what the
// version has no words for.
func (f filter) apply(buf []byte, start int) ([]byte, error) {
	return f.append(buf[:start], bytes.Clone(buf[start:]))
}

// leaveOutServer leaves out who has made a result that has come from a server further on:
// that is for the hop it came by.
func leaveOutServer(edits []jsonscan.Edit, meta json.RawMessage) ([]jsonscan.Edit, error) {
	if jsonscan.KindOf(meta) != jsonscan.Object {
		return edits, nil
	}
	members, err := jsonscan.ReadObject(meta)
	if err != nil || members.Get(mcp.MetaServerInfo) == nil {
		return edits, err
	}
	rest := jsonscan.Edit{Name: memberMeta}
	if members.Len() > 1 {
		rest.Value, err = jsonscan.Splice(nil, meta, jsonscan.Edit{Name: mcp.MetaServerInfo})
	}
	return append(edits, rest), err
}

func (f *filter) failed(err error) error { return fmt.Errorf("the result of %s: %w", f.method, err) }

func (f *filter) entry(element []byte) ([]byte, error) {
	object, err := jsonscan.ReadObject(element)
	if err != nil {
		return nil, err
	}
	edits := leaveOut(&object, f.entries)
	more, err := f.contentEdits(&object)
	if err != nil {
		return nil, err
	}
	if edits = append(edits, more...); len(edits) == 0 {
		return element, nil
	}
	return jsonscan.Splice(nil, element, edits...)
}

// contentEdits translate an object's content and leave out the member that may
// only be an object, if it is not one.
func (f *filter) contentEdits(object *jsonscan.Members) ([]jsonscan.Edit, error) {
	var edits []jsonscan.Edit
	if value := object.Get(f.object); f.object != "" && value != nil && !mayBeObject(f.object, value) {
		edits = append(edits, jsonscan.Edit{Name: f.object})
	}
	content := object.Get(f.content)
	if f.content == "" || content == nil || len(f.kinds) == 0 {
		return edits, nil
	}
	var err error
	if content[0] == '[' {
		content, err = rewriteEach(content, f.block)
	} else {
		content, err = f.block(content)
	}
	return append(edits, edit(f.content, content)...), err
}

// block is a content block in a kind that the version has.
func (f *filter) block(block []byte) ([]byte, error) {
	object, err := jsonscan.ReadObject(block)
	if err != nil {
		return nil, err
	}
	for _, kind := range f.kinds {
		if isString(object.Get("type"), kind) {
			return asText(kind, &object), nil
		}
	}
	return block, nil
}

// asText says in text what a block of a newer kind was.
func asText(kind string, block *jsonscan.Members) json.RawMessage {
	said := "audio of type " + stringOf(block.Get("mimeType"))
	if kind == "resource_link" {
		said = "resource " + stringOf(block.Get("name")) + ": " + stringOf(block.Get("uri"))
	}
	return append(jsonscan.AppendString([]byte(`{"type":"text","text":`), "["+said+"]"), '}')
}

func stringOf(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' {
		return "unknown"
	}
	return jsonscan.Unquote(raw)
}

// mayBeObject: structured content must be an object, an output schema must be
// one's, until 2025-11-25.
func mayBeObject(member string, value []byte) bool {
	if value[0] != '{' {
		return false
	}
	if member == memberStructured {
		return true
	}
	schema, err := jsonscan.ReadObject(value)
	return err == nil && isString(schema.Get("type"), "object")
}

// leaveOut removes members of an object, as far as it has them.
func leaveOut(object *jsonscan.Members, names []string) []jsonscan.Edit {
	var edits []jsonscan.Edit
	for _, name := range names {
		if object.Get(name) != nil {
			edits = append(edits, jsonscan.Edit{Name: name})
		}
	}
	return edits
}

// edit replaces a member, if there is something to replace it with.
func edit(name string, value []byte) []jsonscan.Edit {
	if value == nil {
		return nil
	}
	return []jsonscan.Edit{{Name: name, Value: value}}
}

// rewriteEach rewrites the elements of an array; all between them stays as it is. nil
// stays nil.
func rewriteEach(array []byte, rewrite func([]byte) ([]byte, error)) ([]byte, error) {
	if array == nil {
		return nil, nil
	}
	s := jsonscan.New(array)
	if err := s.EnterArray(); err != nil {
		return nil, err
	}
	var out []byte
	copied := 0
	for first := true; ; first = false {
		more, err := s.Element(first)
		if err != nil {
			return nil, err
		}
		if !more {
			return append(out, array[copied:]...), nil
		}
		element, err := s.Value()
		if err != nil {
			return nil, err
		}
		end := s.Offset()
		out = append(out, array[copied:end-len(element)]...)
		if element, err = rewrite(element); err != nil {
			return nil, err
		}
		out = append(out, element...)
		copied = end
	}
}
