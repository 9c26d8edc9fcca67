package skills_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/client"
	clientskills "github.com/dovetail-go/dovetail/client/skills"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/server/skills"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// newServer returns a server with the skills of testdata/skills.
func newServer() (s *server.Server, end func()) {
	s = server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	root, err := os.OpenRoot("testdata/skills")
	if err != nil {
		log.Fatal(err)
	}
	folder, err := skills.Directory(root, nil)
	if err != nil {
		log.Fatal(err) // names the skill and the rule
	}
	if err := s.Mount(folder, nil); err != nil {
		log.Fatal(err)
	}
	return s, func() { _ = root.Close() }
}

// connected calls run with a session with a server.
func connected(s *server.Server, run func(ctx context.Context, session *client.Session)) {
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	run(ctx, session)
	if err := errors.Join(session.Close(), s.Shutdown(ctx)); err != nil {
		log.Fatal(err)
	}
}

func Example_list() {
	s, end := newServer()
	defer end()
	connected(s, func(ctx context.Context, session *client.Session) {
		for entry, err := range session.Skills(ctx, nil) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(entry.URI, len(entry.Resources), entry.Description())
		}
	})
	// Output:
	// skill://acme/refunds/SKILL.md 2 Answer requests for refunds by the rules of the company.
	// skill://pdf-processing/SKILL.md 2 Extract text from PDF files, and fill in their forms. Use it when a document is a PDF.
}

func Example_load() {
	s, end := newServer()
	defer end()
	connected(s, func(ctx context.Context, session *client.Session) {
		skill, err := clientskills.Get(ctx, session, "skill://pdf-processing/SKILL.md", nil)
		if err != nil {
			log.Fatal(err)
		}
		if !approved("office", skill.Entry().URI, skill.Digest()) {
			log.Fatal("the user has not approved this content")
		}
		text, err := skill.Load(ctx)
		if err != nil {
			log.Fatal(err)
		}
		forms, err := skill.Read(ctx, "references/forms.md")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(text), len(forms))

		_, err = skill.Read(ctx, "references/other.md")
		if refused, ok := errors.AsType[*clientskills.VerifyError](err); ok {
			fmt.Println(refused.Check, refused.File)
		}
	})
	// Output:
	// 245 71
	// listed references/other.md
}

// approved reports whether the user has approved a skill of a server with this content.
func approved(_, _, digest string) bool { return digest != "" }

func Example_directory() {
	s, end := newServer()
	defer end()
	connected(s, func(ctx context.Context, session *client.Session) {
		for child, err := range session.Directory(ctx, "skill://pdf-processing", nil) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(child.URI, child.MIMEType)
		}
	})
	// Output:
	// skill://pdf-processing/SKILL.md text/markdown
	// skill://pdf-processing/references inode/directory
}

func Example_dynamic() {
	s := server.New(mcp.Implementation{Name: "office", Version: "1.0.0"}, nil)
	server.AddSkill(s, server.Skill{
		URI:         "skill://daily/SKILL.md",
		Frontmatter: json.RawMessage(`{"name":"daily","description":"The report of today"}`),
		Dynamic:     true,
	})
	server.AddResource(s, server.Resource{URI: "skill://daily/SKILL.md", Name: "daily", MIMEType: "text/markdown"},
		func(context.Context, *server.Request) (string, error) {
			return "---\nname: daily\ndescription: The report of today\n---\nNothing has happened.\n", nil
		})
	connected(s, func(ctx context.Context, session *client.Session) {
		_, err := clientskills.Get(ctx, session, "skill://daily/SKILL.md", nil)
		fmt.Println(err)
		skill, err := clientskills.Get(ctx, session, "skill://daily/SKILL.md", &clientskills.Options{Dynamic: true})
		if err != nil {
			log.Fatal(err)
		}
		text, err := skill.Load(ctx)
		fmt.Printf("%d %v %q\n", len(text), err, skill.Digest())
	})
	// Output:
	// the skill "skill://daily/SKILL.md": its content is dynamic, so that it cannot be verified
	// 75 <nil> ""
}

func Example_bridge() {
	office, end := newServer()
	defer end()
	front := server.New(mcp.Implementation{Name: "front", Version: "1.0.0"}, nil)
	b, err := bridge.New(nil, bridge.Config{Alias: "office", Dialer: transport.Pipe(office)})
	if err != nil {
		log.Fatal(err)
	}
	if err := front.Mount(b, nil); err != nil {
		log.Fatal(err)
	}
	connected(front, func(ctx context.Context, session *client.Session) {
		skill, err := clientskills.Get(ctx, session, "skill://acme/refunds/SKILL.md", nil)
		if err != nil {
			log.Fatal(err)
		}
		email, err := skill.Read(ctx, "examples/email.md")
		fmt.Printf("%s%v\n", email, err)
	})
	if err := office.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Dear customer, you get your money back.
	// <nil>
}
