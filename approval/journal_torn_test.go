package approval

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"
)

// A memory file is one without a disk, which would take long.
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

// writtenJournal has some requests in it.
func writtenJournal(t testing.TB) *memoryFile {
	t.Helper()
	file := &memoryFile{}
	j, err := openJournal(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		for _, e := range []Entry{askedEntry(id), {Event: EventApproved, ID: id, Digest: Digest{1}}, {Event: EventExecuting, ID: id, Digest: Digest{1}}, {Event: EventExecuted, ID: id, Digest: Digest{1}}} {
			if err := j.Append(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	return file
}

func askedEntry(id string) Entry {
	return Entry{Event: EventAsked, ID: id, Digest: Digest{1}, Arguments: "{\"a\":\"\u2028<\"}", Deadline: time.Now().Add(time.Minute)}
}

// TestJournalTorn: a journal that ends anywhere in a line goes on after the line before.
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
		if !bytes.HasPrefix(file.text, whole.text[:kept]) || bytes.Contains(file.text[kept:], []byte(EventRecovered)) != (kept < end) {
			t.Fatalf("cut at %d: the journal became\n%s", end, file.text)
		}
		r, err := readRecord(bytes.NewReader(file.text))
		if err != nil || r.torn != 0 || len(r.ledger) != 1 {
			t.Fatalf("cut at %d: afterwards: %+v, %v", end, r, err)
		}
	}
}

// FuzzJournal: whatever a file holds, it is opened or refused, and what was opened stays a
// journal in which nothing is open.
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
		if err != nil || after.torn != 0 || len(after.ledger) != 0 || after.seq < before.seq || !bytes.HasPrefix(file.text, text[:before.size]) {
			t.Fatalf("%q became %q: %v", text, file.text, err)
		}
	})
}
