package edge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/buffer"
)

// ReadJSON reads the body of a request, which the caller may keep. If it is not ok,
// the request has been answered: 415 unless the body is application/json, in UTF-8
// and not encoded; 413 when it has more than limit bytes; 408 when it comes too
// slowly, after 10 seconds at less than 1 KiB a second; 400 when it breaks off. Whether
// it is JSON is not looked at.
//
// Read deadlines keep the time, where the server has them; none is left behind.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64) (body []byte, ok bool) {
	switch {
	case !IsJSON(r.Header["Content-Type"]):
		refuse(w, r, http.StatusUnsupportedMediaType, "expected a body of Content-Type application/json")
		return nil, false
	case !isPlain(r.Header["Content-Encoding"]):
		w.Header().Set("Accept-Encoding", "identity")
		refuse(w, r, http.StatusUnsupportedMediaType, "expected a body without Content-Encoding")
		return nil, false
	}
	control := http.NewResponseController(w)
	body, err := readBody(r, limit, control)
	switch {
	case err == nil:
		_ = control.SetReadDeadline(time.Time{}) // it fails where there are none
		return body, true
	case errors.Is(err, errTooLong):
		refuse(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("a body may have at most %d bytes", limit))
	case errors.Is(err, os.ErrDeadlineExceeded):
		refuse(w, r, http.StatusRequestTimeout, "the body came too slowly")
	default:
		refuse(w, r, http.StatusBadRequest, "the body broke off")
	}
	return nil, false
}

// IsJSON says whether the lines of a Content-Type are of JSON, in UTF-8.
func IsJSON(lines []string) bool {
	if len(lines) != 1 {
		return false
	}
	if lines[0] == "application/json" {
		return true
	}
	name, params, err := mime.ParseMediaType(lines[0])
	if err != nil || name != "application/json" {
		return false
	}
	for param, value := range params {
		if param != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}

func isPlain(lines []string) bool {
	for _, line := range lines {
		if line != "" && !strings.EqualFold(line, "identity") {
			return false
		}
	}
	return true
}

var errTooLong = errors.New("the body is too long")

// growing is lent to bodies of which it shows only as they come how large they are.
var growing buffer.Pool

// readBody reads a whole body. A claimed length costs little: what may be large is read
// into a buffer that grows with what has come, and copied when it is all there.
func readBody(r *http.Request, limit int64, control *http.ResponseController) ([]byte, error) {
	switch {
	case r.ContentLength > limit:
		return nil, errTooLong
	case r.ContentLength < 0:
		return readInto(make([]byte, 0, min(limit+1, unknownBuffer)), r, limit, control)
	case r.ContentLength <= firstBuffer:
		return readInto(make([]byte, 0, r.ContentLength), r, limit, control)
	}
	memory := growing.Get()
	if cap(memory.Bytes) < firstBuffer {
		memory.Bytes = make([]byte, 0, firstBuffer)
	}
	body, err := readInto(memory.Bytes, r, limit, control)
	memory.Bytes = body
	defer memory.Free()
	if err != nil {
		return nil, err
	}
	return bytes.Clone(body), nil
}

// readInto reads a body to the end of a buffer that is empty, and of others if that is
// too small.
func readInto(body []byte, r *http.Request, limit int64, control *http.ResponseController) ([]byte, error) {
	most := r.ContentLength
	if most < 0 {
		most = min(limit, math.MaxInt64-1) + 1
	}
	for start := time.Now(); ; {
		setDeadline(control, start, len(body))
		n, err := r.Body.Read(body[len(body):window(len(body), cap(body), most, r.ContentLength < 0)])
		body = body[:len(body)+n]
		have := int64(len(body))
		switch {
		case have > limit:
			return body, errTooLong
		case have == r.ContentLength, err == io.EOF && r.ContentLength < 0:
			return body, nil
		case err == io.EOF:
			return body, io.ErrUnexpectedEOF
		case err != nil:
			return body, err
		case len(body) == cap(body):
			// slices.Grow would add up to a quarter to what is asked for, each time.
			body = append(make([]byte, 0, have+min(have, most-have)), body...)
		}
	}
}

// setDeadline gives the next read what the body has earned since its start by coming
// quickly, but never more than the time that costs nothing.
func setDeadline(control *http.ResponseController, start time.Time, have int) {
	earned := start.Add(freeTime + time.Duration(have)*time.Second/slowest)
	if limit := time.Now().Add(freeTime); earned.After(limit) {
		earned = limit
	}
	_ = control.SetReadDeadline(earned) // it fails where there are none
}

// window is where the next read ends: one of a chunked body returns only when it has
// filled what it was given, so it gets little at a time.
func window(have, room int, most int64, chunked bool) int {
	end := min(int64(room), most)
	if chunked {
		end = min(end, int64(have)+chunkWindow)
	}
	return int(end)
}

// AbandonBody keeps a body that nobody reads from holding the connection: net/http
// would wait for the rest of it, before it sends the answer and after.
func AbandonBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime)) // it fails where there are none
}
