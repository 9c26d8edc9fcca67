package era

import (
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A filter removes members from the results of one method that one version does not have. Most
// old clients ignore such members; some refuse the result.
type filter struct {
	method
	name   string   // of the method
	entry  []string // members to remove from each entry
	result []string // members to remove from the result
	kinds  []string // the kinds of content to convert into text
}

const (
	memberStructured   = "structuredContent"
	memberOutputSchema = "outputSchema"
)

// An entryMember is a member of entries of lists that not all versions have.
type entryMember struct {
	name   string
	first  mcp.Version // the first version that has it
	method string      // the only list whose entries get it later than others; "": all lists
}

var entryMembers = [...]entryMember{
	{name: "icons", first: mcp.Version20251125},
	{name: "execution", first: mcp.Version20251125},
	{name: "title", first: mcp.Version20250618},
	{name: "_meta", first: mcp.Version20250618},
	{name: memberOutputSchema, first: mcp.Version20250618},
	{name: "annotations", first: mcp.Version20250326, method: mcp.MethodToolsList},
}

// onlyModern are members of an envelope.
var onlyModern = []string{"resultType", "ttlMs", "cacheScope"}

// filterFor returns the filter of a legacy version.
func filterFor(version mcp.Version, method string) filter {
	f := filter{method: methods[method], name: method, result: onlyModern}
	for _, member := range entryMembers {
		if version < member.first && (member.method == "" || member.method == method) {
			f.entry = append(f.entry, member.name)
		}
	}
	if version < mcp.Version20250618 {
		f.result = append(f.result, memberStructured)
		f.kinds = append(f.kinds, "resource_link")
	}
	if version < mcp.Version20250326 {
		f.kinds = append(f.kinds, "audio")
	}
	return f
}

// concernsBare reports whether the filter may change a [Bare] result.
func (f *filter) concernsBare() bool { return len(f.result) > len(onlyModern) || len(f.kinds) > 0 }

// append appends a result, which is in other memory, without members that the version does not
// have.
func (f filter) append(dst, body []byte) ([]byte, error) {
	result, err := jsonscan.ReadObject(body)
	if err != nil {
		return dst, f.failed(err)
	}
	edits, err := removeServer(remove(&result, f.result), result.Get(memberMeta))
	if err != nil {
		return dst, f.failed(err)
	}
	if f.entries != "" {
		entries, err := rewriteEach(result.Get(f.entries), f.rewriteEntry)
		if err != nil {
			return dst, f.failed(err)
		}
		edits = append(edits, edit(f.entries, entries)...)
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

// removeServer removes the server from the _meta of a result of another server: it is valid
// for one hop.
func removeServer(edits []jsonscan.Edit, meta json.RawMessage) ([]jsonscan.Edit, error) {
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

func (f *filter) failed(err error) error { return fmt.Errorf("the result of %s: %w", f.name, err) }

func (f *filter) rewriteEntry(element []byte) ([]byte, error) {
	object, err := jsonscan.ReadObject(element)
	if err != nil {
		return nil, err
	}
	edits := remove(&object, f.entry)
	more, err := f.contentEdits(&object)
	if err != nil {
		return nil, err
	}
	if edits = append(edits, more...); len(edits) == 0 {
		return element, nil
	}
	return jsonscan.Splice(nil, element, edits...)
}

// contentEdits convert the content of an object, and remove the member that may only be an
// object if it is not one.
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

// block returns a content block in a kind that the version has.
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

// asText returns a text block that describes a block of a newer kind.
func asText(kind string, block *jsonscan.Members) json.RawMessage {
	text := "audio of type " + stringOf(block.Get("mimeType"))
	if kind == "resource_link" {
		text = "resource " + stringOf(block.Get("name")) + ": " + stringOf(block.Get("uri"))
	}
	return append(jsonscan.AppendString([]byte(`{"type":"text","text":`), "["+text+"]"), '}')
}

func stringOf(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' {
		return "unknown"
	}
	return jsonscan.Unquote(raw)
}

// mayBeObject reports whether a value is allowed until 2025-11-25: structured content must be
// an object, and an output schema must describe one.
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

// remove returns the edits that remove members, as far as the object has them.
func remove(object *jsonscan.Members, names []string) []jsonscan.Edit {
	var edits []jsonscan.Edit
	for _, name := range names {
		if object.Get(name) != nil {
			edits = append(edits, jsonscan.Edit{Name: name})
		}
	}
	return edits
}

// edit returns the edit that replaces a member, if value is not nil.
func edit(name string, value []byte) []jsonscan.Edit {
	if value == nil {
		return nil
	}
	return []jsonscan.Edit{{Name: name, Value: value}}
}

// rewriteEach rewrites the elements of an array and copies everything else. It returns nil for
// a nil array.
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

// capabilitiesFor returns a server's capabilities as a version declares them.
func capabilitiesFor(version mcp.Version, has mcp.ServerCapabilities) mcp.ServerCapabilities {
	if version < mcp.Version20250326 {
		has.Completions = nil
	}
	if version != mcp.Version20251125 {
		has.Tasks = nil
	}
	has.Extensions = extensionsFor(version, has.Extensions)
	return has
}

// extensionsFor returns the extensions that exist in a version.
func extensionsFor(version mcp.Version, declared map[string]json.RawMessage) map[string]json.RawMessage {
	if version.Modern() {
		return declared
	}
	var kept map[string]json.RawMessage
	for name, settings := range declared {
		if version < extensions[name] {
			continue
		}
		if kept == nil {
			kept = make(map[string]json.RawMessage, len(declared))
		}
		kept[name] = settings
	}
	return kept
}

// capabilitiesAs returns a client's capabilities as a version declares them.
func capabilitiesAs(version mcp.Version, has mcp.ClientCapabilities) mcp.ClientCapabilities {
	if version < mcp.Version20250618 {
		has.Elicitation = nil
	}
	if version < mcp.Version20251125 {
		if has.Elicitation != nil {
			has.Elicitation = &mcp.ElicitationCapability{}
		}
		if has.Sampling != nil {
			has.Sampling = &mcp.SamplingCapability{}
		}
	}
	if version != mcp.Version20251125 {
		has.Tasks = nil
	}
	if version.Modern() && has.Roots != nil {
		has.Roots = &mcp.RootsCapability{}
	}
	has.Extensions = extensionsFor(version, has.Extensions)
	return has
}

// implementationFor returns an implementation without the members that a version does not have.
func implementationFor(version mcp.Version, info mcp.Implementation) mcp.Implementation {
	if version < mcp.Version20251125 {
		info.Icons, info.Description, info.WebsiteURL = nil, "", ""
	}
	if version < mcp.Version20250618 {
		info.Title = ""
	}
	return info
}

// filteredParams returns the params of a notification without members that a version does not have.
func filteredParams(version mcp.Version, method string, params jsonrpc.Appender) (jsonrpc.Appender, error) {
	if method != mcp.NotificationProgress || version >= mcp.Version20250326 {
		return params, nil
	}
	switch p := params.(type) {
	case *mcp.ProgressParams:
		plain := *p
		plain.Message = ""
		return &plain, nil
	case mcp.Raw:
		plain, err := jsonscan.Splice(nil, p, jsonscan.Edit{Name: "message"})
		return mcp.Raw(plain), err
	}
	return params, nil
}

// questionFor returns the params of a question as a request to a legacy client.
func questionFor(version mcp.Version, question mcp.InputRequest) (jsonrpc.Appender, error) {
	if question.Params == nil {
		return nil, nil
	}
	if question.Method != mcp.MethodElicit {
		return mcp.Raw(question.Params), nil
	}
	params, err := jsonscan.ReadObject(question.Params)
	if err != nil {
		return nil, fmt.Errorf("the question: %w", err)
	}
	var change jsonscan.Edit
	switch mode := params.Get("mode"); {
	case mode == nil:
		return mcp.Raw(question.Params), nil
	case version < mcp.Version20251125:
		change.Name = "mode" // the version has only forms
	case jsonscan.KeyIs(mode, string(mcp.ElicitURL)) && params.Get("elicitationId") == nil:
		change = jsonscan.Edit{Name: "elicitationId", Value: jsonscan.AppendString(nil, rand.Text())}
	default:
		return mcp.Raw(question.Params), nil
	}
	changed, err := jsonscan.Splice(nil, question.Params, change)
	return mcp.Raw(changed), err
}
