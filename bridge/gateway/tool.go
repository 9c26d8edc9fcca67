package gateway

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A tool is an entry of a list of tools.
type tool struct {
	name   string
	raw    json.RawMessage
	listed jsonscan.Members
}

// readTools reads the result of a list of tools. What has no name is left out.
func readTools(result json.RawMessage) ([]tool, error) {
	members, err := jsonscan.ReadObject(result)
	if err != nil {
		return nil, err
	}
	scan := jsonscan.New(members.Get("tools"))
	if err := scan.EnterArray(); err != nil {
		return nil, err
	}
	var tools []tool
	for first := true; ; first = false {
		ok, err := scan.Element(first)
		if err != nil || !ok {
			return tools, err
		}
		entry, err := scan.Value()
		if err != nil {
			return nil, err
		}
		listed, err := jsonscan.ReadObject(entry)
		if name := listed.Get("name"); err == nil && jsonscan.KindOf(name) == jsonscan.String {
			tools = append(tools, tool{jsonscan.Unquote(name), entry, listed})
		}
	}
}

// member is a member of the entry as it came, or what stands for one that is not there.
func (t *tool) member(name, otherwise string) json.RawMessage {
	if value := t.listed.Get(name); value != nil {
		return value
	}
	return json.RawMessage(otherwise)
}

// needsArguments says whether the tool has an argument that must be given.
func (t *tool) needsArguments() bool {
	schema, err := jsonscan.ReadObject(t.listed.Get("inputSchema"))
	if err != nil {
		return false
	}
	var required []json.RawMessage
	return json.Unmarshal(schema.Get("required"), &required) == nil && len(required) > 0
}
