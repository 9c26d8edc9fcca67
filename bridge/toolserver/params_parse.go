package toolserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/frontend"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

const (
	// maxParams is how long server_params may be, in bytes: an approver is shown them.
	maxParams = 64 << 10
	// maxTerms is how many arguments, variables or headers they may have.
	maxTerms = 256
)

// paramNames are the members that server_params may have. Of those after the first seven, which
// the original passes on to its own transports, nothing is taken but their type.
var paramNames = []string{"command", "args", "env", "cwd", "url", "headers", "type", "encoding", "encoding_error_handler", "timeout", "sse_read_timeout"}

// parseParams reads server_params. None, null and {} give nil. The error tells no values.
func parseParams(raw json.RawMessage) (*ServerParams, error) {
	switch kind := jsonscan.KindOf(raw); {
	case raw == nil, kind == jsonscan.Null:
		return nil, nil
	case kind != jsonscan.Object:
		return nil, fmt.Errorf("expected an object, found %v", kind)
	case len(raw) > maxParams:
		return nil, fmt.Errorf("expected at most %d bytes", maxParams)
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil || members.Len() == 0 {
		return nil, err
	}
	for member := range members.All() {
		if name := member.Name(); !slices.Contains(paramNames, name) {
			return nil, fmt.Errorf("expected the members %s, found %s", strings.Join(paramNames, ", "), jsonscan.Quote(frontend.Cut(name)))
		}
	}
	r := reading{members: members}
	p := &ServerParams{
		Command: r.text("command"), Args: r.texts("args"), Env: r.table("env"), Dir: r.text("cwd"),
		URL: r.text("url"), Headers: r.table("headers"), Type: r.text("type"),
	}
	if encoding := r.text("encoding"); encoding != "" && !strings.EqualFold(strings.ReplaceAll(encoding, "-", ""), "utf8") {
		r.fail("encoding", "expected utf-8")
	}
	r.text("encoding_error_handler")
	for _, name := range []string{"timeout", "sse_read_timeout"} {
		if value := members.Get(name); value != nil && jsonscan.KindOf(value) != jsonscan.Number && jsonscan.KindOf(value) != jsonscan.Null {
			r.fail(name, "expected a number")
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	_, err = p.resolve("")
	return p, err
}

// A reading takes members of an object, and keeps the first thing that is wrong.
type reading struct {
	members jsonscan.Members
	err     error
}

func (r *reading) fail(name, message string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", name, message)
	}
}

// value is a member of a kind, nil if it is not there or null.
func (r *reading) value(name string, kind jsonscan.Kind) json.RawMessage {
	raw := r.members.Get(name)
	switch found := jsonscan.KindOf(raw); {
	case raw == nil, found == jsonscan.Null:
		return nil
	case found != kind:
		r.fail(name, fmt.Sprintf("expected %v, found %v", kind, found))
		return nil
	}
	return raw
}

func (r *reading) text(name string) string {
	if raw := r.value(name, jsonscan.String); raw != nil {
		return jsonscan.Unquote(raw)
	}
	return ""
}

func (r *reading) texts(name string) (texts []string) {
	raw := r.value(name, jsonscan.Array)
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, &texts); err != nil || len(texts) > maxTerms {
		r.fail(name, fmt.Sprintf("expected at most %d strings", maxTerms))
	}
	return texts
}

func (r *reading) table(name string) map[string]string {
	raw := r.value(name, jsonscan.Object)
	if raw == nil {
		return nil
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil || members.Len() > maxTerms {
		r.fail(name, fmt.Sprintf("expected an object with at most %d members, none of them twice", maxTerms))
		return nil
	}
	table := make(map[string]string, members.Len())
	for member := range members.All() {
		if jsonscan.KindOf(member.Value) != jsonscan.String {
			r.fail(name, "expected strings")
			return nil
		}
		table[member.Name()] = jsonscan.Unquote(member.Value)
	}
	return table
}
