package features

import (
	"embed"
	"io/fs"

	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/skills"
)

//go:embed skills
var skillFiles embed.FS

// addSkills adds two skills.
func addSkills(s *server.Server) {
	below, err := fs.Sub(skillFiles, "skills")
	if err == nil {
		var folder *skills.Folder
		if folder, err = skills.FS(below, &skills.Options{Interval: -1}); err == nil {
			err = s.Mount(folder, nil)
		}
	}
	if err != nil {
		panic(err)
	}
}
