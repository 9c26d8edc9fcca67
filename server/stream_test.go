package server_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

type countIn struct {
	To   int  `json:"to"`
	Fail bool `json:"fail,omitempty"`
	Ask  bool `json:"ask,omitempty"`
}

// count gives the numbers from 1, and may fail or ask after them.
func count(_ context.Context, r *server.Request, in countIn) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range in.To {
			if !yield(i+1, nil) {
				return
			}
		}
		if in.Fail {
			yield(0, errors.New("that was all"))
		}
		if in.Ask {
			_, err := server.Elicit[answersFor](r, "more", "More?")
			if err != nil {
				yield(0, err)
			}
		}
	}
}

func newCounter() *server.Server {
	s := newServer(&server.Options{Logger: discardLogger()})
	server.AddStream(s, server.Tool{Name: "count"}, count, server.LastChunk[int])
	server.AddStream(s, server.Tool{Name: "first"}, count, func(numbers iter.Seq[int]) int {
		for n := range numbers {
			return n
		}
		return 0
	})
	server.AddStream(s, server.Tool{Name: "spell"}, func(_ context.Context, _ *server.Request, in struct {
		Word string `json:"word"`
	}) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for letter := range strings.SplitSeq(in.Word, "") {
				if !yield(letter, nil) {
					return
				}
			}
		}
	}, server.JoinText)
	return s
}

func TestStreamSendsChunksAndReducesThem(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newCounter(), era)
		var steps []mcp.ProgressParams
		result, err := session.CallTool(t.Context(), "count", countIn{To: 3}, &client.CallOptions{Progress: func(p *mcp.ProgressParams) { steps = append(steps, *p) }})
		if err != nil || textOf(result) != "3" {
			t.Errorf("count gave %v, %v", result, err)
		}
		for i, step := range steps {
			if step.Progress != float64(i) || step.Message != []string{"1", "2", "3"}[i] {
				t.Errorf("step %d is %+v", i, step)
			}
		}
		var letters []string
		for letter, err := range session.Stream(t.Context(), "spell", map[string]string{"word": "rye"}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			letters = append(letters, string(letter))
		}
		if !slices.Equal(letters, []string{`"r"`, `"y"`, `"e"`}) {
			t.Errorf("the letters are %q", letters)
		}
		// The result is the same if the caller does not want chunks.
		if got := textOf(call(t, session, "spell", `{"word":"rye"}`)); got != "rye" {
			t.Errorf("spell gave %s", got)
		}
		if got := textOf(call(t, session, "spell", `{"word":""}`)); got != "" {
			t.Errorf("spell gave %s for nothing", got)
		}
		if got := textOf(call(t, session, "first", `{"to":5}`)); got != "1" {
			t.Errorf("first gave %s", got)
		}
	})
}

func TestStreamError(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newCounter(), era)
		var chunks int
		var failure error
		for _, err := range session.Stream(t.Context(), "count", countIn{To: 2, Fail: true}, nil) {
			if failure = err; err == nil {
				chunks++
			}
		}
		if failed, ok := errors.AsType[*client.ToolError](failure); chunks != 2 || !ok || !strings.Contains(failed.Error(), "that was all") {
			t.Errorf("%d chunks and %v", chunks, failure)
		}
	})
}

