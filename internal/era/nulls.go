package era

import (
	"bytes"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// dropNulls returns a response without optional members that are null: many servers send what is absent as null, and
// many clients refuse it. It returns the response itself if there are none.
func dropNulls(method string, version mcp.Version, resp *jsonrpc.Response) *jsonrpc.Response {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet, mcp.MethodResourcesRead, mcp.MethodComplete, mcp.MethodTasksResult:
	default:
		return resp
	}
	if !bytes.Contains(resp.Result, []byte("null")) || jsonscan.KindOf(resp.Result) != jsonscan.Object {
		return resp
	}
	d := nullDropper{scan: jsonscan.New(resp.Result), dst: make([]byte, 0, len(resp.Result))}
	if version.Modern() {
		d.value = "structuredContent" // it may be any value
	}
	if err := d.any(); err != nil || !d.dropped {
		return resp
	}
	return &jsonrpc.Response{ID: resp.ID, Result: d.dst}
}

// A nullDropper copies a result without members and elements that are null. It does not look into structured content,
// _meta and other members whose values belong to the server.
type nullDropper struct {
	scan    jsonscan.Scanner
	dst     []byte
	value   string // the name of a member of the result that may have the value null; "" for none
	dropped bool
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
	keepsNull := d.value
	d.value = ""
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
		if d.scan.Kind() == jsonscan.Null && (keepsNull == "" || !jsonscan.KeyIs(key, keepsNull)) {
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
		if hasOptionalMembers(key) {
			err = d.any()
		} else {
			err = d.raw()
		}
		if err != nil {
			return err
		}
	}
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
