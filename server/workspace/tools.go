package workspace

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/pattern"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

//go:generate go run ../mcpgen

const (
	maxImage  = 5 << 20 // bytes of an image that read_file returns
	maxRaw    = 1 << 20 // bytes of a file that read_file returns unchanged
	maxListed = 1000    // entries that list_directory returns
	maxFound  = 100     // files or lines that a search returns
)

// Tools returns tools with which a model works with the files of a workspace, for
// server.Server.Replace: read_file, write_file, edit_file, multi_edit, list_directory,
// create_directory, delete_file, search_files and search_content. They have accurate
// annotations and the tag "files" or "search". The text of read_file has line numbers, and long
// lines are cut, unless the argument raw or [Options].Raw asks for the unchanged text.
func Tools(w *Workspace) ([]*server.Entry, error) { return server.Service(&tools{w}) }

// tools is the service whose exported methods are the tools.
type tools struct{ workspace *Workspace }

// Annotations says that the tools access nothing outside of the workspace.
func (tools) Annotations() server.Annotations {
	return server.Annotations{Tool: mcp.ToolAnnotations{OpenWorldHint: new(false)}}
}

type readFileIn struct {
	_        server.ToolTag `readOnly:"true" timeout:"30s" tags:"files"`
	Path     string         `json:"path" jsonschema:"minLength=1"`                                     // the file, relative to the workspace or absolute
	Offset   int            `json:"offset,omitempty" jsonschema:"minimum=1,default=1"`                 // the number of the first line to read
	Limit    int            `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10000,default=2000"` // the maximum number of lines to read
	Encoding string         `json:"encoding,omitempty" jsonschema:"maxLength=40,default=utf-8"`        // the encoding of the text, such as utf-16, latin-1, cp1252 or shift_jis
	Raw      *bool          `json:"raw,omitempty"`                                                     // true: the complete, unchanged text without line numbers, of at most 1 MiB; offset and limit have no effect
}

// imageTypes are the images that models accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// ReadFile reads a text file with line numbers, or returns an image. Long lines are cut.
// Other binary files are refused.
func (t *tools) ReadFile(ctx context.Context, in readFileIn) (mcp.ContentList, error) {
	encoding, err := codecOf(in.Encoding)
	if err != nil {
		return nil, err
	}
	head, err := t.workspace.head(in.Path)
	if err != nil {
		return nil, err
	}
	if kind := http.DetectContentType(head); encoding == nil && !isText(head) && slices.Contains(imageTypes, kind) {
		data, err := t.workspace.ReadFile(in.Path, maxImage)
		return mcp.ContentList{mcp.Image(data, kind)}, err
	}
	if raw := in.Raw; raw == nil && t.workspace.raw || raw != nil && *raw {
		text, err := t.rawText(in.Path, encoding)
		if err != nil {
			return nil, err
		}
		return mcp.ContentList{mcp.Text(text)}, nil
	}
	lines, more, err := t.workspace.lines(ctx, in.Path, encoding, in.Offset, in.Limit)
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return mcp.ContentList{mcp.Text("The file is empty.")}, nil
	}
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "%6d\t%s\n", line.Number, line.Text)
	}
	if more {
		fmt.Fprintf(&text, "… more lines follow: continue with offset %d\n", in.Offset+len(lines))
	}
	return mcp.ContentList{mcp.Text(text.String())}, nil
}

// rawText returns the unchanged text of a file. Text in a result is UTF-8, so other bytes could
// not be kept.
func (t *tools) rawText(path string, encoding *codec) (string, error) {
	data, err := t.workspace.ReadFile(path, maxRaw)
	switch {
	case err != nil:
		return "", err
	case encoding != nil:
		return encoding.decode(path, data, false)
	case !utf8.Valid(data):
		return "", &Error{path, ErrBinary}
	}
	return string(data), nil
}

type writeFileIn struct {
	_        server.ToolTag `destructive:"true" idempotent:"true" timeout:"30s" tags:"files"`
	Path     string         `json:"path" jsonschema:"minLength=1"`                              // the file; missing directories are created
	Content  string         `json:"content"`                                                    // the complete new content of the file
	Encoding string         `json:"encoding,omitempty" jsonschema:"maxLength=40,default=utf-8"` // the encoding of the file, as in read_file
}

// WriteFile creates a file, or replaces its complete content.
func (t *tools) WriteFile(_ context.Context, in writeFileIn) (string, error) {
	encoding, err := codecOf(in.Encoding)
	if err != nil {
		return "", err
	}
	written, err := t.workspace.writeText(in.Path, in.Content, encoding)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Successfully wrote %d bytes to %s", written, in.Path), nil
}

type editFileIn struct {
	_    server.ToolTag `destructive:"true" idempotent:"false" timeout:"30s" tags:"files"`
	Path string         `json:"path" jsonschema:"minLength=1"` // the file
	Replacement
	Encoding string `json:"encoding,omitempty" jsonschema:"maxLength=40,default=utf-8"` // the encoding of the file, as in read_file
}

// EditFile replaces a text in a file. All other bytes stay as they are.
func (t *tools) EditFile(_ context.Context, in editFileIn) (string, error) {
	return t.edit(in.Path, in.Encoding, []Replacement{in.Replacement})
}