// A stream cannot ask after its first chunk, because the tool would send its chunks again when
// it runs with the answer.
func TestStreamAsksOnlyBeforeItsFirstChunk(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connectWith(t, newCounter(), &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"sure":true}`)}, nil
		}})
		_, err := session.CallTool(t.Context(), "count", countIn{To: 1, Ask: true}, nil)
		if !strings.Contains(message(err), "only before its first chunk") {
			t.Errorf("asking late gave %v", err)
		}
		if got := textOf(call(t, session, "count", `{"to":0,"ask":true}`)); got != "0" {
			t.Errorf("asking first gave %s", got)
		}
	})
}

// Whoever breaks off the loop cancels the call.
func TestStreamIsCancelledByClient(t *testing.T) {
	ended := make(chan struct{})
	s := newServer(nil)
	server.AddStream(s, server.Tool{Name: "endless"}, func(ctx context.Context, _ *server.Request, _ struct{}) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			defer close(ended)
			for i := range 5 {
				if !yield(i, nil) {
					return
				}
			}
			<-ctx.Done()
		}
	}, server.LastChunk[int])
	session := connect(t, s, client.Legacy)
	for chunk, err := range session.Stream(t.Context(), "endless", nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if string(chunk) == "3" {
			break
		}
	}
	waittest.Receive(t, "the end of the call", ended)
}

// What has been sent is gone: a reduction that wants it twice is a mistake in the
// program, and none that wants nothing.
func TestStreamIsReducedOnce(t *testing.T) {
	var runs int
	numbers := func(context.Context, *server.Request, struct{}) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			runs++
			yield(1, nil)
		}
	}
	s := newServer(&server.Options{Logger: discardLogger()})
	server.AddStream(s, server.Tool{Name: "twice"}, numbers, func(chunks iter.Seq[int]) int {
		return len(slices.Collect(chunks)) + len(slices.Collect(chunks))
	})
	server.AddStream(s, server.Tool{Name: "never"}, numbers, func(iter.Seq[int]) string { return "nothing" })
	session := connect(t, s, client.Legacy)
	_, err := session.CallTool(t.Context(), "twice", nil, nil)
	wantCode(t, err, jsonrpc.InternalError)
	if runs != 1 {
		t.Errorf("the function ran %d times", runs)
	}
	if got := textOf(call(t, session, "never", `{}`)); got != "nothing" || runs != 1 {
		t.Errorf("never gave %s, and the function ran %d times", got, runs)
	}
}

// A chunker is the function of a streaming tool without arguments.
type chunker[Chunk any] = func(context.Context, *server.Request, struct{}) iter.Seq2[Chunk, error]

// chunks gives values.
func chunks[Chunk any](values ...Chunk) chunker[Chunk] {
	return func(context.Context, *server.Request, struct{}) iter.Seq2[Chunk, error] {
		return func(yield func(Chunk, error) bool) {
			for _, value := range values {
				if !yield(value, nil) {
					return
				}
			}
		}
	}
}

// steps calls a tool and returns its result and the progress that came before.
func steps(t testing.TB, session *client.Session, tool string) (*mcp.CallToolResult, []mcp.ProgressParams) {
	t.Helper()
	var steps []mcp.ProgressParams
	result, err := session.CallTool(t.Context(), tool, nil, &client.CallOptions{Progress: func(p *mcp.ProgressParams) { steps = append(steps, *p) }})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return result, steps
}

// TestStreamChunksAreProgress: one for each, from 0, without a total, its message the
// chunk as JSON, whatever a chunk is.
func TestStreamChunksAreProgress(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddStream(s, server.Tool{Name: "words"}, chunks("a", `"b"`, "", "<c>\n"), server.JoinText)
		server.AddStream(s, server.Tool{Name: "points"}, chunks(point{1, 2}, point{X: 3}), server.LastChunk[point])
		server.AddStream(s, server.Tool{Name: "anything"}, chunks[any](nil, true, []int{1}, 1.5), server.LastChunk[any])
		server.AddStream(s, server.Tool{Name: "raw"}, chunks(jsonRaw(`{"z":1.0}`)), server.LastChunk[jsonRaw])
		session := connect(t, s, era)
		for tool, want := range map[string][]string{
			"words":    {`"a"`, `"\"b\""`, `""`, `"<c>\n"`},
			"points":   {`{"x":1,"y":2}`, `{"x":3}`},
			"anything": {`null`, `true`, `[1]`, `1.5`},
			"raw":      {`{"z":1.0}`},
		} {
			_, got := steps(t, session, tool)
			if len(got) != len(want) {
				t.Fatalf("%s: %d chunks have come, want %d", tool, len(got), len(want))
			}
			for i, step := range got {
				if step.Progress != float64(i) || step.Message != want[i] || step.Total != nil {
					t.Errorf("%s: chunk %d comes as %+v, want %s", tool, i, step, want[i])
				}
			}
		}
	})
}

type (
	totalIn   struct{ Total int }
	measureIn struct {
		_     server.ToolTag `name:"measure"`
		Total int
	}
	tailor struct{}
)

func (tailor) Measure(ctx context.Context, r *server.Request, in measureIn) iter.Seq2[int, error] {
	return ofTotal(ctx, r, totalIn{in.Total})
}

// ofTotal states the total, if there is one, and sends two chunks.
func ofTotal(_ context.Context, r *server.Request, in totalIn) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		if in.Total != 0 {
			r.SetChunks(in.Total)
		}
		_ = yield(1, nil) && yield(2, nil)
	}
}

// TestServiceStreamIsAList: without a tag, the result of a stream of a method is the list of its chunks.
func TestServiceStreamIsAList(t *testing.T) {
	s := newServer(nil)
	server.AddService(s, tailor{})
	result, err := connect(t, s, client.Modern).CallTool(t.Context(), "measure", totalIn{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(result.StructuredContent); got != `[1,2]` {
		t.Errorf("the result is %s", got)
	}
}

// TestStreamHasItsTotal: the client sees the total that the function states, with each chunk.
func TestStreamHasItsTotal(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddStream(s, server.Tool{Name: "cut"}, ofTotal, server.LastChunk[int])
		server.AddService(s, tailor{})
		session := connect(t, s, era)
		for _, tool := range []string{"cut", "measure"} {
			for total, want := range map[int]string{-1: "0 of unknown, 1 of unknown", 0: "0 of unknown, 1 of unknown", 2: "0 of 2, 1 of 2", 3: "0 of 3, 1 of 3"} {
				var got []string
				report := func(p *mcp.ProgressParams) {
					of := "unknown"
					if p.Total != nil {
						of = fmt.Sprint(*p.Total)
					}
					got = append(got, fmt.Sprintf("%v of %s", p.Progress, of))
				}
				for _, err := range session.Stream(t.Context(), tool, totalIn{total}, &client.CallOptions{Progress: report}) {
					if err != nil {
						t.Error(err)
					}
				}
				if got := strings.Join(got, ", "); got != want {
					t.Errorf("%s with a total of %d: %s, want %s", tool, total, got, want)
				}
			}
		}
	})
}

// TestEmptyStream is reduced all the same: the reduction decides what nothing is.
func TestEmptyStream(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddStream(s, server.Tool{Name: "join"}, chunks[string](), server.JoinText)
		server.AddStream(s, server.Tool{Name: "last"}, chunks[point](), server.LastChunk[point])
		server.AddStream(s, server.Tool{Name: "content"}, chunks[*mcp.CallToolResult](), server.LastChunk[*mcp.CallToolResult])
		server.AddStream(s, server.Tool{Name: "own"}, chunks[int](), func(numbers iter.Seq[int]) string {
			return fmt.Sprint(len(slices.Collect(numbers)), " numbers")
		})
		session := connect(t, s, era)
		for tool, want := range map[string]string{"join": "", "last": `{"x":0}`, "content": "", "own": "0 numbers"} {
			result, got := steps(t, session, tool)
			if textOf(result) != want || result.IsError || len(got) > 0 {
				t.Errorf("%s gives %q after %d chunks, want %q", tool, textOf(result), len(got), want)
			}
		}
	})
}

// TestStreamSchemas: the chunks are in neither; the arguments' and the result's type are.
func TestStreamSchemas(t *testing.T) {
	s := newServer(nil)
	server.AddStream(s, server.Tool{Name: "tool"}, func(context.Context, *server.Request, point) iter.Seq2[string, error] {
		return func(func(string, error) bool) {}
	}, func(iter.Seq[string]) map[string]int { return nil })
	for tool, err := range connect(t, s, client.Legacy).Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		const input = `{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"],"additionalProperties":false}`
		const output = `{"type":"object","additionalProperties":{"type":"integer"}}`
		if string(tool.InputSchema) != input || string(tool.OutputSchema) != output {
			t.Errorf("the schemas are\n%s and\n%s", tool.InputSchema, tool.OutputSchema)
		}
	}
}

