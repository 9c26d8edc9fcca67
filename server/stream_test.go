package server_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/client"
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
			_, err := server.Elicit[sure](r, "more", "More?")
			if err != nil {
				yield(0, err)
			}
		}
	}
}

func newCounter() *server.Server {
	s := newServer(&server.Options{Logger: quiet()})
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
		if err != nil || texts(result) != "3" {
			t.Errorf("count gave %v, %v", result, err)
		}
		for i, step := range steps {
			if step.Progress != float64(i) || step.Message != []string{"1", "2", "3"}[i] {
				t.Errorf("step %d is %+v", i, step)
			}
		}
		var letters []string
		for letter, err := range session.Stream(t.Context(), "spell", map[string]string{"word": "rye"}) {
			if err != nil {
				t.Fatal(err)
			}
			letters = append(letters, string(letter))
		}
		if !slices.Equal(letters, []string{`"r"`, `"y"`, `"e"`}) {
			t.Errorf("the letters are %q", letters)
		}
		// Without anybody who wants the chunks, the result is the same.
		if got := texts(call(t, session, "spell", `{"word":"rye"}`)); got != "rye" {
			t.Errorf("spell gave %s", got)
		}
		if got := texts(call(t, session, "spell", `{"word":""}`)); got != "" {
			t.Errorf("spell gave %s for nothing", got)
		}
		if got := texts(call(t, session, "first", `{"to":5}`)); got != "1" {
			t.Errorf("first gave %s", got)
		}
	})
}

func TestStreamThatFails(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connect(t, newCounter(), era)
		var chunks int
		var failure error
		for _, err := range session.Stream(t.Context(), "count", countIn{To: 2, Fail: true}) {
			if failure = err; err == nil {
				chunks++
			}
		}
		if failed, ok := errors.AsType[*client.ToolError](failure); chunks != 2 || !ok || !strings.Contains(failed.Error(), "that was all") {
			t.Errorf("%d chunks and %v", chunks, failure)
		}
	})
}

// What has been sent cannot be sent again, as it would be when the tool runs anew
// with the answer.
func TestStreamAsksOnlyBeforeItsFirstChunk(t *testing.T) {
	eachEra(t, func(t *testing.T, era client.Era) {
		session := connectWith(t, newCounter(), &client.Options{Era: era, Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: jsonRaw(`{"sure":true}`)}, nil
		}})
		_, err := session.CallTool(t.Context(), "count", countIn{To: 1, Ask: true}, nil)
		if !strings.Contains(message(err), "only before its first chunk") {
			t.Errorf("asking late gave %v", err)
		}
		if got := texts(call(t, session, "count", `{"to":0,"ask":true}`)); got != "0" {
			t.Errorf("asking first gave %s", got)
		}
	})
}

// Whoever breaks off the loop cancels the call.
func TestStreamIsCancelledByItsReader(t *testing.T) {
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
	for chunk, err := range session.Stream(t.Context(), "endless", nil) {
		if err != nil {
			t.Fatal(err)
		}
		if string(chunk) == "3" {
			break
		}
	}
	<-ended
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
	s := newServer(&server.Options{Logger: quiet()})
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
	if got := texts(call(t, session, "never", `{}`)); got != "nothing" || runs != 1 {
		t.Errorf("never gave %s, and the function ran %d times", got, runs)
	}
}
