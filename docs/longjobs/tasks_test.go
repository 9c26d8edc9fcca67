package longjobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func pay() (string, error) {
	fmt.Println("paid")
	return "receipt 1", nil
}

func Example_task() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "report", Task: server.TaskOptional, TTL: time.Hour, MaxRestarts: 3},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			paid, err := server.Once(r, "pay", pay)
			if err != nil {
				return "", err
			}
			title, err := server.Elicit[string](r, "title", "Which title?")
			if err != nil {
				return "", err
			}
			if err := r.Progress(ctx, 1, 2, "writing"); err != nil {
				return "", err
			}
			return title + ", " + paid, nil
		})
	ctx := context.Background()
	session, err := client.Connect(ctx, transport.Pipe(s), &client.Options{
		Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"value":"Bread"}`)}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	var id string
	report, err := client.CallAs[string](ctx, session, "report", nil, &client.CallOptions{
		OnTask: func(task *mcp.Task) { id = task.TaskID }, // store it
	})
	fmt.Println(report, err)
	again(ctx, session, id)
	if err := s.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// paid
	// Bread, receipt 1 <nil>
	// Bread, receipt 1 <nil>
}

func again(ctx context.Context, session *client.Session, id string) {
	result, err := session.Task(id).Wait(ctx, nil)
	fmt.Println(result.Text(), err)
}
