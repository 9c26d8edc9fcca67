package code

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dovetail-go/dovetail/bridge/code/internal/quickjs"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/jsonvalue"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/mcp"
)

// An ending is what a script has sent at its end: a value, or an exception that it has not caught.
type ending struct {
	value   string // JSON
	notes   string // JSON list of what is wrong with the value
	handles string // JSON list of the media in the value

	failure string // name of the exception; "" for a value that is no Error
	message string
	stack   string
}

// output is what a script writes to its console.
type output struct {
	most int // bytes
	text strings.Builder
	more bool
}

// add adds a line, or its beginning if there is no more room.
func (o *output) add(line string) {
	if o.more {
		return
	}
	if left := o.most - o.text.Len(); len(line) >= left {
		line, o.more = peertext.Cut(line, max(left-1, len("…"))), true
	}
	o.text.WriteString(line + "\n")
}

// media are the images and other binary content of results, which scripts pass on by their handles.
type media struct {
	left   int // bytes that may be kept
	blocks map[string]json.RawMessage
}

// valueOf returns the result of a tool as a value for the script, in JSON. That is the structured content or, without it, the
// text; content that is not text makes it a list. The error is that of the tool.
func (m *media) valueOf(call int, result json.RawMessage) (json.RawMessage, error) {
	var r struct {
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent"`
		IsError           bool              `json:"isError"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return nil, errors.New("the call was made, and its result is not valid: " + err.Error())
	}
	var texts []string
	var parts []json.RawMessage
	for i, block := range r.Content {
		var b struct {
			Type, Text, MimeType, Data string
			Resource                   struct{ Blob, MimeType, URI string }
		}
		if json.Unmarshal(block, &b) != nil {
			continue
		}
		size := max(len(b.Data), len(b.Resource.Blob))
		switch {
		case b.Type == "text":
			texts = append(texts, b.Text)
			parts = append(parts, jsonscan.AppendString(nil, b.Text))
		case size == 0:
			parts = append(parts, block)
		default:
			handle := fmt.Sprintf("c%d.%d", call, i+1)
			if m.left -= len(block); m.left < 0 {
				return nil, errors.New("the call was made; the script has more images and other binary content than can be kept")
			}
			if m.blocks == nil {
				m.blocks = make(map[string]json.RawMessage)
			}
			m.blocks[handle] = block
			part, err := json.Marshal(map[string]any{
				"type": b.Type, "mimeType": b.MimeType + b.Resource.MimeType, "bytes": size / 4 * 3, "handle": handle,
			})
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
	}
	switch {
	case r.IsError:
		return nil, errors.New(strings.Join(texts, "\n"))
	case jsonscan.IsPresent(r.StructuredContent):
		return r.StructuredContent, nil
	case len(texts) == len(parts):
		return jsonscan.AppendString(nil, strings.Join(texts, "\n")), nil
	}
	return json.Marshal(parts)
}

// A scriptResult is what the model reads, as JSON.
type scriptResult struct {
	Value   json.RawMessage `json:"value,omitempty"`
	Error   string          `json:"error,omitempty"`
	Console string          `json:"console,omitempty"`
	Calls   []madeCalls     `json:"calls,omitempty"`
	Notes   []string        `json:"notes,omitempty"`
}

// madeCalls are calls of one function in a row that have ended in the same way.
type madeCalls struct {
	Tool  string `json:"tool"`
	Times int    `json:"times,omitempty"` // more than 1
	Error string `json:"error,omitempty"`
}

// newResult returns the result for the model, which has failed if it has an error. content comes after the text.
func newResult(r *scriptResult, content mcp.ContentList) mcp.Result {
	text, err := jsonvalue.Marshal(r)
	if err != nil {
		text = jsonscan.AppendString(nil, err.Error()) // the value of a script is valid JSON
	}
	return &mcp.CallToolResult{Content: append(mcp.ContentList{mcp.Text(string(text))}, content...), IsError: r.Error != ""}
}

// result returns the result for the model. err is why the script has not ended by itself, or nil.
func (r *run) result(err error) mcp.Result {
	made := &scriptResult{Console: strings.TrimSuffix(r.console.text.String(), "\n"), Calls: r.madeCalls()}
	if r.console.more {
		made.Notes = append(made.Notes, fmt.Sprintf("the console has more than %d bytes; the rest is left out", r.console.most))
	}
	var content mcp.ContentList
	switch {
	case err != nil:
		made.Error = r.describe(err)
	case r.end.value == "":
		made.Error = r.end.text()
	default:
		content, err = r.setValue(made)
		if err != nil {
			made.Value, made.Error = nil, err.Error()
		}
	}
	return newResult(made, content)
}

// setValue sets the value of the script, and returns the content that it refers to.
func (r *run) setValue(made *scriptResult) (content mcp.ContentList, err error) {
	if most := r.provider.options.Limits.Result; len(r.end.value) > most {
		return nil, fmt.Errorf("the value of the script has more than %d bytes of JSON: return only what is needed", most)
	}
	made.Value = json.RawMessage(r.end.value)
	var notes, handles []string
	if err := errors.Join(json.Unmarshal([]byte(r.end.notes), &notes), json.Unmarshal([]byte(r.end.handles), &handles)); err != nil {
		return nil, fmt.Errorf("the end of the script cannot be read: %w", err)
	}
	made.Notes = append(made.Notes, notes...)
	used := make(map[string]bool)
	for _, handle := range handles {
		block := r.media.blocks[handle]
		if block == nil || used[handle] {
			continue
		}
		used[handle] = true
		var blocks mcp.ContentList
		if err := json.Unmarshal([]byte("["+string(block)+"]"), &blocks); err != nil {
			return nil, err
		}
		content = append(content, blocks...)
	}
	for _, c := range r.calls {
		if !c.delivered {
			made.Notes = append(made.Notes, fmt.Sprintf("the call %d, %s, was not awaited: the script ended before it, and it may have been executed", c.number, c.text))
		}
	}
	return content, nil
}

// madeCalls returns the calls of the script, in a short form.
func (r *run) madeCalls() []madeCalls {
	var list []madeCalls
	for _, c := range r.calls {
		made := madeCalls{Tool: c.text, Times: 1}
		if c.outcome != nil && c.outcome.Error != "" {
			made.Error = peertext.Cut(c.outcome.Error, 200)
		}
		if last := len(list) - 1; last >= 0 && list[last].Tool == made.Tool && list[last].Error == made.Error {
			list[last].Times++
			continue
		}
		list = append(list, made)
	}
	for i := range list {
		if list[i].Times == 1 {
			list[i].Times = 0
		}
	}
	return list
}

// describe returns the error of a script that has not ended by itself, for the model.
func (r *run) describe(err error) string {
	if thrown, ok := errors.AsType[*quickjs.ScriptError](err); ok {
		return thrown.Text + hint(thrown.Text, r.source)
	}
	if errors.Is(err, quickjs.ErrStopped) {
		r.provider.options.Logger.Warn("a script was stopped", "error", err)
		return "the script was stopped: it needs more memory than there is, or the interpreter has failed"
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return err.Error()
	}
	r.provider.options.Logger.Error("a script cannot be run", "error", err)
	return "the script cannot be run or continued at this time; the operator has the reason"
}

// text returns the exception with the lines of the script, for the model.
func (e *ending) text() string {
	text := e.message
	if e.failure != "" {
		text = e.failure + ": " + e.message
	}
	text += hint(text, "")
	if e.stack != "" {
		text += "\n" + e.stack
	}
	return text
}
