package approval

import (
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
)

// A FileJournal is a [Journal] in a file that only grows: a JSON object a line, each with
// the digest of the line before. What it refuses beside: an execution without an approval
// before it that is in time and unused. The file is locked while it is open.
type FileJournal struct {
	logger *slog.Logger

	mu     sync.Mutex
	file   journalFile
	record *record
	err    error // why nothing can be written any more
}

// journalFile is what a FileJournal needs of an *os.File.
type journalFile interface {
	io.ReadWriteCloser
	Sync() error
	Truncate(size int64) error
	Seek(offset int64, whence int) (int64, error)
}

// OpenJournal opens a journal, and creates the file, for its owner alone, if there is none;
// its folder must exist. It reads all that was written. A last line that is not whole was
// being written when the process ended: it is cut off, and that is recorded. Requests that
// were open then are recorded as withdrawn, and executions as failed, since nobody knows
// how they ended. Any other damage is [ErrBroken]. The file is locked until it is closed:
// while another FileJournal has it open, in whatever process, the error is [ErrInUse]. The
// lock is advisory, and not every network file system has it. logger may be nil.
func OpenJournal(path string, logger *slog.Logger) (*FileJournal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j, err := lockAndOpen(file, logger)
	if err == nil {
		err = syncFolder(path)
	}
	if err != nil {
		_ = file.Close() // err says what matters
		return nil, err
	}
	return j, nil
}

// ErrInUse is the error of opening a journal that is open already.
var ErrInUse = errors.New("approval: the journal is open already, in this process or another")

func lockAndOpen(file *os.File, logger *slog.Logger) (*FileJournal, error) {
	if err := lock(file); err != nil {
		return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
	}
	return openJournal(file, logger)
}

// syncFolder has a new file's name outlive a crash.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	_ = folder.Sync() // not every system can
	return folder.Close()
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
		logger.Warn("the approval journal ended in the middle of a line", "bytes", r.torn, "line", r.seq+1)
		if err := j.Append(Entry{Event: EventRecovered, Reason: fmt.Sprintf("%d bytes of an unfinished line were cut off", r.torn)}); err != nil {
			return nil, err
		}
	} else if _, err := file.Seek(r.size, io.SeekStart); err != nil {
		return nil, err
	}
	return j, j.settle()
}

// settle ends what an earlier process has left open.
func (j *FileJournal) settle() error {
	for _, id := range slices.Sorted(maps.Keys(j.record.ledger)) {
		a := j.record.ledger[id]
		e := Entry{Event: EventWithdrawn, ID: id, Digest: a.digest, Reason: "the process ended before the call was made"}
		if a.state == EventExecuting {
			e.Event, e.Reason = EventFailed, "the process ended before the call did"
		}
		if err := j.Append(e); err != nil {
			return err
		}
	}
	return nil
}

// Append writes an entry, whose time it sets if there is none. After [EventExecuting] the
// file is on disk when it returns. Once writing has failed and could not be undone, every
// Append fails.
func (j *FileJournal) Append(e Entry) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.Time, e.Deadline = e.Time.UTC().Round(0), e.Deadline.UTC().Round(0)
	e.repairText()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	if err := j.record.ledger.check(&e); err != nil {
		return err
	}
	text, err := j.record.next(e)
	if err != nil {
		return err
	}
	if err := j.write(text, e.Event == EventExecuting); err != nil {
		return err
	}
	j.record.follow(text)
	j.record.size += int64(len(text))
	j.record.ledger.take(&e)
	return nil
}

func (j *FileJournal) write(text []byte, durable bool) error {
	end, err := j.file.Seek(0, io.SeekEnd)
	if err == nil && end != j.record.size {
		j.err = fmt.Errorf("%w: something else has written to it", ErrBroken)
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
		// What is on disk is not known any more, and a later Sync may say that all is well.
		j.err = fmt.Errorf("approval: the journal cannot be written: %w", err)
		return j.err
	}
	return nil
}

// rewind cuts off what comes after the last whole line.
func (j *FileJournal) rewind() error {
	if err := j.file.Truncate(j.record.size); err != nil {
		return err
	}
	_, err := j.file.Seek(j.record.size, io.SeekStart)
	return err
}

// Close closes the file; a later Append fails. Closing it again does nothing.
func (j *FileJournal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.err, os.ErrClosed) {
		return nil
	}
	j.err = fmt.Errorf("approval: the journal: %w", os.ErrClosed)
	return errors.Join(j.file.Sync(), j.file.Close())
}

// A Summary is what [Verify] has found.
type Summary struct {
	// Entries is how many whole lines there are.
	Entries int64
	// Head is the digest of the last of them. Who keeps it elsewhere can tell later that
	// the journal up to here is the same.
	Head Digest
	// Torn is how many bytes come after them: a line that was being written.
	Torn int64
	// Open are the ids of requests that have not ended, in their order.
	Open []string
}

// Verify reads a journal without changing it, and checks that each line follows the one
// before and that nothing was executed without an approval that was in time and unused.
// Otherwise the error is [ErrBroken].
func Verify(path string) (Summary, error) {
	file, err := os.Open(path)
	if err != nil {
		return Summary{}, err
	}
	defer file.Close() // it was read only
	r, err := readRecord(file)
	if err != nil {
		return Summary{}, err
	}
	return Summary{r.seq, r.head, r.torn, slices.Sorted(maps.Keys(r.ledger))}, nil
}
