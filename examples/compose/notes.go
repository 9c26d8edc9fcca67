package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// maxNotes is how many notes a board has room for.
const maxNotes = 1000

// A board holds notes. It is a dependency of its server, which makes it when it starts,
// here as soon as the desk does.
type board struct {
	mu    sync.Mutex
	notes []string
}

// add returns the number of the new note.
func (b *board) add(text string) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.notes) == maxNotes {
		return 0, fmt.Errorf("the board is full: it has room for %d notes", maxNotes)
	}
	b.notes = append(b.notes, text)
	return len(b.notes), nil
}

func (b *board) note(number int) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if number < 1 || number > len(b.notes) {
		return "", false
	}
	return b.notes[number-1], true
}

// newNotes is a server that takes notes. It knows nothing of the desk either.
func newNotes() *server.Server {
	s := server.New(mcp.Implementation{Name: "notes", Version: "1.0.0"}, &server.Options{Dependencies: []server.Dependency{
		server.Provide(func(context.Context) (*board, func(context.Context) error, error) { return &board{}, nil, nil }),
	}})
	uri := func(number int) string { return fmt.Sprint("note://", number) }
	server.AddTool(s, server.Tool{Name: "add", Description: "Pins a note to the board."},
		func(_ context.Context, r *server.Request, in struct {
			Text string `json:"text" jsonschema:"minLength=1,maxLength=500"`
		}) (*mcp.ResourceLink, error) {
			number, err := server.Value[*board](r).add(in.Text)
			if err != nil {
				return nil, err
			}
			s.ResourceUpdated(uri(number))
			return &mcp.ResourceLink{URI: uri(number), Name: fmt.Sprint("note ", number)}, nil
		})
	server.AddTemplate(s, server.Template{URITemplate: "note://{number}", Name: "note", MIMEType: "text/plain"},
		func(_ context.Context, r *server.Request, in struct {
			Number int `json:"number"`
		}) (string, error) {
			text, ok := server.Value[*board](r).note(in.Number)
			if !ok {
				return "", mcp.ResourceNotFound(uri(in.Number))
			}
			return text, nil
		})
	return s
}
