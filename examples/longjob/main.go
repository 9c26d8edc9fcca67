// Longjob starts a job of a minute as a task, kills the client that has started it, and starts another
// client, which gets the result:
//
//	go run ./examples/longjob [-time 1m]
//
// The process is the server. The clients are processes of the same program. The first one stores the id
// of the task in a file before it waits, and kills itself when it sees that a third of the job is done;
// the second one reads the file.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// Environment variables of a client.
const (
	envURL  = "LONGJOB_URL"  // the server
	envTask = "LONGJOB_TASK" // the file with the id of the task
	envTime = "LONGJOB_TIME" // how long the job takes
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if url := os.Getenv(envURL); url != "" {
		err = runClient(ctx, url, os.Getenv(envTask), os.Getenv(envTime))
	} else {
		duration := flag.Duration("time", time.Minute, "how long the job takes")
		flag.Parse()
		err = run(ctx, *duration)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until the second client has ended.
func run(ctx context.Context, duration time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "longjob")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	listening, served := make(chan string, 1), make(chan error, 1)
	go func() {
		served <- streamable.Serve(ctx, "127.0.0.1:0", newServer(), &streamable.ServeOptions{
			OnListen: func(address net.Addr) { listening <- "http://" + address.String() + "/mcp" },
		})
	}()
	select {
	case err := <-served:
		return err
	case url := <-listening:
		fmt.Println("the server is at", url)
		err = useClients(ctx, append(os.Environ(),
			envURL+"="+url, envTask+"="+filepath.Join(dir, "task"), envTime+"="+duration.String()))
	}
	cancel()
	return errors.Join(err, <-served)
}

// useClients runs the first client until it kills itself, and then the second one.
func useClients(ctx context.Context, env []string) error {
	if err := runClientProcess(ctx, env); err == nil {
		return errors.New("the job ended before the first client was killed")
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Println("\nthe client was killed; another one starts")
	return cmp.Or(runClientProcess(ctx, env), ctx.Err())
}

func runClientProcess(ctx context.Context, env []string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	client := exec.CommandContext(ctx, program)
	client.Env, client.Stdout, client.Stderr = env, os.Stdout, os.Stderr
	return client.Run()
}

// IndexIn are the arguments of the job.
type IndexIn struct {
	Time string `json:"time" jsonschema_description:"how long the job takes, such as 1m"`
}

// newServer returns a server with a tool that runs as a task for clients that support tasks.
func newServer() *server.Server {
	s := server.New(mcp.Implementation{Name: "longjob", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{
		Name: "index", Description: "Index the files of the project.", Task: server.TaskOptional, TTL: time.Hour,
	}, index)
	return s
}

// index is an ordinary function: it reports its progress, and ends when its context ends.
func index(ctx context.Context, r *server.Request, in IndexIn) (string, error) {
	const files = 200
	total, err := time.ParseDuration(in.Time)
	if err != nil {
		return "", fmt.Errorf("time: %w", err)
	}
	file := time.NewTicker(max(total/files, time.Millisecond))
	defer file.Stop()
	for done := 1; done <= files; done++ {
		select {
		case <-file.C:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if err := r.Progress(ctx, float64(done), files, fmt.Sprintf("indexed %d of %d files", done, files)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("indexed all %d files", files), nil
}
