// Compose mounts two MCP servers, a clock and a board for notes, in a third one under
// prefixes.
//
//	go run ./examples/compose
//
// It serves standard input and output, and logs calls to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	desk, err := newDesk(time.Now, log.Default())
	if err != nil {
		return err
	}
	if err := desk.Start(ctx); err != nil {
		return err
	}
	return stdio.Serve(ctx, desk, nil)
}

// maxNotes bounds the number of notes on a board.
const maxNotes = 1000

// A board holds notes. It is a dependency of the notes server, which creates it when the
// server starts.
type board struct {
	mu    sync.Mutex
	notes []string
}

// add adds a note and returns its number.
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

// newNotes returns a server for notes. It does not depend on the desk.
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

// newClock returns a server that tells the time. It does not depend on the desk.
func newClock(now func() time.Time) *server.Server {
	s := server.New(mcp.Implementation{Name: "clock", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{
		Name: "now", Description: "Tells the time in a zone.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: new(true)},
	}, func(_ context.Context, _ *server.Request, in struct {
		Zone string `json:"zone,omitempty" jsonschema:"default=UTC" jsonschema_description:"IANA time zone, such as Europe/Rome"`
	}) (string, error) {
		zone, err := time.LoadLocation(in.Zone)
		if err != nil {
			return "", fmt.Errorf("there is no zone %q", in.Zone)
		}
		return now().In(zone).Format(time.RFC3339), nil
	})
	server.AddPrompt(s, server.Prompt{Name: "meeting", Description: "Finds a time for people in different zones."},
		func(_ context.Context, _ *server.Request, in struct {
			Zones string `json:"zones" jsonschema_description:"IANA time zones, separated by commas"`
		}) (string, error) {
			return "Suggest a time for a meeting of people in " + in.Zones + ", during the day in each of them.", nil
		})
	server.AddCompletion(s, server.Completion{Prompt: "meeting", Argument: "zones"},
		func(_ context.Context, _ *server.Request, typed string, _ map[string]string) ([]string, error) {
			zones := []string{"America/New_York", "Asia/Tokyo", "Europe/Rome", "UTC"}
			return slices.DeleteFunc(zones, func(zone string) bool { return !strings.HasPrefix(zone, typed) }), nil
		})
	return s
}

// newDesk returns a server that mounts the two others and adds a tool. Its middleware also
// runs for calls to the mounted servers.
func newDesk(now func() time.Time, calls *log.Logger) (*server.Server, error) {
	desk := server.New(mcp.Implementation{Name: "desk", Title: "A desk", Version: "1.0.0"}, &server.Options{
		Instructions: "Tools of the clock begin with clock_, tools of the notes with notes_.",
		Middleware:   []mcp.Middleware{logged(calls)},
	})
	server.AddTool(desk, server.Tool{Name: "tidy", Description: "Tidies the desk."},
		func(context.Context, *server.Request, struct{}) (string, error) { return "The desk is tidy.", nil })
	return desk, errors.Join(
		desk.Mount(newClock(now).Provider(), &server.MountOptions{Prefix: "clock_"}),
		desk.Mount(newNotes().Provider(), &server.MountOptions{Prefix: "notes_"}),
	)
}

// logged logs the caller, the target and the outcome of each call.
func logged(calls *log.Logger) mcp.Middleware {
	return func(next mcp.Handler) mcp.Handler {
		return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
			result, err := next(ctx, call)
			who := "unknown client"
			if info := call.Caller.Info; info != nil {
				who = info.Name
			}
			outcome := "answered"
			if _, asks := mcp.AsInputRequired(err); asks {
				outcome = "asked back"
			} else if err != nil {
				outcome = err.Error()
			}
			calls.Printf("%s: %s %s: %s", who, call.Method(), call.Member("name"), outcome)
			return result, err
		}
	}
}
