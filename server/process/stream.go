package process

import (
	"io"
	"os"
	"sync/atomic"
)

// A stream is what a command writes, on its way to a writer.
type stream struct {
	io.Writer
	unread *atomic.Int32 // streams whose ends have not been seen
}

// counted has the end of a stream be noticed. A file is the command's own.
func (p *Process) counted(w io.Writer) io.Writer {
	if _, file := w.(*os.File); file || w == nil {
		return w
	}
	return stream{w, &p.unread}
}

// ReadFrom reads the whole stream. Package os/exec copies with it.
func (s stream) ReadFrom(r io.Reader) (int64, error) {
	s.unread.Add(1)
	n, err := io.Copy(s.Writer, r)
	if err == nil {
		s.unread.Add(-1)
	}
	return n, err
}
