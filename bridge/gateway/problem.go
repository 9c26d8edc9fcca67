package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// problemType begins the type of each problem. It is a name, and nothing is there (RFC 4151).
const problemType = "tag:dovetail-go.github.io,2026:problem/"

// An extension is a member of a problem that RFC 9457 does not know.
type extension struct {
	name  string
	value json.RawMessage
}

// write answers a request by a problem.
func (f *failure) write(w http.ResponseWriter, extensions ...extension) {
	out := jsonscan.AppendString([]byte(`{"type":`), problemType+f.kind)
	out = jsonscan.AppendString(append(out, `,"title":`...), strings.ReplaceAll(f.kind, "_", " "))
	out = strconv.AppendInt(append(out, `,"status":`...), int64(f.status), 10)
	out = jsonscan.AppendString(append(out, `,"detail":`...), f.message)
	if f.wire != nil {
		if told, err := f.wire.AppendJSON(nil); err == nil {
			extensions = append(extensions, extension{"error", told})
		}
	}
	for _, e := range extensions {
		out = append(jsonscan.AppendString(append(out, ','), e.name), ':')
		out = append(out, e.value...)
	}
	if f.status == http.StatusServiceUnavailable || f.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	write(w, f.status, "application/problem+json", append(out, '}'))
}

// writeProblem answers a request that is no call.
func writeProblem(w http.ResponseWriter, status int, message string) {
	kind := strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "_")
	(&failure{kind: kind, status: status, message: message}).write(w)
}
