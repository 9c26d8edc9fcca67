package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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
		for _, err := range []error{e.check(e.in), e.checkAny(decoded), e.checkAny(e.json)} {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// What is not the same is found, however it comes.
func TestEchoDiffers(t *testing.T) {
	e := newEcho(Work{Size: 100})
	other := e.in
	other.N++
	shorter := Echo{e.in.Message[1:], e.in.N}
	for what, err := range map[string]error{
		"another number":   e.check(other),
		"another message":  e.check(shorter),
		"an empty map":     e.checkAny(map[string]any{}),
		"a number in text": e.checkAny(map[string]any{"message": e.in.Message, "n": "12345"}),
		"nothing":          e.checkAny(nil),
		"other JSON":       e.checkAny(e.json[1:]),
		"another id":       e.checkBytes([]byte(`{"id":8,"result":{"structuredContent":` + string(e.json) + `}}`)),
		"an error":         e.checkBytes([]byte(`{"id":7,"error":{}}`)),
		"other content":    e.checkBytes([]byte(`{"id":7,"result":{"structuredContent":{}}}`)),
	} {
		if err == nil {
			t.Error(what, "is taken for the echo")
		}
	}
	if err := e.checkBytes([]byte(`{"id":7,"result":{"structuredContent":` + string(e.json) + `}}`)); err != nil {
		t.Error(err)
	}
}

func TestCatalogue(t *testing.T) {
	c := newCatalogue(Work{Tools: 3})
	all := []string{coldName(0), coldName(1), coldName(2)}
	list := func(names []string, described bool) error {
		return c.check(len(names), func(i int) (string, bool) { return names[i], described })
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
			t.Error(what, "is taken for the list")
		}
	}
}

func TestTally(t *testing.T) {
	for name, test := range map[string]struct {
		said []float64
		lost int // -1: out of order
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
					for _, progress := range test.said {
						count.add(progress)
					}
				}()
				err := count.wait(t.Context())
				loss, lossy := errors.AsType[*lossError](err)
				switch {
				case test.lost == 0 && err != nil, test.lost < 0 && (err == nil || lossy), test.lost > 0 && !lossy:
					t.Error(err)
				case lossy && (loss.want-loss.got != test.lost || loss.waited != patience):
					t.Errorf("%v after %v", err, loss.waited)
				}
			})
		})
	}
}

// What a rig says is wrong ends the measurement of that peer, or all of it if ours.
func TestHoldFails(t *testing.T) {
	w := place{Pipe, Legacy}.at(Call)
	c := among(callsTable, "contest", w)
	s := schedule{rounds: 2, time: 1}
	result, err := s.hold(t.Context(), c, []Peer{dovetail{}, impostor{official}, impostor{other}, wire{}})
	if err != nil {
		t.Fatal(err)
	}
	if e := result.entry(official); !strings.Contains(e.Failure, "impostor") || len(e.Samples) != 0 {
		t.Errorf("%+v", e)
	}
	if e := result.entry(ours); e.Failure != "" || len(e.Samples) != 2 || e.Median.Rate == 0 {
		t.Errorf("%+v", e)
	}
	if _, err := s.hold(t.Context(), c, []Peer{impostor{ours}, goSDK{}, mcpGo{}, wire{}}); err == nil || !strings.Contains(err.Error(), "impostor") {
		t.Errorf("error %v", err)
	}
}

// An impostor answers wrongly.
type impostor struct{ name string }

func (i impostor) Name() string { return i.name }
func (i impostor) Open(context.Context, Work) (Rig, error) {
	return newRig(func(context.Context) error { return errors.New("impostor") }), nil
}
func (i impostor) Serve(context.Context, Work) error { return errAbsent }
