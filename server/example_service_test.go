package server_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A Pantry is a service. The arguments of its methods say what they are.
type Pantry struct{ jars []string }

type FindIn struct {
	_    server.ToolTag `name:"find" description:"Find jars." readOnly:"true"`
	Word string         `json:"word" jsonschema:"minLength=2" jsonschema_description:"part of the label"`
}

func (p *Pantry) Find(_ context.Context, in FindIn) ([]string, error) {
	found := []string{}
	for _, jar := range p.jars {
		if strings.Contains(jar, in.Word) {
			found = append(found, jar)
		}
	}
	return found, nil
}

type JarIn struct {
	_      server.ResourceTag `uri:"pantry://jars/{number}" name:"jar"`
	Number int                `json:"number"`
}

func (p *Pantry) Jar(_ context.Context, in JarIn) (string, error) {
	if in.Number < 1 || in.Number > len(p.jars) {
		return "", mcp.ResourceNotFound(fmt.Sprint("pantry://jars/", in.Number))
	}
	return p.jars[in.Number-1], nil
}

// Close takes no context.Context, so it is not exposed to clients.
func (p *Pantry) Close() error { return nil }

// AddService exposes the methods of a value.
func ExampleAddService() {
	s := server.New(mcp.Implementation{Name: "home", Version: "1.0.0"}, nil)
	server.AddService(s, &Pantry{jars: []string{"plum jam", "honey", "cherry jam"}})

	session := dial(s, nil)
	defer session.Close()
	jars, err := client.CallAs[[]string](context.Background(), session, "find", map[string]string{"word": "jam"}, nil)
	fmt.Printf("%q %v\n", jars, err)
	say(session, "find", map[string]string{"word": "j"})
	read, err := session.ReadResource(context.Background(), "pantry://jars/2", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(read.Contents[0].(*mcp.TextResourceContents).Text)
	// Output:
	// ["plum jam" "cherry jam"] <nil>
	// at "/word": expected at least 2 characters, got 1 character
	// honey
}

// The entries of a service replace those with the same names, all or none.
func ExampleService() {
	s := server.New(mcp.Implementation{Name: "home", Version: "1.0.0"}, nil)
	session := dial(s, nil)
	defer session.Close()
	for _, jars := range [][]string{{"honey"}, {"honey", "plum jam"}} {
		entries, err := server.Service(&Pantry{jars: jars})
		if err == nil {
			err = s.Replace(entries...)
		}
		if err != nil {
			fmt.Println(err)
		}
		say(session, "find", map[string]string{"word": "jam"})
	}
	_, err := server.Service(Pantry{})
	fmt.Println(err)
	// Output:
	// []
	// ["plum jam"]
	// service server_test.Pantry: its method Find has a pointer receiver: register a *server_test.Pantry
}

// A tool streams its result word by word.
func ExampleAddStream() {
	s := server.New(mcp.Implementation{Name: "poet", Version: "1.0.0"}, nil)
	server.AddStream(s, server.Tool{Name: "recite"}, func(context.Context, *server.Request, struct{}) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for word := range strings.FieldsSeq("so much depends upon") {
				if !yield(word+" ", nil) {
					return
				}
			}
		}
	}, server.JoinText)

	session := dial(s, nil)
	defer session.Close()
	for chunk, err := range session.Stream(context.Background(), "recite", nil, nil) {
		fmt.Println(string(chunk), err)
	}
	say(session, "recite", nil)
	// Output:
	// "so " <nil>
	// "much " <nil>
	// "depends " <nil>
	// "upon " <nil>
	// so much depends upon
}

func ExampleNewStream() {
	count, err := server.NewStream(server.Tool{Name: "count"}, func(context.Context, *server.Request, struct{}) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range 3 {
				if !yield(i, nil) {
					return
				}
			}
		}
	}, server.LastChunk)
	if err != nil {
		log.Fatal(err)
	}
	s := server.New(mcp.Implementation{Name: "counter", Version: "1.0.0"}, nil)
	if err := s.Replace(count); err != nil {
		log.Fatal(err)
	}
	session := dial(s, nil)
	defer session.Close()
	say(session, "count", nil)
	// Output: 2
}

func ExampleRequest_SetChunks() {
	s := server.New(mcp.Implementation{Name: "poet", Version: "1.0.0"}, nil)
	server.AddStream(s, server.Tool{Name: "recite"}, func(_ context.Context, r *server.Request, _ struct{}) iter.Seq2[string, error] {
		lines := []string{"so much depends", "upon"}
		r.SetChunks(len(lines))
		return func(yield func(string, error) bool) {
			for _, line := range lines {
				if !yield(line, nil) {
					return
				}
			}
		}
	}, server.JoinText)

	session := dial(s, nil)
	defer session.Close()
	progress := func(p *mcp.ProgressParams) { fmt.Print(p.Progress+1, " of ", *p.Total, ": ") }
	for chunk, err := range session.Stream(context.Background(), "recite", nil, &client.CallOptions{Progress: progress}) {
		fmt.Println(string(chunk), err)
	}
	// Output:
	// 1 of 2: "so much depends" <nil>
	// 2 of 2: "upon" <nil>
}
