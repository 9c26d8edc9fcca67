package era

import (
	"bytes"
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// dropNulls returns a response without optional members that are null: many servers send what is absent as null, and
// many clients refuse it. It returns the response itself if there are none.
func dropNulls(method string, version mcp.Version, resp *jsonrpc.Response) *jsonrpc.Response {
	d := nullDropper{version: version}
	switch method {
	case mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodComplete:
	case mcp.MethodToolsCall, mcp.MethodTasksResult:
		d.tool = true
	case mcp.MethodTasksGet:
		d.tool, d.task = true, true
	default:
		return resp
	}
	result := d.drop(resp.Result)
	if len(result) == len(resp.Result) { // nothing is dropped
		return resp
	}
	return &jsonrpc.Response{ID: resp.ID, Result: result}
}

// dropTaskNulls returns the state of a task, as dropNulls does.
func dropTaskNulls(version mcp.Version, state json.RawMessage) json.RawMessage {
	d := nullDropper{version: version, tool: true, task: true}
	return d.drop(state)
}

// A nullDropper copies a result without members and elements that are null. It does not look into structured content,
// _meta and other members whose values belong to the server.
type nullDropper struct {
	version mcp.Version
	scan    jsonscan.Scanner
	dst     []byte
	tool    bool // it is the result of a tool, or the state of a task
	task    bool // it is the state of a task, whose member "result" is a result
	inside  bool // in a member of the result
	dropped bool
}

// drop returns the result itself if nothing is dropped.
func (d *nullDropper) drop(result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte("null")) || jsonscan.KindOf(result) != jsonscan.Object {
		return result
	}
	d.scan, d.dst = jsonscan.New(result), make([]byte, 0, len(result))
	if err := d.object(); err != nil || !d.dropped {
		return result
	}
	return d.dst
}

// any copies the next value.
func (d *nullDropper) any() error {
	switch d.scan.Kind() {
	case jsonscan.Object:
		return d.object()
	case jsonscan.Array:
		return d.array()
	}
	return d.raw()
}

func (d *nullDropper) raw() error {
	value, err := d.scan.Value()
	d.dst = append(d.dst, value...)
	return err
}

func (d *nullDropper) object() error {
	if err := d.scan.EnterObject(); err != nil {
		return err
	}
	top := !d.inside
	d.inside = true
	d.dst = append(d.dst, '{')
	start := len(d.dst)
	for first := true; ; first = false {
		key, ok, err := d.scan.Member(first)
		if err != nil {
			return err
		}
		if !ok {
			d.dst = append(d.dst, '}')
			return nil
		}
		if d.scan.Kind() == jsonscan.Null && !(top && d.isNullable(key)) {
			d.dropped = true
			if err := d.skip(); err != nil {
				return err
			}
			continue
		}
		if len(d.dst) > start {
			d.dst = append(d.dst, ',')
		}
		d.dst = append(append(d.dst, key...), ':')
		switch {
		case top && d.task && jsonscan.KeyIs(key, "result"):
			d.task, d.inside = false, false
			err = d.any()
			d.inside = true
		case hasOptionalMembers(key):
			err = d.any()
		default:
			err = d.raw()
		}
		if err != nil {
			return err
		}
	}
}

// isNullable reports whether null is a value of a member of the result.
func (d *nullDropper) isNullable(key []byte) bool {
	return d.tool && (jsonscan.KeyIs(key, "ttlMs") || d.version.Modern() && jsonscan.KeyIs(key, "structuredContent"))
}

func (d *nullDropper) array() error {
	if err := d.scan.EnterArray(); err != nil {
		return err
	}
	d.dst = append(d.dst, '[')
	start := len(d.dst)
	for first := true; ; first = false {
		more, err := d.scan.Element(first)
		if err != nil {
			return err
		}
		if !more {
			d.dst = append(d.dst, ']')
			return nil
		}
		if d.scan.Kind() == jsonscan.Null {
			d.dropped = true
			if err := d.skip(); err != nil {
				return err
			}
			continue
		}
		if len(d.dst) > start {
			d.dst = append(d.dst, ',')
		}
		if err := d.any(); err != nil {
			return err
		}
	}
}

func (d *nullDropper) skip() error {
	_, err := d.scan.Value()
	return err
}

// hasOptionalMembers reports whether the value of a member is of a type of the protocol, or a list of these.
func hasOptionalMembers(key []byte) bool {
	switch string(key) {
	case `"content"`, `"contents"`, `"messages"`, `"completion"`, `"resource"`, `"annotations"`, `"icons"`:
		return true
	}
	return false
}