type multiEditIn struct {
	_        server.ToolTag `destructive:"true" idempotent:"false" timeout:"30s" tags:"files"`
	Path     string         `json:"path" jsonschema:"minLength=1"`                              // the file
	Edits    []Replacement  `json:"edits" jsonschema:"minItems=1,maxItems=1000"`                // the replacements, applied in this order
	Encoding string         `json:"encoding,omitempty" jsonschema:"maxLength=40,default=utf-8"` // the encoding of the file, as in read_file
}

// MultiEdit applies several edits to one file: all of them, or none.
func (t *tools) MultiEdit(_ context.Context, in multiEditIn) (string, error) {
	return t.edit(in.Path, in.Encoding, in.Edits)
}

func (t *tools) edit(path, encoding string, edits []Replacement) (string, error) {
	codec, err := codecOf(encoding)
	if err != nil {
		return "", err
	}
	replaced, err := t.workspace.replace(path, codec, edits)
	return fmt.Sprintf("Edited %s: %d replaced", path, replaced), err
}

type listDirectoryIn struct {
	_      server.ToolTag `readOnly:"true" timeout:"30s" tags:"files"`
	Path   string         `json:"path,omitempty" jsonschema:"default=."` // the directory
	Hidden bool           `json:"hidden,omitempty"`                      // include names that begin with a dot
}

// ListDirectory lists a directory, one name per line. A suffix marks the type: / for
// directories, @ for links, ! for pipes, sockets and devices.
func (t *tools) ListDirectory(_ context.Context, in listDirectoryIn) (string, error) {
	entries, err := t.workspace.ReadDir(in.Path)
	if err != nil {
		return "", err
	}
	var list strings.Builder
	listed, omitted := 0, 0
	for _, entry := range entries {
		switch {
		case strings.HasPrefix(entry.Name(), ".") && !in.Hidden:
		case listed == maxListed:
			omitted++
		default:
			listed++
			fmt.Fprintf(&list, "%s%s\n", entry.Name(), typeSuffix(entry.Type()))
		}
	}
	if omitted > 0 {
		fmt.Fprintf(&list, "… and %d more\n", omitted)
	}
	if list.Len() == 0 {
		return "The directory is empty.", nil
	}
	return list.String(), nil
}

func typeSuffix(kind fs.FileMode) string {
	switch kind {
	case 0:
		return ""
	case fs.ModeDir:
		return "/"
	case fs.ModeSymlink:
		return "@"
	default:
		return "!"
	}
}

type createDirectoryIn struct {
	_    server.ToolTag `destructive:"false" idempotent:"true" timeout:"30s" tags:"files"`
	Path string         `json:"path" jsonschema:"minLength=1"` // the directory; missing parents are created
}

// CreateDirectory creates a directory. It succeeds if the directory exists.
func (t *tools) CreateDirectory(_ context.Context, in createDirectoryIn) (string, error) {
	return "Created the directory " + in.Path, t.workspace.Mkdir(in.Path)
}

type deleteFileIn struct {
	_         server.ToolTag `destructive:"true" idempotent:"false" timeout:"30s" tags:"files"`
	Path      string         `json:"path" jsonschema:"minLength=1"` // the file, link or directory
	Recursive bool           `json:"recursive,omitempty"`           // remove a directory and everything in it
}

// DeleteFile removes a file, a link (not its target), or an empty directory.
func (t *tools) DeleteFile(_ context.Context, in deleteFileIn) (string, error) {
	return "Deleted " + in.Path, t.workspace.Remove(in.Path, in.Recursive)
}

type searchFilesIn struct {
	_       server.ToolTag `readOnly:"true" timeout:"30s" tags:"search"`
	Pattern string         `json:"pattern" jsonschema:"minLength=1,maxLength=500"` // such as *.go, *.{js,ts} or src/**/*.ts: ** matches any directories
	Path    string         `json:"path,omitempty" jsonschema:"default=."`          // the directory to search in
}

// SearchFiles finds files by a pattern for their names, the most recently modified first.
func (t *tools) SearchFiles(ctx context.Context, in searchFilesIn) (string, error) {
	files, complete, err := t.workspace.Find(ctx, in.Path, in.Pattern)
	var list strings.Builder
	for _, f := range files[:min(len(files), maxFound)] {
		fmt.Fprintln(&list, f.Name)
	}
	return searchResult(&list, complete && len(files) <= maxFound), err
}

type searchContentIn struct {
	_       server.ToolTag `readOnly:"true" timeout:"30s" tags:"search"`
	Pattern string         `json:"pattern" jsonschema:"minLength=1,maxLength=1000"` // a regular expression in RE2 syntax
	Path    string         `json:"path,omitempty" jsonschema:"default=."`           // the file or directory to search in
	Include string         `json:"include,omitempty" jsonschema:"maxLength=500"`    // search only files whose names match this pattern, as in search_files
}

// SearchContent finds the lines of text files that match a regular expression.
func (t *tools) SearchContent(ctx context.Context, in searchContentIn) (string, error) {
	expression, err := pattern.Compile(in.Pattern)
	if err != nil {
		return "", err
	}
	matches, complete, err := t.workspace.Grep(ctx, in.Path, in.Include, expression.Regexp, maxFound)
	var list strings.Builder
	for _, m := range matches {
		fmt.Fprintf(&list, "%s:%d: %s\n", m.Name, m.Number, m.Text)
	}
	return searchResult(&list, complete), err
}

func searchResult(list *strings.Builder, complete bool) string {
	if list.Len() == 0 {
		list.WriteString("Nothing found.\n")
	}
	if !complete {
		list.WriteString("… there are more results: use a narrower pattern or path\n")
	}
	return list.String()
}
