package approval

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/racetest"
)

// A faulty file fails as its fields say.
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

// TestJournalFileFaults: an incompletely written line is removed. If that fails, or the state of
// the disk is unknown, every later Append fails.
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
			asked := Entry{Event: eventAsked, ID: "1", Digest: Digest{1}, Deadline: time.Now().Add(time.Minute)}
			executing := Entry{Event: eventExecuting, ID: "1", Digest: Digest{1}}
			if err := errors.Join(j.Append(asked), j.Append(Entry{Event: eventApproved, ID: "1", Digest: Digest{1}})); err != nil {
				t.Fatal(err)
			}
			test.fault(f)
			if j.Append(executing) == nil {
				t.Fatal("the fault was not reported")
			}
			f.sync, f.truncate = nil, nil
			if err := j.Append(executing); (err == nil) != test.healed {
				t.Errorf("after the fault: %v", err)
			}
			if (j.err != nil) != test.lasts {
				t.Errorf("the error of the journal is %v", j.err)
			}
			_ = j.Close()
			if s, err := Verify(path); err != nil || test.healed && s.Torn != 0 {
				t.Errorf("Verify: %+v, %v", s, err)
			}
		})
	}
}

// A memoryFile is a journalFile in memory, for speed.
type memoryFile struct {
	text []byte
	at   int
}

func (m *memoryFile) Read(p []byte) (int, error) {
	if m.at >= len(m.text) {
		return 0, io.EOF
	}
	n := copy(p, m.text[m.at:])
	m.at += n
	return n, nil
}

func (m *memoryFile) Write(p []byte) (int, error) {
	m.text = append(m.text[:m.at], p...)
	m.at = len(m.text)
	return len(p), nil
}

func (m *memoryFile) Seek(offset int64, whence int) (int64, error) {
	m.at = int(offset)
	if whence == io.SeekEnd {
		m.at += len(m.text)
	}
	return int64(m.at), nil
}

func (m *memoryFile) Truncate(size int64) error {
	m.text = m.text[:size]
	return nil
}

func (m *memoryFile) Sync() error  { return nil }
func (m *memoryFile) Close() error { return nil }

// writtenJournal returns a journal with two requests.
func writtenJournal(t testing.TB) *memoryFile {
	t.Helper()
	file := &memoryFile{}
	j, err := openJournal(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		for _, e := range []Entry{askedEntry(id), {Event: eventApproved, ID: id, Digest: Digest{1}}, {Event: eventExecuting, ID: id, Digest: Digest{1}}, {Event: eventExecuted, ID: id, Digest: Digest{1}}} {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	return file
}

func askedEntry(id string) Entry {
	return Entry{Event: eventAsked, ID: id, Digest: Digest{1}, Arguments: "{\"a\":\"\u2028<\"}", Deadline: time.Now().Add(time.Minute)}
}

// TestJournalTorn: a journal that ends anywhere within a line continues after the line before.
func TestJournalTorn(t *testing.T) {
	logger := slog.New(slog.DiscardHandler)
	whole := writtenJournal(t)
	for end := range whole.text {
		file := &memoryFile{text: bytes.Clone(whole.text[:end])}
		kept := bytes.LastIndexByte(file.text, '\n') + 1
		j, err := openJournal(file, logger)
		if err != nil {
			t.Fatalf("cut at %d: %v", end, err)
		}
		if err := errors.Join(j.Append(askedEntry("new")), j.Close()); err != nil {
			t.Fatalf("cut at %d: %v", end, err)
		}
		if !bytes.HasPrefix(file.text, whole.text[:kept]) || bytes.Contains(file.text[kept:], []byte(eventRecovered)) != (kept < end) {
			t.Fatalf("cut at %d: the journal became\n%s", end, file.text)
		}
		r, err := readRecord(bytes.NewReader(file.text))
		if err != nil || r.torn != 0 || len(r.open) != 1 {
			t.Fatalf("cut at %d: afterwards: %+v, %v", end, r, err)
		}
	}
}

// FuzzJournal: a file of any content is opened or refused, and an opened journal is valid and has
// no open requests.
func FuzzJournal(f *testing.F) {
	text := writtenJournal(f).text
	first := bytes.IndexByte(text, '\n') + 1
	for _, seed := range [][]byte{text, text[:len(text)/2], text[:first], text[:first+7], []byte("{}\n"), nil, []byte(`{"seq":1`)} {
		f.Add(seed)
	}
	logger := slog.New(slog.DiscardHandler)
	f.Fuzz(func(t *testing.T, text []byte) {
		before, invalid := readRecord(bytes.NewReader(text))
		file := &memoryFile{text: bytes.Clone(text)}
		j, err := openJournal(file, logger)
		if (err == nil) != (invalid == nil) {
			t.Fatalf("readRecord: %v, openJournal: %v", invalid, err)
		}
		if err != nil {
			return
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		after, err := readRecord(bytes.NewReader(file.text))
		if err != nil || after.torn != 0 || len(after.open) != 0 || after.seq < before.seq || !bytes.HasPrefix(file.text, text[:before.size]) {
			t.Fatalf("%q became %q: %v", text, file.text, err)
		}
	})
}

// Entries that are appended at the same time are all written, one after another.
func TestJournalConcurrently(t *testing.T) {
	const n = 30
	path := filepath.Join(t.TempDir(), "journal")
	j, err := OpenJournal(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	add := func(name string) func(int) {
		return func(round int) {
			if err := j.Append(Entry{Event: eventAsked, ID: fmt.Sprint(name, round), Digest: Digest{1}, Deadline: time.Now().Add(time.Minute)}); err != nil {
				t.Error(err)
			}
		}
	}
	racetest.Together(n, add("a"), add("b"))
	closeOnce := func(int) {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	racetest.Together(1, closeOnce, closeOnce)
	text, err := os.ReadFile(path)
	if err != nil || bytes.Count(text, []byte("\n")) != 2*n {
		t.Errorf("the journal has %d lines (%v), want %d", bytes.Count(text, []byte("\n")), err, 2*n)
	}
	if again, err := OpenJournal(path, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("the journal is damaged: %v", err)
	} else {
		again.Close()
	}
}
