package workspace

import (
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

//go:generate go run ../mcpgen

// Tools are tools for a model to work with the files in a workspace, for
// server.Server.Replace: read_file, write_file, edit_file, multi_edit, list_directory,
// create_directory, delete_file, search_files and search_content. What their annotations say
// is true. They are tagged "files" or "search".
func Tools(w *Workspace) ([]*server.Entry, error) {
	var entries []*server.Entry
	for _, service := range []any{&fileTools{w}, &editTools{w}, &searchTools{w}} {
		more, err := server.Service(service)
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	return entries, nil
}

// closedWorld is for tools that touch nothing but the workspace.
func closedWorld() server.Annotations {
	return server.Annotations{Tool: mcp.ToolAnnotations{OpenWorldHint: new(false)}}
}
