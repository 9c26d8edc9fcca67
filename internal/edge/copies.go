package edge

import (
	"bytes"
	"net/http"
)

// Copies returns a writer that lets go of what it was given when Write returns. That of
// HTTP/1 is such a one; that of HTTP/2 in net/http may go on reading it for a moment after
// a write that failed, by when memory that is used again has another client's answer in it.
func Copies(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if r.ProtoMajor < 2 {
		return w
	}
	return copies{w}
}

type copies struct{ http.ResponseWriter }

func (c copies) Write(p []byte) (int, error) { return c.ResponseWriter.Write(bytes.Clone(p)) }

// Unwrap is for [http.ResponseController].
func (c copies) Unwrap() http.ResponseWriter { return c.ResponseWriter }
