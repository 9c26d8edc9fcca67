package skills_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/skills"
	"github.com/dovetail-go/dovetail/transport"
)

// list prints the skills of a server.
func list(s *server.Server) {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Shutdown(ctx)
	defer session.Close()
	for skill, err := range session.Skills(ctx, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(skill.URI, "|", skill.Description(), "|", len(skill.Resources), "files")
	}
}

func ExampleDirectory() {
	dir, err := os.MkdirTemp("", "skills")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	_ = os.Mkdir(filepath.Join(dir, "baking"), 0o700)
	_ = os.WriteFile(filepath.Join(dir, "baking", "SKILL.md"), []byte("---\nname: baking\ndescription: How to bake bread\n---\nKnead, wait, bake.\n"), 0o600)

	root, err := os.OpenRoot(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer root.Close()
	folder, err := skills.Directory(root, nil)
	if err != nil {
		fmt.Println(err) // names the skill and the reason
		return
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	if err := s.Mount(folder, nil); err != nil {
		fmt.Println(err)
		return
	}
	list(s)
	// Output: skill://baking/SKILL.md | How to bake bread | 1 files
}

// FS takes any file system, such as an embed.FS.
func ExampleFS() {
	files := fstest.MapFS{
		"baking/SKILL.md":       {Data: []byte("---\nname: baking\ndescription: How to bake bread\n---\nUse recipes/rye.md.\n")},
		"baking/recipes/rye.md": {Data: []byte("500 g of rye flour\n")},
	}
	folder, err := skills.FS(files, &skills.Options{URI: "skill://bakery/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	if err := s.Mount(folder, nil); err != nil {
		fmt.Println(err)
		return
	}
	list(s)
	// Output: skill://bakery/baking/SKILL.md | How to bake bread | 2 files
}
