package seats_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dovetail-go/dovetail/internal/leak"
	"github.com/dovetail-go/dovetail/internal/seats"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestSeats(t *testing.T) {
	s := seats.New(3, 2)
	for _, step := range []struct {
		principal string
		leave     bool
		refused   bool
	}{
		{principal: "ann"}, {principal: "ann"},
		{principal: "ann", refused: true}, // two of hers
		{principal: ""},
		{principal: "", refused: true}, // three in all
		{principal: "ann", leave: true},
		{principal: "bob"},
		{principal: "ann", refused: true},
		{principal: "", leave: true},
		{principal: "ann"},
	} {
		if step.leave {
			s.Leave(step.principal)
			continue
		}
		if err := s.Take(step.principal); (err != nil) != step.refused {
			t.Errorf("%q: %v", step.principal, err)
		}
	}
}

func TestNegativeMeansUnbounded(t *testing.T) {
	s := seats.New(-1, -1)
	for range 10_000 {
		if err := s.Take("ann"); err != nil {
			t.Fatal(err)
		}
	}
}

// However many ask at once, no seat is taken twice.
func TestSeatsConcurrently(t *testing.T) {
	s := seats.New(10, 10)
	var got atomic.Int32
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if s.Take(fmt.Sprint(i%5)) == nil {
				got.Add(1)
			}
		})
	}
	all.Wait()
	if got.Load() != 10 {
		t.Errorf("%d of 10 seats were taken", got.Load())
	}
}