// TestStreamResultIsChecked: what the chunks were reduced to is a result as any other,
// with its structure and its check.
func TestStreamResultIsChecked(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
		small := jsonRaw(`{"type":"object","properties":{"x":{"maximum":2}}}`)
		server.AddStream(s, server.Tool{Name: "small", OutputSchema: small}, chunks(point{X: 9}, point{X: 2}), server.LastChunk[point])
		server.AddStream(s, server.Tool{Name: "big", OutputSchema: small}, chunks(point{X: 2}, point{X: 9}), server.LastChunk[point])
		session := connect(t, s, era)
		if result := call(t, session, "small", `{}`); string(result.StructuredContent) != `{"x":2}` {
			t.Errorf("the result is %+v", result)
		}
		_, err := session.CallTool(t.Context(), "big", nil, nil)
		wantCode(t, err, jsonrpc.InternalError)
	})
}

// TestStreamIsReducedIncrementally: no chunk is kept for later, however many there are.
func TestStreamIsReducedIncrementally(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var tr trace
		s := newServer(nil)
		server.AddStream(s, server.Tool{Name: "tool"}, func(context.Context, *server.Request, struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for i := range 3 {
					tr.step(fmt.Sprint("give ", i))
					yield(i, nil)
				}
			}
		}, func(numbers iter.Seq[int]) string {
			for n := range numbers {
				tr.step(fmt.Sprint("take ", n))
			}
			return ""
		})
		steps(t, connect(t, s, era), "tool")
		wantSteps(t, &tr, "give 0", "take 0", "give 1", "take 1", "give 2", "take 2")
	})
}

