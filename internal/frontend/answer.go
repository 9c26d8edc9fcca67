package frontend

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

const (
	// maxShown is how many bytes of a name are shown or logged.
	maxShown = 256
	// writeTimeout is how long a client may take to accept a piece of an answer.
	writeTimeout = 10 * time.Second
	// writePiece is the size of such a piece, in bytes.
	writePiece = 64 << 10
)

// WriteJSON answers a request with a JSON text.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	Write(w, status, "application/json", body)
}

// Write answers a request, in pieces that the client must accept in time.
func Write(w http.ResponseWriter, status int, contentType string, body []byte) {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	control := http.NewResponseController(w)
	w.WriteHeader(status)
	for len(body) > 0 {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has deadlines
		piece := body[:min(len(body), writePiece)]
		if _, err := w.Write(piece); err != nil {
			return // the connection has ended
		}
		body = body[len(piece):]
	}
}

// Encode returns the JSON of a value, in which raw JSON keeps all but its spaces. It is for
// types that can be encoded.
func Encode(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic("frontend: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// WriteDetail answers a request with an error as {"detail": message}.
func WriteDetail(w http.ResponseWriter, status int, message string) {
	WriteJSON(w, status, Encode(struct {
		Detail string `json:"detail"`
	}{message}))
}

// Reject answers a request with an error in the form of a handler.
type Reject func(w http.ResponseWriter, status int, message string)

// Unread rejects a request without reading its body.
func (reject Reject) Unread(w http.ResponseWriter, r *http.Request, status int, message string) {
	edge.TurnAway(&translated{ResponseWriter: w, reject: reject}, r, status, jsonrpc.InvalidRequest, message)
}

// Allows reports whether a request has the method of its route. If not, it has been answered.
func (reject Reject) Allows(w http.ResponseWriter, r *http.Request, method string) bool {
	if r.Method == method || method == http.MethodGet && r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", method)
	reject.Unread(w, r, http.StatusMethodNotAllowed, "Method Not Allowed")
	return false
}

// A translated writer turns the errors of package edge into the form of a handler. Nothing
// else is written to it.
type translated struct {
	http.ResponseWriter

	reject Reject
	status int
}

// Unwrap is for http.ResponseController.
func (t *translated) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader keeps the status of an error.
func (t *translated) WriteHeader(status int) {
	t.status = status
	if status < http.StatusBadRequest { // the answer to a preflight, which has no body
		t.ResponseWriter.WriteHeader(status)
	}
}

// Write gets the whole error.
func (t *translated) Write(body []byte) (int, error) {
	message := http.StatusText(t.status)
	if answer, err := jsonrpc.Decode(body); err == nil {
		if answer, ok := answer.(*jsonrpc.Response); ok && answer.Error != nil {
			message = answer.Error.Message
		}
	}
	t.reject(t.ResponseWriter, t.status, message)
	return len(body), nil
}

// Cut shortens a name that others have chosen.
func Cut(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return strings.ToValidUTF8(name[:maxShown], "") + "…"
}
