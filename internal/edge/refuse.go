package edge

import (
	"net/http"

	"github.com/dovetail-go/dovetail/jsonrpc"
)

// TurnAway answers a request whose body stays unread as [Refuse] does.
func TurnAway(w http.ResponseWriter, r *http.Request, status int, code jsonrpc.Code, message string) {
	AbandonBody(w, r)
	Refuse(w, status, code, message)
}

// Refuse answers a request with a JSON-RPC error without an id.
func Refuse(w http.ResponseWriter, status int, code jsonrpc.Code, message string) {
	body, err := jsonrpc.Append(nil, &jsonrpc.Response{Error: &jsonrpc.Error{Code: code, Message: message}})
	if err != nil {
		panic(err) // only an id could be at fault, and there is none
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has gone misses it
}
