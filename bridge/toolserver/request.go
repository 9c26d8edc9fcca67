package toolserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

const (
	// maxServerName is how long the name of a server may be, in bytes, as an alias of a bridge.
	maxServerName = 40
	// maxToolName is how long the name of a tool may be, in bytes.
	maxToolName = 256
)

// A runRequest is the body of a request for a run.
type runRequest struct {
	server, tool string
	params       *ServerParams   // nil for a known server
	arguments    json.RawMessage // an object, as it came
}

// parseRun reads the body of a request. Other members than those that it needs pass, unless
// they are these in another case. The error says what was expected.
func parseRun(body []byte) (*runRequest, error) {
	if kind := jsonscan.KindOf(body); kind != jsonscan.Object {
		return nil, fmt.Errorf("expected a JSON object, found %v", kind)
	}
	members, err := jsonscan.ReadObject(body)
	if err != nil {
		return nil, err
	}
	names := []string{"server_name", "server_params", "tool_name", "tool_args"}
	for member := range members.All() {
		name := member.Name()
		if !slices.Contains(names, name) && slices.Contains(names, strings.ToLower(name)) {
			return nil, fmt.Errorf("%s: expected lower case", jsonscan.Quote(name))
		}
	}
	q := &runRequest{arguments: members.Get("tool_args")}
	if q.server, err = nameOf(&members, "server_name", maxServerName); err != nil {
		return nil, err
	}
	if !isAlias(q.server) {
		return nil, fmt.Errorf("server_name: expected A–Z a–z 0–9 _ - and dot, without %q, and no _ at the end", bridge.Separator)
	}
	if q.tool, err = nameOf(&members, "tool_name", maxToolName); err != nil {
		return nil, err
	}
	if kind := jsonscan.KindOf(q.arguments); kind != jsonscan.Object {
		return nil, fmt.Errorf("tool_args: expected an object, found %v", kind)
	}
	if _, err := jsonscan.ReadObject(q.arguments); err != nil {
		return nil, fmt.Errorf("tool_args: %w", err)
	}
	if q.params, err = parseParams(members.Get("server_params")); err != nil {
		return nil, fmt.Errorf("server_params: %w", err)
	}
	return q, nil
}

func nameOf(members *jsonscan.Members, member string, most int) (string, error) {
	raw := members.Get(member)
	if kind := jsonscan.KindOf(raw); kind != jsonscan.String {
		return "", fmt.Errorf("%s: expected a string, found %v", member, kind)
	}
	name := jsonscan.Unquote(raw)
	if name == "" || len(name) > most {
		return "", fmt.Errorf("%s: expected 1 to %d bytes", member, most)
	}
	return name, nil
}

// isAlias reports whether a server may have a name, as one of a bridge.
func isAlias(name string) bool {
	return frontend.IsAlias(name) && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.", r)
	}) < 0
}