// TestStreamTimeout covers all of the stream, and its error is the result.
func TestStreamTimeout(t *testing.T) {
	virtualEras(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddStream(s, server.Tool{Name: "drip", Timeout: 5 * time.Second}, func(ctx context.Context, _ *server.Request, _ struct{}) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for i := 0; ; i++ {
					select {
					case <-ctx.Done():
						yield(0, ctx.Err())
						return
					case <-time.After(2 * time.Second):
						if !yield(i, nil) {
							return
						}
					}
				}
			}
		}, server.LastChunk[int])
		begin := time.Now()
		result, got := steps(t, connectInMemory(t, s, &client.Options{Era: era}), "drip")
		if !result.IsError || textOf(result) != `tool "drip" took longer than 5s` || len(got) != 2 || time.Since(begin) != 5*time.Second {
			t.Errorf("after %v and %d chunks the tool says %q", time.Since(begin), len(got), textOf(result))
		}
	})
}

// TestStreamChunkWithoutJSON checks that the stream ends for the caller that waits for it.
func TestStreamChunkWithoutJSON(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddStream(s, server.Tool{Name: "tool"}, chunks[any](1, make(chan int), 2), func(values iter.Seq[any]) string {
			n := 0
			for range values {
				n++
			}
			return fmt.Sprint(n, " values")
		})
		session := connect(t, s, era)
		if result, got := steps(t, session, "tool"); !result.IsError || len(got) != 1 {
			t.Errorf("%d chunks have come, and %q", len(got), textOf(result))
		}
		if got := textOf(call(t, session, "tool", `{}`)); got != "3 values" {
			t.Errorf("where nobody waits for chunks the tool says %q", got)
		}
	})
}

