package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html"
	"path"
	"strings"
)

//go:embed web
var web embed.FS

// A file is what is served under a name.
type file struct {
	content string
	kind    string // its media type
	tag     string // its entity tag, RFC 9110, section 8.8.3
}

// kindOf is a media type by the ending of a name. What a system knows of them may differ.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/javascript; charset=utf-8"
}

// load returns the files by their names, and the page itself as "" too.
func load(o Options) map[string]file {
	const folder, index = "web", "index.html"
	fill := strings.NewReplacer("{{title}}", html.EscapeString(o.Title), "{{channel}}", html.EscapeString(o.Channel))
	entries, err := web.ReadDir(folder)
	if err != nil {
		panic(err) // it is in the program
	}
	files := make(map[string]file, len(entries)+1)
	for _, entry := range entries {
		content, err := web.ReadFile(path.Join(folder, entry.Name()))
		if err != nil {
			panic(err) // as above
		}
		f := file{content: string(content), kind: kindOf(entry.Name())}
		if entry.Name() == index {
			f.content = fill.Replace(f.content)
		}
		sum := sha256.Sum256([]byte(f.content))
		f.tag = `"` + hex.EncodeToString(sum[:12]) + `"`
		files[entry.Name()] = f
	}
	files[""] = files[index]
	return files
}
