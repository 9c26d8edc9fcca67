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

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// A Stream carries messages in both directions, each one JSON text.
type Stream interface {
	// Read returns the next message; the caller owns the slice. The error is io.EOF at the
	// end. If Read skips a frame, such as one that is too long, the error is a *[DecodeError]
	// and Read may be called again. Read is not called concurrently.
	Read() ([]byte, error)

	// Write sends one message, and must not retain msg. It may block until ctx ends, if too
	// much is queued. It may be called concurrently. If Write fails, the message counts as
	// not sent, except with a *[CallError]: then Call and Notify return its Delivery and Err.
	Write(ctx context.Context, msg []byte) error

	// Close sends the queued messages, within a time limit, and ends Read and Write. It may
	// be called more than once.
	Close() error
}

const (
	// defaultMaxLine is the default of the parameter maxLine of NewLines.
	defaultMaxLine = 16 << 20
	// maxQueuedLines is how many bytes may wait to be written before Write blocks.
	maxQueuedLines = 1 << 20
	// flushGrace bounds how long Close waits until queued lines are written.
	flushGrace = time.Second
	// maxRecycled is the largest line whose memory is reused for the next line, in bytes.
	maxRecycled = 4 << 10
	// maxHeldLines is how many bytes of long lines may be held until their calls are answered.
	maxHeldLines = 64 << 20
)

// lines is a [Stream] of lines.
type lines struct {
	r        *bufio.Reader
	recycled []byte // memory for the next line
	w        io.Writer
	hangUp   func() error // closes both ends, once
	maxLine  int
	budget   *bufpool.Budget
	charge   *bufpool.Charge // of the last line

	mu      sync.Mutex
	queued  *bufpool.Buffer // nil if nothing waits to be written
	room    chan struct{}   // closed when queued is taken to be written; nil if no Write waits
	pending chan struct{}   // has an element if something is queued
	closing chan struct{}
	closed  bool
	err     error         // of the first failed write
	written chan struct{} // closed when the goroutine that writes has ended
}

// NewLines returns a stream of newline-delimited JSON over r and w: one message per line, as
// in the stdio transport of MCP. CRLF and a byte order mark are accepted, blank lines are skipped, and the last line
// needs no newline. A line longer than maxLine bytes is skipped; 0 means 16 MiB.
//
// At most 64 MiB of lines longer than 64 KiB, or one line of maxLine, are held until their calls
// have been answered. A line beyond that waits up to 2 s, and is then refused with [Busy].
//
// Close writes the queued lines, for at most 1 s, and closes c, which must end a blocked read
// and write. If writing fails, the stream ends at most 1 s later, so that lines that the peer
// has already sent can be read. One goroutine writes; Close waits for it.
func NewLines(r io.Reader, w io.Writer, c io.Closer, maxLine int) Stream {
	if maxLine <= 0 {
		maxLine = defaultMaxLine
	}
	l := &lines{
		r: bufio.NewReaderSize(r, 64<<10), w: w, hangUp: sync.OnceValue(c.Close), maxLine: maxLine,
		budget:  bufpool.NewBudget(max(maxHeldLines, int64(maxLine))),
		pending: make(chan struct{}, 1), closing: make(chan struct{}), written: make(chan struct{}),
	}
	go l.writeQueued()
	return l
}

// Read returns the next line that is not blank, without its end.
func (l *lines) Read() ([]byte, error) {
	for {
		line, err := l.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, cmp.Or(l.writeError(), err) // reading may have ended because writing did
		}
		if err == nil && len(line) > bufpool.Small {
			l.charge, err = l.budget.Grow(context.Background(), nil, len(line))
			if err != nil {
				return nil, BusyError(line, nil, err)
			}
		}
		if err != nil || len(line) > 0 {
			return line, err
		}
	}
}

// TakeCharge returns the charge of the last line.
func (l *lines) TakeCharge() *bufpool.Charge {
	charge := l.charge
	l.charge = nil
	return charge
}