// TestStreamInterceptors see one result, and may change it.
func TestStreamInterceptors(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		var runs atomic.Int64
		change := func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if call.Method() != mcp.MethodToolsCall {
					return next(ctx, call)
				}
				runs.Add(1)
				result, err := next(ctx, call)
				if err != nil {
					return nil, err
				}
				encoded, err := result.AppendJSON(nil)
				if err != nil {
					return nil, err
				}
				var changed mcp.CallToolResult
				if err := changed.UnmarshalJSON(encoded); err != nil {
					return nil, err
				}
				changed.StructuredContent = jsonRaw(strings.Replace(string(changed.StructuredContent), `"x":`, `"x":1`, 1))
				return &changed, nil
			}
		}
		s := newServer(&server.Options{Middleware: []mcp.Middleware{change}})
		server.AddStream(s, server.Tool{Name: "tool", CallMiddleware: []mcp.Middleware{change}}, chunks(point{X: 1}, point{X: 2}), server.LastChunk[point])
		result, got := steps(t, connect(t, s, era), "tool")
		if string(result.StructuredContent) != `{"x":112}` || runs.Load() != 2 || len(got) != 2 {
			t.Errorf("the result is %s, after %d chunks and %d interceptors", result.StructuredContent, len(got), runs.Load())
		}
	})
}

// TestStreamErrorAfterChunks: middleware sees the error at the end of a stream.
func TestStreamErrorAfterChunks(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{CallMiddleware: []mcp.Middleware{func(next mcp.Handler) mcp.Handler {
			return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
				if _, err := next(ctx, call); err != nil {
					return &mcp.CallToolResult{Content: []mcp.Content{mcp.Text("instead of: " + err.Error())}}, nil
				}
				return nil, errors.New("there is no error")
			}
		}}})
		server.AddStream(s, server.Tool{Name: "tool"}, func(context.Context, *server.Request, struct{}) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				_ = yield("half", nil) && yield("", errors.New("out of flour"))
			}
		}, server.JoinText)
		if result, got := steps(t, connect(t, s, era), "tool"); textOf(result) != "instead of: out of flour" || len(got) != 1 {
			t.Errorf("after %d chunks the tool says %q", len(got), textOf(result))
		}
	})
}

// TestStreamPanics: the chunks that were sent stay sent, and the caller learns no more.
func TestStreamPanics(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(&server.Options{Logger: discardLogger()})
		server.AddStream(s, server.Tool{Name: "tool"}, func(context.Context, *server.Request, struct{}) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				yield("half", nil)
				panic("the secret is 42")
			}
		}, server.JoinText)
		var got []string
		var failure error
		for chunk, err := range connect(t, s, era).Stream(t.Context(), "tool", nil, nil) {
			if failure = err; err == nil {
				got = append(got, string(chunk))
			}
		}
		if wantCode(t, failure, jsonrpc.InternalError); !slices.Equal(got, []string{`"half"`}) || !reference.MatchString(message(failure)) {
			t.Errorf("the chunks are %q, the error is %v", got, failure)
		}
	})
}

// TestMountedStream: chunks find their way through mounts.
func TestMountedStream(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s, middle := newServer(nil), newServer(nil)
		mount(t, middle, newCounter(), "c_")
		mount(t, s, middle, "m_")
		var got []string
		for chunk, err := range connect(t, s, era).Stream(t.Context(), "m_c_count", countIn{To: 3}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(chunk))
		}
		if !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("the chunks are %q", got)
		}
	})
}

// TestLongStream: none is lost, and none comes twice.
func TestLongStream(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		s := newServer(nil)
		server.AddStream(s, server.Tool{Name: "count"}, count, server.LastChunk[int])
		session := connect(t, s, era)
		const many = 3000
		next := 1
		for chunk, err := range session.Stream(t.Context(), "count", countIn{To: many}, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if string(chunk) != fmt.Sprint(next) {
				t.Fatalf("chunk %d is %s", next, chunk)
			}
			next++
		}
		if next != many+1 {
			t.Errorf("%d chunks have come, want %d", next-1, many)
		}
	})
}
