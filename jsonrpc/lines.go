package jsonrpc

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/buffer"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// LineOptions are the limits of [NewLines]. Zero means the default.
type LineOptions struct {
	// MaxLine is the longest line in bytes without its end, [DefaultMaxLine] by
	// default. A longer one is read to its end and skipped.
	MaxLine int
	// MaxQueued is how many bytes may wait to be written before Write waits,
	// [DefaultMaxQueued] by default.
	MaxQueued int
}

// queues are lent to streams while they have something to write.
var queues buffer.Pool

// Lines is a [Stream] of newline-delimited JSON: one message a line, as the
// stdio transport of MCP has it. CRLF is accepted, blank lines are skipped, and
// a last line without a newline counts. When writing fails, reading goes on for
// at most a second, and the stream ends.
type Lines struct {
	r         *bufio.Reader
	recycled  []byte // where the next line goes
	w         io.Writer
	hangUp    func() error // closes both ends, once
	maxLine   int
	maxQueued int

	mu      sync.Mutex
	queued  *buffer.Buffer // nil when there is nothing to write
	room    chan struct{}  // closed when queued has been taken for writing; nil when nobody waits for that
	pending chan struct{}  // has an element when something is queued
	closing chan struct{}
	closed  bool
	err     error         // why writing failed
	written chan struct{} // closed when the writer has ended
}

// NewLines returns a stream over r and w. Closing it closes c, which must end a
// blocked read and write. One goroutine writes; Close waits for it.
func NewLines(r io.Reader, w io.Writer, c io.Closer, opts *LineOptions) *Lines {
	l := &Lines{
		r: bufio.NewReaderSize(r, 64<<10), w: w, hangUp: sync.OnceValue(c.Close),
		maxLine: DefaultMaxLine, maxQueued: DefaultMaxQueued,
		pending: make(chan struct{}, 1), closing: make(chan struct{}), written: make(chan struct{}),
	}
	if opts != nil && opts.MaxLine > 0 {
		l.maxLine = opts.MaxLine
	}
	if opts != nil && opts.MaxQueued > 0 {
		l.maxQueued = opts.MaxQueued
	}
	go l.writeQueued()
	return l
}

// Read returns the next line that is not blank, without its end.
func (l *Lines) Read() ([]byte, error) {
	for {
		line, err := l.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, cmp.Or(l.writeError(), err) // reading may have ended because writing did
		}
		if err != nil || len(line) > 0 {
			return line, err
		}
	}
}

// readLine returns one line in a slice of its own, without its end and the white
// space around it. The last line need not have an end.
func (l *Lines) readLine() ([]byte, error) {
	line := l.recycled
	l.recycled = nil
	for {
		part, err := l.r.ReadSlice('\n')
		if len(part) > cap(line)-len(line) { // doubling leaves less behind than append does
			line = slices.Grow(line, max(len(part), min(len(line), l.maxLine-len(line))))
		}
		line = append(line, part...)
		full := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case full && len(line) > l.maxLine+len("\r"):
			return nil, l.skipLine(len(line))
		case full:
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			size := len(bytes.TrimRight(line, "\r\n"))
			if size > l.maxLine {
				return nil, &FrameError{Size: size, Reason: l.tooLong()}
			}
			return bytes.Trim(line, " \t\r\n"), nil
		default:
			return nil, err // what there is of the line is not all of it
		}
	}
}

// Recycle takes back a line that nobody uses any more.
func (l *Lines) Recycle(line []byte) {
	if cap(line) <= maxRecycled {
		l.recycled = line[:0]
	}
}

func (l *Lines) skipLine(size int) error {
	for {
		part, err := l.r.ReadSlice('\n')
		size += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			if err == nil {
				size -= len("\n")
			}
			return &FrameError{Size: size, Reason: l.tooLong()}
		}
	}
}

func (l *Lines) tooLong() string {
	return fmt.Sprintf("a line may have at most %d bytes", l.maxLine)
}

// Write queues one message as one line.
func (l *Lines) Write(ctx context.Context, msg []byte) error {
	l.mu.Lock()
	for l.queued != nil && len(l.queued.Bytes) >= l.maxQueued && l.err == nil && !l.closed {
		if l.room == nil {
			l.room = make(chan struct{})
		}
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
		case <-l.closing:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if l.closed {
		return ErrClosed
	}
	if l.queued == nil {
		l.queued = queues.Get()
	}
	l.queued.Bytes = append(jsonscan.AppendLine(l.queued.Bytes, msg), '\n')
	select {
	case l.pending <- struct{}{}:
	default:
	}
	return nil
}

// writeQueued writes until the stream is closed or writing fails. A peer that
// takes no more messages may have sent some before, so reading goes on a while.
func (l *Lines) writeQueued() {
	defer close(l.written)
	if l.writeAll() == nil {
		return
	}
	timer := time.NewTimer(flushGrace)
	defer timer.Stop()
	select {
	case <-l.closing:
	case <-timer.C:
		_ = l.hangUp() // Close returns the error
	}
}

// writeAll writes whatever has been queued meanwhile in one piece, so that
// messages written at the same time share a system call.
func (l *Lines) writeAll() error {
	for closing := false; ; {
		select {
		case <-l.pending:
		case <-l.closing:
			closing = true
		}
		l.mu.Lock()
		batch := l.queued
		l.queued = nil
		l.makeRoom()
		l.mu.Unlock()

		var err error
		if batch != nil {
			_, err = l.w.Write(batch.Bytes)
			batch.Free()
		}
		l.mu.Lock()
		l.err = err
		done := err != nil || closing && l.queued == nil
		if done {
			l.makeRoom() // whoever waits for it learns that none is needed
		}
		l.mu.Unlock()
		if done {
			return err
		}
	}
}

func (l *Lines) makeRoom() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

func (l *Lines) writeError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close writes what is queued, for at most a second, and closes the stream.
func (l *Lines) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
	l.mu.Unlock()
	l.awaitWriter()
	err := l.hangUp()
	// A write that even this does not end, on an inherited descriptor, must
	// not hold up its process.
	l.awaitWriter()
	return err
}

func (l *Lines) awaitWriter() {
	timer := time.NewTimer(flushGrace)
	defer timer.Stop()
	select {
	case <-l.written:
	case <-timer.C:
	}
}
