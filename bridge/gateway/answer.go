package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/edge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// writeJSON answers a request, in pieces that the client must take in time.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	write(w, status, "application/json", body)
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
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
			return // the client has gone
		}
		body = body[len(piece):]
	}
}

// A refuser answers a request with an error in the form of a face.
type refuser func(w http.ResponseWriter, status int, message string)

// turnAway answers a request whose body stays unread.
func (refuse refuser) turnAway(w http.ResponseWriter, r *http.Request, status int, message string) {
	edge.TurnAway(&translated{ResponseWriter: w, refuse: refuse}, r, status, jsonrpc.InvalidRequest, message)
}

// A translated writer has the refusals of package edge in the form of a face. Nothing else
// is written to it.
type translated struct {
	http.ResponseWriter

	refuse refuser
	status int
}

// Unwrap is for http.ResponseController.
func (t *translated) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// WriteHeader takes the status.
func (t *translated) WriteHeader(status int) {
	t.status = status
	if status < http.StatusBadRequest { // the answer to a preflight, which has no body
		t.ResponseWriter.WriteHeader(status)
	}
}

// Write takes the error, which comes as a whole.
func (t *translated) Write(body []byte) (int, error) {
	message := http.StatusText(t.status)
	if answer, err := jsonrpc.Decode(body); err == nil {
		if answer, ok := answer.(*jsonrpc.Response); ok && answer.Error != nil {
			message = answer.Error.Message
		}
	}
	t.refuse(t.ResponseWriter, t.status, message)
	return len(body), nil
}

// text is a text as a JSON string.
func text(s string) []byte { return jsonscan.AppendString(nil, s) }

// cut shortens a name that somebody else has chosen.
func cut(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return strings.ToValidUTF8(name[:maxShown], "") + "…"
}
