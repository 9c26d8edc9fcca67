package quota_test

import (
	"errors"
	"testing"

	"github.com/dovetail-go/dovetail/internal/quota"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

func isBusy(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && e.Code == jsonrpc.Busy
}

// A client that takes all that it gets leaves half to others, of whom each gets an eighth.
func TestRetained(t *testing.T) {
	r := quota.NewRetained(800)
	for i, step := range []struct {
		holder  quota.Holder
		bytes   int64 // negative: returned
		refused bool
	}{
		{holder: here, bytes: 400},
		{holder: here, bytes: 1, refused: true},
		{holder: there, bytes: 101, refused: true},
		{holder: there, bytes: 100},
		{holder: there, bytes: 1, refused: true},
		{holder: ann, bytes: 60},
		{holder: ann, bytes: 50, refused: true},
		{holder: ann, bytes: 40},
		{holder: bob, bytes: 100},
		{holder: local, bytes: 100}, // without a share
		{holder: local, bytes: 1, refused: true},
		{holder: here, bytes: -350},
		{holder: here, bytes: 51, refused: true}, // more than half is held: 450
		{holder: here, bytes: 50},
		{holder: ann, bytes: -100},
		{holder: bob, bytes: -100},
		{holder: here, bytes: 100}, // now it is half
	} {
		if step.bytes < 0 {
			r.Return(step.holder, -step.bytes)
			continue
		}
		if err := r.Take(step.holder, step.bytes); (err != nil) != step.refused || step.refused && !isBusy(err) {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if r.Held() != 400 {
		t.Errorf("%d bytes are held, want 400", r.Held())
	}
	r.Add(here, 500) // more than there is
	if err := r.Take(there, 1); !isBusy(err) {
		t.Errorf("with more than the maximum: %v", err)
	}
	r.Return(here, 500)
	for bytes, retry := range map[int64]bool{400: true, 401: false} { // the second never has room
		if e, ok := errors.AsType[*jsonrpc.Error](r.Take(here, bytes)); !ok || (e.Data != nil) != retry {
			t.Errorf("%d bytes: %+v", bytes, e)
		}
	}
	none := quota.NewRetained(-1)
	none.Add(here, 1<<60)
	if err := none.Take(here, 1<<60); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	none.Return(here, 1<<60)
}
