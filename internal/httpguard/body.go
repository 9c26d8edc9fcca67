package httpguard

import (
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/bufpool"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// ReadJSON reads the body of a request. The caller owns the result, and releases the charge when
// the body is no longer needed. If ok is false, the request has been answered: with 415 unless
// the body is application/json in UTF-8 without an encoding; 413 if it has more than limit bytes;
// 408 if it is slower than [Deadline] allows; 503 if it has more than 64 KiB and the budget, which
// may be nil, has no room; 400 if it is incomplete. ReadJSON does not check that the body is valid
// JSON. It removes a byte order mark.
//
// It sets read deadlines, if the server supports them, and removes them before it returns.
func ReadJSON(w http.ResponseWriter, r *http.Request, limit int64, budget *bufpool.Budget) (body []byte, charge *bufpool.Charge, ok bool) {
	switch {
	case !IsJSON(r.Header["Content-Type"]):
		refuse(w, r, http.StatusUnsupportedMediaType, "expected a body of Content-Type application/json")
		return nil, nil, false
	case !isPlain(r.Header["Content-Encoding"]):
		w.Header().Set("Accept-Encoding", "identity")
		refuse(w, r, http.StatusUnsupportedMediaType, "expected a body without Content-Encoding")
		return nil, nil, false
	}
	reading := bodyReader{r: r, limit: limit, budget: budget}
	body, err := reading.read(w)
	if err == nil {
		return jsonscan.TrimBOM(body), reading.charge, true
	}
	reading.charge.Release()
	switch {
	case errors.Is(err, errTooLong):
		refuse(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("a body may have at most %d bytes", limit))
	case errors.Is(err, bufpool.ErrFull):
		AbandonBody(w, r)
		RefuseBusy(w, err.Error())
	case errors.Is(err, os.ErrDeadlineExceeded):
		refuse(w, r, http.StatusRequestTimeout, "the body came too slowly")
	default:
		refuse(w, r, http.StatusBadRequest, "the body broke off")
	}
	return nil, nil, false
}

// IsJSON reports whether the lines of a Content-Type header say JSON in UTF-8.
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

// A bodyReader reads one body.
type bodyReader struct {
	r      *http.Request
	limit  int64
	budget *bufpool.Budget
	charge *bufpool.Charge // of the buffer
}

// read reads a whole body. Its buffer grows with what has arrived, whatever length was claimed,
// and is charged before it grows.
func (b *bodyReader) read(w http.ResponseWriter) ([]byte, error) {
	control := http.NewResponseController(w)
	length := b.r.ContentLength
	most := length // of bytes to read
	first := min(length, firstBuffer)
	switch {
	case length > b.limit:
		return nil, errTooLong
	case length < 0:
		most = min(b.limit, math.MaxInt64-1) + 1
		first = min(most, unknownBuffer)
	}
	body := make([]byte, 0, first)
	for start := time.Now(); ; {
		_ = control.SetReadDeadline(Deadline(start, len(body))) // not every server has deadlines
		n, err := b.r.Body.Read(body[len(body):window(len(body), cap(body), most, length < 0)])
		body = body[:len(body)+n]
		have := int64(len(body))
		switch {
		case have > b.limit:
			return nil, errTooLong
		case have == length, err == io.EOF && length < 0:
			_ = control.SetReadDeadline(time.Time{}) // not every server has deadlines
			return body, nil
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case len(body) == cap(body):
			// slices.Grow would allocate up to a quarter more each time.
			larger := min(2*have, most)
			if have >= bufpool.Small {
				larger = min(growth*have, most)
			}
			if b.charge, err = b.budget.Grow(b.r.Context(), b.charge, int(larger)); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, larger), body...)
		}
	}
}

// Deadline returns the deadline of the next read of a message: have bytes of it have arrived since
// start. A message may take 10 seconds, and one second more for each 16 KiB that have arrived. No
// read may take more than 10 seconds.
func Deadline(start time.Time, have int) time.Time {
	earned := start.Add(freeTime + time.Duration(have)*time.Second/slowest)
	if limit := time.Now().Add(freeTime); earned.After(limit) {
		return limit
	}
	return earned
}

// window returns where the next read ends. A read of a chunked body returns only when it
// has filled its buffer, so it gets a small one.
func window(have, room int, most int64, chunked bool) int {
	end := min(int64(room), most)
	if chunked {
		end = min(end, int64(have)+chunkWindow)
	}
	return int(end)
}

// AbandonBody stops net/http from waiting for the rest of an unread body, before and after
// it sends the response.
func AbandonBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 {
		return
	}
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime)) // not every server has deadlines
}

const (
	// freeTime is how long a message may take at any rate.
	freeTime = 10 * time.Second
	// slowest is the minimum rate in bytes per second after freeTime. At that rate, a message of
	// 4 MiB takes less than five minutes.
	slowest = 16 << 10
	// drainTime is how long a connection waits for the rest of an unread body.
	drainTime = time.Second
	// firstBuffer is the largest buffer that is allocated because of a claimed length.
	firstBuffer = 16 << 10
	// growth is by how much the full buffer of a large body grows. The earlier buffers are garbage.
	growth = 4
	// unknownBuffer is the first buffer for a body of unknown length.
	unknownBuffer = 4 << 10
	// chunkWindow is how many bytes of a chunked body are read at a time. At the slowest
	// rate that takes less than freeTime.
	chunkWindow = 8 << 10
	// preflightAge is how many seconds a browser may cache a preflight. Browsers allow at
	// most two hours.
	preflightAge = "7200"
)
