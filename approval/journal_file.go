package approval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

// A FileJournal is a [Journal] in an append-only file. Each line is a JSON object with the
// digest of the line before. It refuses invalid transitions of a request, such as an execution
// without an approval that is in time and unused. "resumed" counts as such an approval, since
// the decision may be in the journal of another replica. The file is locked while it is open. Its
// methods may be called concurrently.
type FileJournal struct {
	logger *slog.Logger

	mu     sync.Mutex
	file   journalFile
	record *record
	err    error // if set, every Append fails with it
}

// journalFile has the methods of *os.File that a FileJournal uses.
type journalFile interface {
	io.ReadWriteCloser
	Sync() error
	Truncate(size int64) error
	Seek(offset int64, whence int) (int64, error)
}

// OpenJournal opens a journal and verifies it. The file gets the mode 0600, since arguments may be secret; the
// directory must exist. An incomplete last line, which a crash leaves, is removed, and
// "recovered" is recorded. Open requests are recorded as withdrawn, and unfinished
// executions as failed. Any other damage is [ErrBroken]. The file is locked until it is
// closed: if it is open in this or another process, the error is [ErrInUse]. The lock is
// advisory, and some network file systems do not support it. logger may be nil.
func OpenJournal(path string, logger *slog.Logger) (*FileJournal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	var j *FileJournal
	if err = file.Chmod(0o600); err == nil {
		j, err = lockAndOpen(file, logger)
	}
	if err == nil {
		err = sharedfile.SyncDir(filepath.Dir(path)) // so that a new file survives a crash
	}
	if err != nil {
		_ = file.Close() // err is more important
		return nil, err
	}
	return j, nil
}

// ErrInUse reports that a journal is open in this or another process.
var ErrInUse = errors.New("approval: the journal is in use by this or another process")

func lockAndOpen(file *os.File, logger *slog.Logger) (*FileJournal, error) {
	err := sharedfile.TryLock(file)
	if errors.Is(err, sharedfile.ErrLocked) {
		err = ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return openJournal(file, logger)
}

func openJournal(file journalFile, logger *slog.Logger) (*FileJournal, error) {
	if logger == nil {
		logger = slog.Default()
	}
	r, err := readRecord(file)
	if err != nil {
		return nil, err
	}
	j := &FileJournal{logger: logger, file: file, record: r}
	if r.torn > 0 {
		if err := j.rewind(); err != nil {
			return nil, err
		}
		logger.Warn("the approval journal ended with an incomplete line", "bytes", r.torn, "line", r.seq+1)
		if err := j.Append(Entry{Event: eventRecovered, Reason: fmt.Sprintf("%d bytes of an incomplete line were removed", r.torn)}); err != nil {
			return nil, err
		}
	} else if _, err := file.Seek(r.size, io.SeekStart); err != nil {
		return nil, err
	}
	return j, j.endOpen()
}

// endOpen records the end of requests that an earlier process left open.
func (j *FileJournal) endOpen() error {
	for _, id := range slices.Sorted(maps.Keys(j.record.open)) {
		state := j.record.open[id]
		e := Entry{Event: eventWithdrawn, ID: id, Digest: state.digest, Reason: "the process ended before the call was made"}
		if state.event == eventExecuting {
			e.Event, e.Reason = eventFailed, "the process ended before the call did"
		}
		if err := j.Append(e); err != nil {
			return err
		}
	}
	return nil
}

// Append writes an entry, and sets its time if it is zero. It syncs the file after
// "executing". If a failed write cannot be undone, every later Append fails.
func (j *FileJournal) Append(e Entry) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time, e.Deadline, e.RememberedUntil = e.Time.UTC().Round(0), e.Deadline.UTC().Round(0), e.RememberedUntil.UTC().Round(0)
	e.repairText()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	if err := j.record.open.check(&e); err != nil {
		return err
	}
	text, err := j.record.next(e)
	if err != nil {
		return err
	}
	if err := j.write(text, e.Event == eventExecuting); err != nil {
		return err
	}
	j.record.follow(text)
	j.record.size += int64(len(text))
	j.record.open.apply(&e)
	return nil
}

func (j *FileJournal) write(text []byte, durable bool) error {
	end, err := j.file.Seek(0, io.SeekEnd)
	if err == nil && end != j.record.size {
		j.err = fmt.Errorf("%w: another program has written to it", ErrBroken)
		return j.err
	}
	if err == nil {
		_, err = j.file.Write(text)
	}
	if err != nil {
		if undone := j.rewind(); undone != nil {
			j.err = fmt.Errorf("approval: the journal cannot be written: %w", errors.Join(err, undone))
		}
		return fmt.Errorf("approval: writing the journal: %w", err)
	}
	if !durable {
		return nil
	}
	if err := j.file.Sync(); err != nil {
		// The content of the disk is now unknown, and a later Sync may succeed nevertheless.
		j.err = fmt.Errorf("approval: the journal cannot be written: %w", err)
		return j.err
	}
	return nil
}

