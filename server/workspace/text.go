package workspace

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Line is one of a text.
type Line struct {
	// Number counts from 1.
	Number int
	// Text is without the line's end; of a line longer than [MaxLine] it is the beginning,
	// and an ellipsis.
	Text string
}

// IsText looks at the beginning of a file: a text has no NUL, few control characters, and
// is UTF-8. The last character may be cut.
func IsText(head []byte) bool {
	control := 0
	for _, c := range head {
		switch {
		case c == 0:
			return false
		case c < ' ' && !strings.ContainsRune("\t\n\r\f\b\x1b", rune(c)), c == 0x7F:
			control++
		}
	}
	for i := 1; i < utf8.UTFMax && len(head) > 0 && !utf8.Valid(head); i++ {
		head = head[:len(head)-1]
	}
	return control*10 <= len(head)*3 && utf8.Valid(head)
}

// Lines reads at most limit lines of a text file, from the one with the number first on,
// and at most [MaxText] bytes. more says that others follow. What is beyond [MaxScanned]
// bytes is not looked for.
func (w *Workspace) Lines(ctx context.Context, path string, first, limit int) (lines []Line, more bool, err error) {
	f, err := w.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	reader := bufio.NewReader(f)
	if head, _ := reader.Peek(sniffed); !IsText(head) {
		return nil, false, &Error{path, ErrBinary}
	}
	scanned, read := 0, 0
	for number := 1; ; number++ {
		line, size, err := nextLine(reader, MaxLine)
		scanned += size
		switch {
		case size == 0 && err == io.EOF && (number > first || number == 1):
			return lines, false, nil
		case size == 0 && err == io.EOF:
			return nil, false, &Error{path, fmt.Errorf("has %d lines, and none with the number %d", number-1, first)}
		case err != nil && err != io.EOF:
			return nil, false, w.wrap(path, err)
		case ctx.Err() != nil:
			return nil, false, context.Cause(ctx)
		case scanned > MaxScanned:
			return nil, false, &Error{path, fmt.Errorf("%w: lines are not looked for beyond %d bytes", ErrTooLarge, MaxScanned)}
		case len(lines) == limit, read > MaxText:
			return lines, true, nil
		}
		if number >= first {
			lines = append(lines, Line{number, shown(line)})
			read += len(line)
		}
	}
}

// nextLine reads a line of any length, and returns its beginning, of which no more than most
// bytes are of interest, and how many bytes it has. A longer beginning says that it is cut.
func nextLine(r *bufio.Reader, most int) (line string, size int, err error) {
	var kept []byte
	for {
		piece, err := r.ReadSlice('\n')
		size += len(piece)
		kept = append(kept, piece[:min(len(piece), max(0, most+len("\r\n")-len(kept)))]...)
		if err == bufio.ErrBufferFull && size <= MaxScanned {
			continue
		}
		if err == bufio.ErrBufferFull {
			err = nil
		}
		return strings.TrimRight(string(kept), "\r\n"), size, err
	}
}

// shown is what is shown of a line.
func shown(line string) string {
	if len(line) > MaxLine {
		line = line[:MaxLine] + "…"
	}
	return strings.ToValidUTF8(line, "\uFFFD")
}
