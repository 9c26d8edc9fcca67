package workspace

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/pattern"
	"github.com/dovetail-go/dovetail/server"
)

// searchTools are the tools that find files, by name and by content.
type searchTools struct{ work *Workspace }

// Annotations are what both have in common.
func (searchTools) Annotations() server.Annotations {
	a := closedWorld()
	a.Tool.ReadOnlyHint, a.Timeout = new(true), 30*time.Second
	return a
}

// searchFilesIn are the arguments of [searchTools.SearchFiles].
type searchFilesIn struct {
	_       server.ToolTag `tags:"search"`
	Pattern string         `json:"pattern" jsonschema:"minLength=1,maxLength=500"` // such as *.go, *.{js,ts} or src/**/*.ts: ** matches any directories
	Path    string         `json:"path,omitempty" jsonschema:"default=."`          // the directory to search in
}

// SearchFiles finds files whose names fit a pattern, those first that changed last.
func (s *searchTools) SearchFiles(ctx context.Context, in searchFilesIn) (string, error) {
	files, complete, err := s.work.Find(ctx, in.Path, in.Pattern)
	var list strings.Builder
	for _, f := range files[:min(len(files), maxFound)] {
		fmt.Fprintln(&list, f.Name)
	}
	return found(&list, complete && len(files) <= maxFound), err
}

// searchContentIn are the arguments of [searchTools.SearchContent].
type searchContentIn struct {
	_       server.ToolTag `tags:"search"`
	Pattern string         `json:"pattern" jsonschema:"minLength=1,maxLength=1000"` // a regular expression, in the syntax of RE2
	Path    string         `json:"path,omitempty" jsonschema:"default=."`           // the file or directory to search in
	Include string         `json:"include,omitempty" jsonschema:"maxLength=500"`    // a pattern for the names of files, as of search_files
}

// SearchContent finds the lines of text files that a regular expression matches.
func (s *searchTools) SearchContent(ctx context.Context, in searchContentIn) (string, error) {
	expression, err := pattern.Compile(in.Pattern)
	if err != nil {
		return "", err
	}
	matches, complete, err := s.work.Grep(ctx, in.Path, in.Include, expression.Regexp, maxFound)
	var list strings.Builder
	for _, m := range matches {
		fmt.Fprintf(&list, "%s:%d: %s\n", m.Name, m.Number, m.Text)
	}
	return found(&list, complete), err
}

func found(list *strings.Builder, complete bool) string {
	if list.Len() == 0 {
		list.WriteString("Nothing is found.\n")
	}
	if !complete {
		list.WriteString("… there is more: search for less, or in a narrower path\n")
	}
	return list.String()
}
