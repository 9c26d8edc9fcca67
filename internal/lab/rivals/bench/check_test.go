package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEcho(t *testing.T) {
	for _, size := range []int{100, 10 << 10} {
		e := newEcho(Work{Size: size})
		if len(e.json) != size {
			t.Errorf("%d bytes, want %d", len(e.json), size)
		}
		var decoded any
		if err := json.Unmarshal(e.json, &decoded); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(e.check(e.in), e.check(decoded), e.checkBytes([]byte(`{"id":7,"result":{"structuredContent":`+string(e.json)+`}}`))); err != nil {
			t.Error(err)
		}
	}
}

func TestEchoDiffers(t *testing.T) {
	e := newEcho(Work{Size: 100})
	for what, err := range map[string]error{
		"another number":   e.check(Echo{e.in.Message, e.in.N + 1}),
		"another message":  e.check(Echo{e.in.Message[1:], e.in.N}),
		"an empty map":     e.check(map[string]any{}),
		"a number in text": e.check(map[string]any{"message": e.in.Message, "n": "12345"}),
		"nothing":          e.check(nil),
		"another id":       e.checkBytes([]byte(`{"id":8,"result":{"structuredContent":` + string(e.json) + `}}`)),
		"an error":         e.checkBytes([]byte(`{"id":7,"error":{}}`)),
		"other content":    e.checkBytes([]byte(`{"id":7,"result":{"structuredContent":{}}}`)),
	} {
		if err == nil {
			t.Errorf("%s passes", what)
		}
	}
}

func TestToolNames(t *testing.T) {
	names := newToolNames(Work{Tools: 3})
	all := []string{toolName(0), toolName(1), toolName(2)}
	list := func(listed []string, described bool) error {
		return names.check(len(listed), func(i int) (string, bool) { return listed[i], described })
	}
	if err := list(all, true); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"one too few":  list(all[:2], true),
		"another":      list([]string{all[0], all[1], "echo"}, true),
		"no schema":    list(all, false),
		"one too many": list(slices.Concat(all, all[:1]), true),
	} {
		if err == nil {
			t.Errorf("%s passes", what)
		}
	}
}

func TestTally(t *testing.T) {
	for name, test := range map[string]struct {
		progress []float64
		lost     int // -1: out of order
	}{
		"all":          {[]float64{1, 2, 3}, 0},
		"one lost":     {[]float64{1, 3}, 1},
		"none":         {nil, 3},
		"out of order": {[]float64{1, 3, 2}, -1},
		"twice":        {[]float64{1, 1, 2}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := newTally(Work{Units: 3})
				go func() {
					for _, progress := range test.progress {
						count.add(progress)
					}
				}()
				err := count.wait(t.Context())
				loss, lossy := errors.AsType[*lossError](err)
				switch {
				case test.lost == 0 && err != nil, test.lost < 0 && (err == nil || lossy), test.lost > 0 && !lossy:
					t.Error(err)
				case lossy && (loss.want-loss.got != test.lost):
					t.Error(err)
				}
			})
		})
	}
}

// The CPU time of a client and a server over stdio includes the child.
func TestTotalCPU(t *testing.T) {
	w := over(Stdio, Legacy, Call)
	r, err := goSDK{}.Open(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	measure := func(clock func() (time.Duration, error)) time.Duration {
		before, err := clock()
		for range 50 {
			err = errors.Join(err, r.Do(t.Context()))
		}
		after, err2 := clock()
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return after - before
	}
	own := measure(func() (time.Duration, error) { return processCPU(0) })
	if both := measure(totalCPU); both < own*5/4 {
		t.Errorf("client and server use %v, the client alone %v", both, own)
	}
}

// A wrong response ends the measurement of a peer, and all of it if the peer is ours.
func TestRunFails(t *testing.T) {
	b := compare(callsTable, "benchmark", over(Streamable, Legacy, Call))
	s := schedule{rounds: 2, time: 1}
	result, err := s.run(t.Context(), b, []Peer{dovetail{}, impostor{goSDK{}}, impostor{mcpGo{}}, wire{}})
	if err != nil {
		t.Fatal(err)
	}
	if v := result.variant(official); !strings.Contains(v.Failure, "impostor") || len(v.Samples) != 0 {
		t.Errorf("%+v", v)
	}
	if v := result.variant(ours); v.Failure != "" || len(v.Samples) != 2 || v.Median.CPU == 0 {
		t.Errorf("%+v", v)
	}
	if _, err := s.run(t.Context(), b, []Peer{impostor{dovetail{}}, goSDK{}, mcpGo{}, wire{}}); err == nil || !strings.Contains(err.Error(), "impostor") {
		t.Errorf("error %v", err)
	}
}

// An impostor responds wrongly.
type impostor struct{ Peer }

func (i impostor) Open(context.Context, Work) (Rig, error) {
	return &rig{do: func(context.Context) error { return errors.New("impostor") }}, nil
}
