package peertext

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

// The limits of a [Writer]. A flood of any length adds at most the burst and what the rates
// allow for its duration to a log.
const (
	// MaxLine is the maximum length of a line, in bytes before escaping. The rest of a longer
	// line is replaced by its size.
	MaxLine = 1 << 10
	// BurstLines and BurstBytes are what a writer passes on without a limit of the rate. They
	// suffice for the messages of a server that starts. Bytes count after escaping.
	BurstLines, BurstBytes = 1000, 256 << 10
	// LinesPerSecond and BytesPerSecond are the rates after that.
	LinesPerSecond, BytesPerSecond = 20, 4 << 10
	// maxName is the maximum length of a name before escaping, in bytes.
	maxName = 64
	// minWidth is the minimum width of text on a narrow terminal, in columns.
	minWidth = 16
)

// A Writer passes the lines of a peer on to another writer. Each line is escaped as
// [EscapeLines] does, begins with the name of the peer, and is one Write. Lines end at line feeds and carriage
// returns; empty lines are dropped. Lines over the limits are counted, and the count is
// written before the next line that is passed on, or by Close.
//
// On a terminal, lines that are longer than the window are wrapped, and each part begins with
// the name, so that no text of the peer begins in the first column.
//
// A Writer may be used concurrently. It holds at most [MaxLine] bytes, and as many as the longest
// secret has. It starts no goroutine.
type Writer struct {
	out     io.Writer
	name    string
	secrets *Redactor
	now     func() time.Time

	mu           sync.Mutex
	line         []byte // the beginning of the current line
	omitted      int64  // bytes of the current line that are not in line
	lineTokens   float64
	byteTokens   float64
	refilled     time.Time
	skippedLines int64
	skippedBytes int64
}

// NewWriter returns a writer of the lines of a peer. It redacts secrets, which may be nil. Writing to out should not
// block, because the peer may wait for Write. Errors of out are ignored. Writers of several peers may share out if out
// may be used concurrently.
func NewWriter(out io.Writer, name string, secrets *Redactor) *Writer {
	return newWriter(out, name, secrets, time.Now)
}

func newWriter(out io.Writer, name string, secrets *Redactor, now func() time.Time) *Writer {
	return &Writer{
		out: out, name: Escape(Cut(name, maxName)), secrets: secrets, now: now,
		lineTokens: BurstLines, byteTokens: BurstBytes, refilled: now(),
	}
}

// Write never fails, so that a broken terminal or log does not stop the peer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	written := len(p)
	for len(p) > 0 {
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			end = len(p)
		}
		kept := min(end, MaxLine+w.secrets.Longest()-len(w.line))
		w.line = append(w.line, p[:kept]...)
		w.omitted += int64(end - kept)
		if end < len(p) {
			w.endLine()
			end++
		}
		p = p[end:]
	}
	return written, nil
}

// Close writes an unfinished line and the number of suppressed lines. It does nothing while a
// Write blocks. It does not close the other writer.
func (w *Writer) Close() error {
	if !w.mu.TryLock() {
		return nil
	}
	defer w.mu.Unlock()
	w.endLine()
	w.reportSkipped()
	return nil
}

// endLine passes the current line on or counts it.
func (w *Writer) endLine() {
	size := int64(len(w.line)) + w.omitted
	if size == 0 {
		return
	}
	if w.permitted() {
		w.reportSkipped()
		text := w.secrets.Redact(string(w.line))
		omitted := w.omitted
		if len(text) > MaxLine {
			omitted += int64(len(text) - MaxLine)
			text = text[:MaxLine]
		}
		text = EscapeLines(text) // it has no line break
		if omitted > 0 {
			text += "… " + sizeOf(omitted) + " more"
		}
		w.print(text)
	} else {
		w.skippedLines++
		w.skippedBytes += size
	}
	w.line, w.omitted = w.line[:0], 0
}

// permitted reports whether the rate permits a line. After suppression began, it waits until
// several lines are permitted, so that the output is not a report after each line.
func (w *Writer) permitted() bool {
	now := w.now()
	if elapsed := now.Sub(w.refilled).Seconds(); elapsed > 0 {
		w.lineTokens = min(BurstLines, w.lineTokens+elapsed*LinesPerSecond)
		w.byteTokens = min(BurstBytes, w.byteTokens+elapsed*BytesPerSecond)
		w.refilled = now
	}
	if w.skippedLines > 0 {
		return w.lineTokens >= LinesPerSecond && w.byteTokens >= BytesPerSecond
	}
	return w.lineTokens >= 1 && w.byteTokens > 0
}

func (w *Writer) reportSkipped() {
	if w.skippedLines == 0 {
		return
	}
	plural := "s"
	if w.skippedLines == 1 {
		plural = ""
	}
	w.print(fmt.Sprintf("… %s more line%s (%s) suppressed", grouped(w.skippedLines), plural, sizeOf(w.skippedBytes)))
	w.skippedLines, w.skippedBytes = 0, 0
}

// print writes an escaped line after the name.
func (w *Writer) print(text string) {
	parts := []string{text}
	if columns := Columns(w.out); columns > 0 { // the last column may cause a line break
		parts = Wrap(text, max(minWidth, columns-len(w.name)-len(": ")-1))
	}
	var b strings.Builder
	for i, part := range parts {
		mark := ": "
		if i > 0 {
			mark = "| "
		}
		b.WriteString(w.name + mark + part + "\n")
	}
	w.lineTokens--
	w.byteTokens -= float64(b.Len())
	_, _ = w.out.Write([]byte(b.String())) // WriteString may be a method that is not safe for concurrent use
}

// grouped formats a number with commas: 12,345.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// sizeOf formats a number of bytes: 12 bytes, 3.4 kB, 2.1 MB.
func sizeOf(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 1000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// A wrappingWriter writes to another writer. [Columns] looks for it. Without it, a writer that is no file is no terminal.
type wrappingWriter interface{ Unwrap() io.Writer }

// Columns returns the width of the terminal that out writes to, directly or by writers with a method Unwrap, such as those of
// [Screen]. It returns 0 if out is no terminal, or if the width is not known.
func Columns(out io.Writer) int {
	for {
		wrapper, ok := out.(wrappingWriter)
		if !ok {
			break
		}
		out = wrapper.Unwrap()
	}
	file, ok := out.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return 0
	}
	columns := 0
	_ = raw.Control(func(fd uintptr) { // an error leaves columns at 0
		if width, _, err := term.GetSize(int(fd)); err == nil {
			columns = width
		}
	})
	return columns
}
