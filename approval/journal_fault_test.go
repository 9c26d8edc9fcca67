package approval

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A faulty file fails where it is told to.
type faulty struct {
	*os.File
	short          int // bytes of the next Write that fails; -1 for none
	sync, truncate error
}

func (f *faulty) Write(p []byte) (int, error) {
	if f.short >= 0 {
		n, err := f.File.Write(p[:min(f.short, len(p))])
		f.short = -1
		return n, errors.Join(err, errors.New("no space left"))
	}
	return f.File.Write(p)
}

func (f *faulty) Sync() error { return errors.Join(f.sync, f.File.Sync()) }

func (f *faulty) Truncate(size int64) error {
	if f.truncate != nil {
		return f.truncate
	}
	return f.File.Truncate(size)
}

var _ io.ReadWriteCloser = (*faulty)(nil)

// TestJournalFileFaults: a line that could not be written whole is taken back; when that
// cannot be done either, or it is not known what is on disk, nothing more is written.
func TestJournalFileFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault  func(f *faulty)
		lasts  bool
		healed bool // the executing entry can be written afterwards
	}{
		"nothing written":  {func(f *faulty) { f.short = 0 }, false, true},
		"half a line":      {func(f *faulty) { f.short = 20 }, false, true},
		"cannot be undone": {func(f *faulty) { f.short, f.truncate = 20, errors.New("x") }, true, false},
		"no sync":          {func(f *faulty) { f.sync = errors.New("x") }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			file, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			f := &faulty{File: file, short: -1}
			j, err := openJournal(f, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			asked := Entry{Event: EventAsked, ID: "1", Digest: Digest{1}, Deadline: time.Now().Add(time.Minute)}
			executing := Entry{Event: EventExecuting, ID: "1", Digest: Digest{1}}
			if err := errors.Join(j.Append(asked), j.Append(Entry{Event: EventApproved, ID: "1", Digest: Digest{1}})); err != nil {
				t.Fatal(err)
			}
			test.fault(f)
			if j.Append(executing) == nil {
				t.Fatal("a fault was not noticed")
			}
			f.sync, f.truncate = nil, nil
			if err := j.Append(executing); (err == nil) != test.healed {
				t.Errorf("after the fault: %v", err)
			}
			if (j.err != nil) != test.lasts {
				t.Errorf("the journal is left with %v", j.err)
			}
			_ = j.Close()
			if s, err := Verify(path); err != nil || test.healed && s.Torn != 0 {
				t.Errorf("Verify: %+v, %v", s, err)
			}
		})
	}
}
