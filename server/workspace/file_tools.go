package workspace

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// fileTools are the tools that look at files and directories, make and remove them.
type fileTools struct{ work *Workspace }

// Annotations are what all of them have in common.
func (fileTools) Annotations() server.Annotations { return closedWorld() }

// readFileIn are the arguments of [fileTools.ReadFile].
type readFileIn struct {
	_        server.ToolTag `readOnly:"true" timeout:"30s" tags:"files"`
	Path     string         `json:"path" jsonschema:"minLength=1"`                                     // the file, relative to the workspace, or absolute and in it
	Offset   int            `json:"offset,omitempty" jsonschema:"minimum=1,default=1"`                 // the number of the first line to read
	Limit    int            `json:"limit,omitempty" jsonschema:"minimum=1,maximum=10000,default=2000"` // how many lines to read at most
	Encoding string         `json:"encoding,omitempty" jsonschema:"enum=utf-8,default=utf-8"`          // how the text is encoded
}

// pictures are the kinds that models look at.
var pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// ReadFile reads a text file, with numbered lines, or shows a picture. Long lines are cut.
// Other binary files are refused.
func (f *fileTools) ReadFile(ctx context.Context, in readFileIn) (mcp.ContentList, error) {
	head, err := f.head(in.Path)
	if err != nil {
		return nil, err
	}
	if kind := http.DetectContentType(head); !IsText(head) && slices.Contains(pictures, kind) {
		data, err := f.work.ReadFile(in.Path, maxImage)
		return mcp.ContentList{mcp.Image(data, kind)}, err
	}
	lines, more, err := f.work.Lines(ctx, in.Path, in.Offset, in.Limit)
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
		fmt.Fprintf(&text, "… more lines follow: go on with the offset %d\n", in.Offset+len(lines))
	}
	return mcp.ContentList{mcp.Text(text.String())}, nil
}

// head is the beginning of a file, by which a picture is known.
func (f *fileTools) head(path string) ([]byte, error) {
	file, err := f.work.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, 512))
}

// writeFileIn are the arguments of [fileTools.WriteFile].
type writeFileIn struct {
	_       server.ToolTag `destructive:"true" idempotent:"true" timeout:"30s" tags:"files"`
	Path    string         `json:"path" jsonschema:"minLength=1"` // the file; directories above it are made
	Content string         `json:"content"`                       // all that will be in it
}

// WriteFile makes a file, or replaces one as a whole.
func (f *fileTools) WriteFile(_ context.Context, in writeFileIn) (string, error) {
	if _, err := f.work.WriteFile(in.Path, []byte(in.Content)); err != nil {
		return "", err
	}
	return fmt.Sprintf("Successfully wrote %d bytes to %s", len(in.Content), in.Path), nil
}

// listDirectoryIn are the arguments of [fileTools.ListDirectory].
type listDirectoryIn struct {
	_      server.ToolTag `readOnly:"true" timeout:"30s" tags:"files"`
	Path   string         `json:"path,omitempty" jsonschema:"default=."` // the directory
	Hidden bool           `json:"hidden,omitempty"`                      // list names that begin with a dot too
}

// ListDirectory lists a directory, a name a line: / stands after directories, @ after
// links, and ! after pipes, sockets and devices.
func (f *fileTools) ListDirectory(_ context.Context, in listDirectoryIn) (string, error) {
	entries, err := f.work.ReadDir(in.Path)
	if err != nil {
		return "", err
	}
	var list strings.Builder
	listed, left := 0, 0
	for _, entry := range entries {
		switch {
		case strings.HasPrefix(entry.Name(), ".") && !in.Hidden:
		case listed == maxListed:
			left++
		default:
			listed++
			fmt.Fprintf(&list, "%s%s\n", entry.Name(), mark(entry.Type()))
		}
	}
	if left > 0 {
		fmt.Fprintf(&list, "… and %d more\n", left)
	}
	if list.Len() == 0 {
		return "The directory is empty.", nil
	}
	return list.String(), nil
}

func mark(kind fs.FileMode) string {
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

// createDirectoryIn are the arguments of [fileTools.CreateDirectory].
type createDirectoryIn struct {
	_    server.ToolTag `destructive:"false" idempotent:"true" timeout:"30s" tags:"files"`
	Path string         `json:"path" jsonschema:"minLength=1"` // the directory; those above it are made
}

// CreateDirectory makes a directory. One that is there already is fine.
func (f *fileTools) CreateDirectory(_ context.Context, in createDirectoryIn) (string, error) {
	return "Created the directory " + in.Path, f.work.Mkdir(in.Path)
}

// deleteFileIn are the arguments of [fileTools.DeleteFile].
type deleteFileIn struct {
	_         server.ToolTag `destructive:"true" idempotent:"false" timeout:"30s" tags:"files"`
	Path      string         `json:"path" jsonschema:"minLength=1"` // the file, link or directory
	Recursive bool           `json:"recursive,omitempty"`           // remove a directory with all that is in it
}

// DeleteFile removes a file, a link itself, or an empty directory.
func (f *fileTools) DeleteFile(_ context.Context, in deleteFileIn) (string, error) {
	return "Deleted " + in.Path, f.work.Remove(in.Path, in.Recursive)
}
