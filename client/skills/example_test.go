package skills_test

import (
	"context"
	"errors"
	"fmt"
	"testing/fstest"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/client/skills"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	serverskills "github.com/dovetail-go/dovetail/server/skills"
	"github.com/dovetail-go/dovetail/transport"
)

// bakery returns a session with a server that has one skill.
func bakery() (session *client.Session, files fstest.MapFS, end func()) {
	ctx := context.Background()
	files = fstest.MapFS{
		"baking/SKILL.md":       {Data: []byte("---\nname: baking\ndescription: How to bake bread\n---\nUse recipes/rye.md.\n")},
		"baking/recipes/rye.md": {Data: []byte("500 g of rye flour\n")},
	}
	folder, err := serverskills.FS(files, &serverskills.Options{Interval: -1})
	if err != nil {
		panic(err)
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	if err := s.Mount(folder, nil); err != nil {
		panic(err)
	}
	if session, err = client.Connect(ctx, transport.Pipe(s), nil); err != nil {
		panic(err)
	}
	return session, files, func() {
		_ = session.Close()
		_ = s.Shutdown(ctx)
	}
}

// Open takes an entry of the list. A file that has changed since the list was read is refused.
func ExampleOpen() {
	session, files, end := bakery()
	defer end()
	ctx := context.Background()
	for entry, err := range session.Skills(ctx, nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		skill, err := skills.Open(session, entry, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		recipe, err := skill.Read(ctx, "recipes/rye.md")
		fmt.Printf("%q %v\n", recipe, err)

		files["baking/recipes/rye.md"].Data = []byte("500 g of salt\n")
		_, err = skill.Read(ctx, "recipes/rye.md")
		if differs, ok := errors.AsType[*skills.VerifyError](err); ok {
			fmt.Println(differs.File, differs.Check, differs.Want, differs.Got)
		}
	}
	// Output:
	// "500 g of rye flour\n" <nil>
	// skill://baking/recipes/rye.md size 19 14
}

func ExampleGet() {
	session, _, end := bakery()
	defer end()
	ctx := context.Background()
	skill, err := skills.Get(ctx, session, "skill://baking/SKILL.md", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := skill.Load(ctx)
	fmt.Println(skill.Entry().Description(), err)
	fmt.Print(text)
	// Output:
	// How to bake bread <nil>
	// ---
	// name: baking
	// description: How to bake bread
	// ---
	// Use recipes/rye.md.
}