// rewind truncates the file after the last complete line.
func (j *FileJournal) rewind() error {
	if err := j.file.Truncate(j.record.size); err != nil {
		return err
	}
	_, err := j.file.Seek(j.record.size, io.SeekStart)
	return err
}

// Close closes the file. A later Append fails; a second Close does nothing.
func (j *FileJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.err, os.ErrClosed) {
		return nil
	}
	j.err = fmt.Errorf("approval: the journal: %w", os.ErrClosed)
	return errors.Join(j.file.Sync(), j.file.Close())
}

// A Summary is the result of [Verify].
type Summary struct {
	// Entries is the number of complete lines.
	Entries int64
	// Head is the digest of the last complete line. A copy of it elsewhere proves later that
	// the journal up to this line has not changed.
	Head Digest
	// Torn is the length of an incomplete last line, in bytes.
	Torn int64
	// Open lists the ids of requests that have not ended, sorted.
	Open []string
}

// Verify reads a journal without changing it. It checks the chain of digests, and that each
// execution follows an approval that was in time and unused, or "resumed"; otherwise the error is
// [ErrBroken]. With [Options].Store, the approval of a resumed request may be in the journal of another
// replica. Verify reads one journal and does not look for it there: it has the same request id and digest.
func Verify(path string) (Summary, error) {
	file, err := os.Open(path)
	if err != nil {
		return Summary{}, err
	}
	defer file.Close() // only read
	r, err := readRecord(file)
	if err != nil {
		return Summary{}, err
	}
	return Summary{r.seq, r.head, r.torn, slices.Sorted(maps.Keys(r.open))}, nil
}

// ErrBroken reports that a line of a journal was changed, removed, added or moved. It is
// wrapped in an error with the line number.
var ErrBroken = errors.New("approval: the journal has been changed or damaged")

// A line is an entry with its link to the line before.
type line struct {
	// Seq counts from 1.
	Seq int64 `json:"seq"`
	// Prev is the digest of the line before, without its line break; zero in the first line.
	Prev Digest `json:"prev"`
	Entry
}

// A chain is the end of a journal, to which the next line is linked.
type chain struct {
	seq  int64
	head Digest // of the last line
}

// next encodes the next line, with its line break.
func (c chain) next(e Entry) ([]byte, error) {
	text, err := json.Marshal(line{c.seq + 1, c.head, e})
	if err != nil {
		return nil, err
	}
	if len(text) >= maxLine {
		return nil, fmt.Errorf("%w: the line has %d bytes, expected at most %d", errRefused, len(text), maxLine)
	}
	return append(text, '\n'), nil
}

// follow advances the chain by a line, which includes its line break.
func (c *chain) follow(text []byte) {
	c.seq++
	c.head = digestOf(string(text[:len(text)-1]))
}

// read returns the entry of the next line, and refuses a line that differs from the encoding of
// its entry.
func (c *chain) read(text []byte) (Entry, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return Entry{}, err
	}
	switch again, err := c.next(l.Entry); {
	case err != nil:
		return Entry{}, err
	case l.Seq != c.seq+1:
		return Entry{}, fmt.Errorf("it has the number %d", l.Seq)
	case l.Prev != c.head:
		return Entry{}, errors.New("it does not follow the line before")
	case !bytes.Equal(again, text):
		return Entry{}, errors.New("it is not in canonical form")
	}
	c.follow(text)
	return l.Entry, nil
}

// maxLine is the maximum length of a line, in bytes.
const maxLine = 1 << 20

// A record is the state of a journal after its last complete line.
type record struct {
	chain
	open stateMachine
	size int64 // of the complete lines
	torn int64 // size of an incomplete last line
}

// readRecord reads a journal.
func readRecord(from io.Reader) (*record, error) {
	r := &record{open: stateMachine{}}
	lines := bufio.NewReader(from)
	var text []byte
	for {
		var err error
		text, err = readLine(lines, text[:0])
		number := r.seq + 1
		switch {
		case errors.Is(err, io.EOF):
			r.torn = int64(len(text))
			return r, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: line %d is too long", ErrBroken, number)
		case err != nil:
			return nil, err
		}
		e, err := r.read(text)
		if err == nil {
			err = r.open.check(&e)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrBroken, number, err)
		}
		r.open.apply(&e)
		r.size += int64(len(text))
	}
}

// readLine appends the next line, with its line break. The error is bufio.ErrBufferFull if
// it is longer than maxLine.
func readLine(lines *bufio.Reader, dst []byte) ([]byte, error) {
	for {
		part, err := lines.ReadSlice('\n')
		dst = append(dst, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(dst) > maxLine {
			return dst, err
		}
	}
}
