package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// The text of a skill can be in the program. Package server/skills serves a folder.
func ExampleAddSkill() {
	const uri, text = "skill://baking/SKILL.md", "---\nname: baking\ndescription: How to bake bread\n---\nKnead, wait, bake.\n"
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddSkill(s, server.Skill{
		URI:         uri,
		Frontmatter: json.RawMessage(`{"name":"baking","description":"How to bake bread"}`),
		Resources:   []mcp.SkillResource{{URI: uri, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))), Size: int64(len(text))}},
	})
	server.AddResource(s, server.Resource{URI: uri, Name: "baking", MIMEType: "text/markdown"},
		func(context.Context, *server.Request) (string, error) { return text, nil })

	session := dial(s, nil)
	defer session.Close()
	for skill, err := range session.Skills(context.Background(), nil) {
		fmt.Println(skill.Name(), "|", skill.Description(), "|", skill.Resources[0].Size, err)
	}
	// Output: baking | How to bake bread | 71 <nil>
}

// NewSkill returns an entry for Replace. The content of this skill is generated, so a template reads
// it, and a function lists its directory.
func ExampleNewSkill() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	entry, err := server.NewSkill(server.Skill{
		URI:         "skill://stock/SKILL.md",
		Frontmatter: json.RawMessage(`{"name":"stock","description":"What is left today"}`),
		Dynamic:     true,
		Directory: func(_ context.Context, _ *server.Request, uri string) ([]mcp.Resource, error) {
			if uri != "skill://stock" {
				return nil, mcp.ResourceNotFound(uri)
			}
			return []mcp.Resource{{URI: "skill://stock/SKILL.md", Name: "SKILL.md"}, {URI: "skill://stock/rye.md", Name: "rye.md"}}, nil
		},
	})
	if err == nil {
		err = s.Replace(entry)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	server.AddTemplate(s, server.Template{URITemplate: "skill://stock/{file}", MIMEType: "text/markdown"},
		func(_ context.Context, _ *server.Request, in struct {
			File string `json:"file"`
		}) (string, error) {
			return "the current " + in.File, nil
		})

	session := dial(s, nil)
	defer session.Close()
	for child, err := range session.Directory(context.Background(), "skill://stock", nil) {
		fmt.Println(child.URI, err)
	}
	show(session, "skill://stock/rye.md")
	// Output:
	// skill://stock/SKILL.md <nil>
	// skill://stock/rye.md <nil>
	// skill://stock/rye.md text/markdown the current rye.md
}