// readLine returns one line without its end, the white space around it and a byte order mark. The last
// line need not have an end.
func (l *lines) readLine() ([]byte, error) {
	line := l.recycled
	l.recycled = nil
	for {
		part, err := l.r.ReadSlice('\n')
		if len(part) > cap(line)-len(line) { // doubling wastes less memory than append does
			line = slices.Grow(line, max(len(part), min(len(line), l.maxLine-len(line))))
		}
		line = append(line, part...)
		full := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case full && len(line) > l.maxLine+len("\r"):
			return nil, l.skipLine(line)
		case full:
		case errors.Is(err, io.EOF) && isCutAnswer(line):
			// It fails no call, since the end of the stream says more.
			return nil, &DecodeError{Response: true, Err: &Error{Code: ParseError, Message: "the last line is incomplete"}}
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			if len(bytes.TrimRight(line, "\r\n")) > l.maxLine {
				return nil, l.tooLong(line, line)
			}
			return bytes.Trim(jsonscan.TrimBOM(line), " \t\r\n"), nil
		default:
			return nil, err // the line is incomplete
		}
	}
}

// isCutAnswer reports whether a line without an end is the beginning of a response.
func isCutAnswer(line []byte) bool {
	if jsonscan.KindOf(line) != jsonscan.Object || jsonscan.Valid(line) == nil {
		return false
	}
	_, err := Decode(line)
	bad, ok := errors.AsType[*DecodeError](err)
	return ok && bad.Response
}

// Recycle makes the memory of a line available for the next one.
func (l *lines) Recycle(line []byte) {
	if cap(line) <= maxRecycled {
		l.recycled = line[:0]
	}
}

// skipLine reads the rest of a line that is too long.
func (l *lines) skipLine(begin []byte) error {
	for {
		if end, err := l.r.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return l.tooLong(begin, end)
		}
	}
}

// tooLong returns the error of a line that is too long, with the id of the message if it can be
// read, so that the call that it answers fails.
func (l *lines) tooLong(begin, end []byte) error {
	return refuseUnread(begin, end, &Error{Code: InvalidRequest, Message: fmt.Sprintf("a line may have at most %d bytes", l.maxLine)})
}

// Write queues one message as one line.
func (l *lines) Write(ctx context.Context, msg []byte) error {
	l.mu.Lock()
	for l.queued != nil && len(l.queued.Bytes) >= maxQueuedLines && l.err == nil && !l.closed {
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
		l.queued = buffers.Get()
	}
	l.queued.Bytes = append(jsonscan.AppendLine(l.queued.Bytes, msg), '\n')
	select {
	case l.pending <- struct{}{}:
	default:
	}
	return nil
}

// writeQueued writes until the stream is closed or writing fails. After a failure, reading
// continues for flushGrace, since the peer may have sent messages before.
func (l *lines) writeQueued() {
	defer close(l.written)
	if l.writeAll() == nil {
		return
	}
	select {
	case <-l.closing:
	case <-time.After(flushGrace):
		_ = l.hangUp() // Close returns the error
	}
}

// writeAll writes everything that is queued in one piece, so that messages written at the
// same time share a system call.
func (l *lines) writeAll() error {
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
			l.makeRoom() // a waiting Write returns the error
		}
		l.mu.Unlock()
		if done {
			return err
		}
	}
}

func (l *lines) makeRoom() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

func (l *lines) writeError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close writes the queued lines, for at most flushGrace, and closes the stream.
func (l *lines) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.closing)
	}
	l.mu.Unlock()
	l.awaitWriter()
	err := l.hangUp()
	// Closing an inherited descriptor may not end a blocked write, so this wait is bounded too.
	l.awaitWriter()
	return err
}

func (l *lines) awaitWriter() {
	select {
	case <-l.written:
	case <-time.After(flushGrace):
	}
}
