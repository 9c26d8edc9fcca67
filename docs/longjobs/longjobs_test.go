package longjobs_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"sync"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// call calls a tool of a server in memory with a client of each era.
func call(s *server.Server, run func(ctx context.Context, session *client.Session)) {
	ctx := context.Background()
	for _, era := range []client.Era{client.Modern, client.Legacy} {
		session, err := client.Connect(ctx, transport.Pipe(s), &client.Options{Era: era})
		if err != nil {
			log.Fatal(err)
		}
		run(ctx, session)
		session.Close()
	}
	if err := s.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}

func newServer(dependencies ...server.Dependency) *server.Server {
	return server.New(mcp.Implementation{Name: "jobs", Version: "1.0.0"}, &server.Options{Dependencies: dependencies})
}

func Example_stop() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "index", Timeout: time.Hour},
		func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
			const files = 3
			for i := range files {
				if err := ctx.Err(); err != nil {
					return "", err
				}
				if err := r.Progress(ctx, float64(i+1), files, "indexing"); err != nil {
					return "", err
				}
			}
			return "indexed 3 files", nil
		})
	call(s, func(ctx context.Context, session *client.Session) {
		_, err := session.CallTool(ctx, "index", nil, &client.CallOptions{
			Progress: func(p *mcp.ProgressParams) { fmt.Println(p.Progress, "of", *p.Total) },
		})
		fmt.Println(err)
	})
	// Output:
	// 1 of 3
	// 2 of 3
	// 3 of 3
	// <nil>
	// 1 of 3
	// 2 of 3
	// 3 of 3
	// <nil>
}

func Example_stream() {
	s := newServer()
	server.AddStream(s, server.Tool{Name: "count"},
		func(ctx context.Context, r *server.Request, _ struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for i := range 3 {
					if !yield(i, ctx.Err()) {
						return
					}
				}
			}
		}, server.LastChunk)
	call(s, func(ctx context.Context, session *client.Session) {
		for chunk, err := range session.Stream(ctx, "count", nil, nil) {
			fmt.Println(string(chunk), err)
		}
	})
	// Output:
	// 0 <nil>
	// 1 <nil>
	// 2 <nil>
	// 0 <nil>
	// 1 <nil>
	// 2 <nil>
}

type JobIn struct {
	ID string `json:"id" jsonschema:"minLength=1,maxLength=100" jsonschema_description:"id of the job, chosen by the caller"`
}

// Jobs runs functions in the background until the server shuts down.
type Jobs struct {
	ctx     context.Context
	running sync.WaitGroup

	mu      sync.Mutex
	results map[string]string // "" while the job runs
}

// provideJobs starts Jobs with the server. At shutdown it cancels the jobs and waits.
func provideJobs() server.Dependency {
	return server.Provide(func(context.Context) (*Jobs, func(context.Context) error, error) {
		ctx, cancel := context.WithCancel(context.Background())
		jobs := &Jobs{ctx: ctx, results: make(map[string]string)}
		stop := func(context.Context) error {
			cancel()
			jobs.running.Wait()
			return nil
		}
		return jobs, stop, nil
	})
}

// maxJobs bounds the number of jobs in memory.
const maxJobs = 100

// start runs a job under an id that the caller chose. A second start with the same id
// does nothing, so a client may repeat its call.
func (j *Jobs) start(id string, run func(ctx context.Context) string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.results[id]; ok {
		return nil
	}
	if len(j.results) == maxJobs {
		return errors.New("too many jobs: try again later")
	}
	j.results[id] = ""
	j.running.Go(func() {
		result := run(j.ctx)
		j.mu.Lock()
		defer j.mu.Unlock()
		j.results[id] = result
	})
	return nil
}

func (j *Jobs) result(id string) (result string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	result, ok = j.results[id]
	return result, ok
}

func Example_jobs() {
	s := newServer(provideJobs())
	server.AddTool(s, server.Tool{Name: "start_report", Description: "Starts a report. Call get_report for its result."},
		func(ctx context.Context, r *server.Request, in JobIn) (string, error) {
			err := server.Value[*Jobs](r).start(in.ID, func(ctx context.Context) string {
				return "the report"
			})
			return "started", err
		})
	server.AddTool(s, server.Tool{Name: "get_report", Description: "Returns a report, or its state."},
		func(ctx context.Context, r *server.Request, in JobIn) (string, error) {
			switch result, ok := server.Value[*Jobs](r).result(in.ID); {
			case !ok:
				return "", errors.New("unknown id: call start_report first")
			case result == "":
				return "still running: call again in a minute", nil
			default:
				return result, nil
			}
		})
	session, err := client.Connect(context.Background(), transport.Pipe(s), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	ctx := context.Background()
	fmt.Println(client.CallAs[string](ctx, session, "get_report", JobIn{ID: "1"}, nil))
	fmt.Println(client.CallAs[string](ctx, session, "start_report", JobIn{ID: "1"}, nil))
	if err := s.Shutdown(ctx); err != nil { // waits for the job
		log.Fatal(err)
	}
	// Output:
	//  tool "get_report": unknown id: call start_report first
	// started <nil>
}
